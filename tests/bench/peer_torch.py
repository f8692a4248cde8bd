"""tests/bench/peer_torch.py: the measures of bench.lua made with PyTorch on the CPU, one line
`name value unit` each. usage: peer_torch.py THREADS [REPEATS]
peer_torch.py THREADS --memory gives those of memory.lua instead: bytes as PyTorch's CPU allocator
reports each of its blocks to the profiler. oneDNN's own scratch memory is not among them, nor is it
in memory.lua."""
import itertools
import os
import statistics
import sys
import time

THREADS = sys.argv[1] if len(sys.argv) > 1 else "1"
MEMORY = sys.argv[2:] == ["--memory"]
REPEATS = float(sys.argv[2]) if len(sys.argv) > 2 and not MEMORY else 1.0
for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = THREADS

import torch  # noqa: E402  (after the environment it reads)
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

torch.set_num_threads(int(THREADS))
torch.manual_seed(0)


def scaled(count):
    return max(1, round(count * REPEATS))


def median(f, n=9, inner=1):
    """The median over n rounds of the seconds one call takes; a first call does not count."""
    inner = scaled(inner)
    f()
    rounds = []
    for _ in range(scaled(n)):
        start = time.perf_counter()
        for _ in range(inner):
            f()
        rounds.append((time.perf_counter() - start) / inner)
    return statistics.median(rounds)


def show(name, value, unit):
    print(f"{name} {value:.4g} {unit}", flush=True)


def show_bytes(name, value):
    print(f"{name} {value} bytes", flush=True)


def nanoseconds(f, count=20000):
    count = scaled(count)

    def loop():
        for _ in range(count):
            f()
    return median(loop, 7) / count * 1e9


def small_ops():
    one, a, b, m = torch.ones(1), torch.ones(10), torch.ones(10), torch.ones(4, 4)
    g = torch.ones(10, requires_grad=True)
    show("op.empty_loop", nanoseconds(lambda: None), "ns")
    show("op.add_inplace_1", nanoseconds(lambda: one.add_(1)), "ns")
    show("op.add_out_10", nanoseconds(lambda: a + b), "ns")
    show("op.mul_scalar_10", nanoseconds(lambda: a * 2.0), "ns")
    show("op.add_grad_10", nanoseconds(lambda: g + b), "ns")
    show("op.select", nanoseconds(lambda: m[0]), "ns")
    show("op.item", nanoseconds(lambda: m[0, 1].item()), "ns")
    show("op.matmul_4x4", nanoseconds(lambda: m @ m), "ns")

    def chain():
        x = g
        for _ in range(10):
            x = torch.tanh(x * 2.0 + b)
        x.sum().backward()
    show("op.chain30_fwd_bwd", median(chain, 9, 200) * 1e6, "us")


def elementwise():
    n = 10_000_000
    x, y, z = torch.randn(n), torch.randn(n), torch.empty(n)
    show("ew.add_out", 12 * n / median(lambda: torch.add(x, y, out=z)) / 1e9, "GB/s")
    for name in ["exp", "tanh", "sigmoid", "log", "sin", "erf", "sqrt"]:
        f, s = getattr(torch, name), x.abs() if name in ("log", "sqrt") else x
        show("ew." + name, median(lambda: f(s, out=z)) / n * 1e9, "ns/elem")
    show("ew.gelu", median(lambda: F.gelu(x)) / n * 1e9, "ns/elem")
    show("ew.where", median(lambda: torch.where(x > 0, x, y)) / n * 1e9, "ns/elem")
    show("red.sum_all", 4 * n / median(lambda: x.sum()) / 1e9, "GB/s")
    show("sort.1e6", median(lambda: x[:1000000].sort()) * 1e3, "ms")
    show("cumsum.1e7", median(lambda: x.cumsum(0)) / n * 1e9, "ns/elem")
    show("rand.normal_1e7", median(lambda: z.normal_()) / n * 1e9, "ns/elem")


def matrices():
    q, index = torch.randn(4000, 4000), torch.randint(0, 4000, (4000,))
    show("red.sum_dim0", 4 * 16e6 / median(lambda: q.sum(0)) / 1e9, "GB/s")
    show("red.sum_dim1", 4 * 16e6 / median(lambda: q.sum(1)) / 1e9, "GB/s")
    show("red.max_dim1", 4 * 16e6 / median(lambda: q.max(1)) / 1e9, "GB/s")
    show("copy.transpose", 8 * 16e6 / median(lambda: q.t().contiguous()) / 1e9, "GB/s")
    show("softmax.4000x4000", median(lambda: q.softmax(1)) / 16e6 * 1e9, "ns/elem")
    show("layernorm.4000x4000", median(lambda: F.layer_norm(q, (4000,))) / 16e6 * 1e9, "ns/elem")
    seconds = median(lambda: q.index_select(0, index))
    show("index_select.4000x4000", 8 * 16e6 / seconds / 1e9, "GB/s")


def products():
    for n in (64, 256, 512, 1024, 2048):
        p, r = torch.randn(n, n), torch.randn(n, n)
        seconds = median(lambda: p @ r, 7, max(1, 256 // n * 4))
        show(f"mm.{n}", 2 * n**3 / seconds / 1e9, "GFLOP/s")
    p, r = torch.randn(1024, 1024).double(), torch.randn(1024, 1024).double()
    show("mm.double_1024", 2 * 1024**3 / median(lambda: p @ r, 5) / 1e9, "GFLOP/s")
    p, r = torch.randn(64, 128, 64), torch.randn(64, 64, 128)
    flops = 2 * 64 * 128 * 64 * 128
    show("bmm.64x128x64x128", flops / median(lambda: p @ r) / 1e9, "GFLOP/s")
    x, w = torch.randn(16, 64, 56, 56), torch.randn(64, 64, 3, 3)
    flops = 2 * 16 * 64 * 64 * 9 * 56 * 56
    seconds = median(lambda: F.conv2d(x, w, padding=1), 5)
    show("conv.16x64x56x56_k3", flops / seconds / 1e9, "GFLOP/s")
    x, w = torch.randn(8, 96, 56, 56), torch.randn(96, 1, 5, 5)
    flops = 2 * 8 * 96 * 25 * 56 * 56
    seconds = median(lambda: F.conv2d(x, w, padding=2, groups=96), 5)
    show("conv.depthwise_8x96x56x56_k5", flops / seconds / 1e9, "GFLOP/s")


def trained(name, model, x, y, optimizer, n=15):
    """A network's name, optimiser and whole training step, and how many rounds to time it."""
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    return name, optimizer, step, n


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.l1, self.l2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.pr = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.l1(x)).split(c, 2)
        q, k, v = [u.view(b, t, self.h, c // self.h).transpose(1, 2) for u in parts]
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.pr(a.transpose(1, 2).reshape(b, t, c))
        return x + self.f2(F.gelu(self.f1(self.l2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=65, d=128, h=4, layers=4, t=64, checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.te, self.pe = nn.Embedding(vocabulary, d), nn.Embedding(t, d)
        self.b = nn.Sequential(*[Block(d, h) for _ in range(layers)])
        self.ln, self.o = nn.LayerNorm(d), nn.Linear(d, vocabulary)

    def forward(self, t):
        x = self.te(t) + self.pe.weight[: t.shape[1]]
        for block in self.b:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.o(self.ln(x)).reshape(-1, 65)


class Lstm(nn.Module):
    def __init__(self, features, size, classes):
        super().__init__()
        self.lstm, self.o = nn.LSTM(features, size, batch_first=True), nn.Linear(size, classes)

    def forward(self, x):
        return self.o(self.lstm(x)[1][0][0])


def mlp():
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                        nn.Linear(512, 10))
    return trained("mlp_784_512_512_10_b128_sgd", net, torch.randn(128, 784),
                   torch.randint(0, 10, (128,)), torch.optim.SGD(net.parameters(), 0.01))


def tiny():
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    return trained("tiny_4_16_3_b16_adam", net, torch.randn(16, 4), torch.randint(0, 3, (16,)),
                   torch.optim.Adam(net.parameters(), 0.01), 200)


def lenet():
    net = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5),
                        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(),
                        nn.Linear(128, 10))
    return trained("lenet_b64_adam", net, torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)),
                   torch.optim.Adam(net.parameters(), 1e-3))


def gpt(name="gpt_4x128_b16_t64_adamw", layers=4, checkpointed=False):
    net, text = Gpt(layers=layers, checkpointed=checkpointed), torch.randint(0, 65, (16, 64))
    return trained(name, net, text, text.reshape(-1),
                   torch.optim.AdamW(net.parameters(), 1e-3), 9)


def gpt24():
    return gpt("gpt_24x128_b16_t64_adamw", 24)


def gpt24_checkpoint():
    return gpt("gpt_24x128_b16_t64_checkpoint", 24, True)


def lstm():
    net = Lstm(256, 256, 10)
    return trained("lstm_256_b64_t50_adam", net, torch.randn(64, 50, 256),
                   torch.randint(0, 10, (64,)), torch.optim.Adam(net.parameters(), 1e-3), 9)


class CharLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.r = nn.Embedding(65, 128), nn.LSTM(128, 128, 2, batch_first=True)
        self.o = nn.Linear(128, 65)

    def forward(self, t):
        return self.o(self.r(self.e(t))[0]).reshape(-1, 65)


def charlstm():
    net, text = CharLstm(), torch.randint(0, 65, (50, 50))
    return trained("charlstm_2x128_b50_t50_adam", net, text, text.reshape(-1),
                   torch.optim.Adam(net.parameters(), 2e-3), 7)


class Residual(nn.Module):
    def __init__(self, of, to, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(of, to, 3, stride, 1, bias=False), nn.BatchNorm2d(to),
                                  nn.ReLU(), nn.Conv2d(to, to, 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(to))
        self.skip = nn.Identity() if of == to else nn.Sequential(
            nn.Conv2d(of, to, 1, stride, bias=False), nn.BatchNorm2d(to))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def resnet():
    net = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                        Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return trained("resnet_16_32_64_b64_sgd", net, torch.randn(64, 1, 28, 28),
                   torch.randint(0, 10, (64,)),
                   torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4), 9)


class Vit(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.patches = nn.Conv2d(1, d, 4, 4)
        self.positions = nn.Parameter(torch.zeros(1, 49, d))
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, 0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, nn.LayerNorm(d), enable_nested_tensor=False)
        self.o = nn.Linear(d, 10)

    def forward(self, x):
        return self.o(self.encoder(self.patches(x).flatten(2).transpose(1, 2) + self.positions).mean(1))


def vit():
    net = Vit(64)
    return trained("vit_4x64_b64_adamw", net, torch.randn(64, 1, 28, 28),
                   torch.randint(0, 10, (64,)), torch.optim.AdamW(net.parameters(), 1e-3), 9)


class Denoiser(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, d), nn.SiLU(), nn.Linear(d, d))
        self.first, self.last = nn.Conv2d(1, d, 3, padding=1), nn.Conv2d(d, 1, 3, padding=1)
        self.norm1, self.conv1 = nn.GroupNorm(8, d), nn.Conv2d(d, d, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, d), nn.Conv2d(d, d, 3, padding=1)

    def forward(self, x, t):
        h = self.first(x)
        a = self.conv1(F.silu(self.norm1(h))) + self.time(t)[:, :, None, None]
        return self.last(h + self.conv2(F.silu(self.norm2(a))))


def diffusion():
    net, x = Denoiser(64), torch.randn(128, 1, 8, 8)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)

    def step():
        t, noise = torch.rand(128, 1), torch.randn_like(x)
        kept = (1 - t).view(-1, 1, 1, 1)
        optimizer.zero_grad()
        F.mse_loss(net(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise).backward()
        optimizer.step()
    return "diffusion_64_b128_adam", optimizer, step, 9


def training():
    for make in (mlp, tiny, lenet, gpt, lstm, charlstm, resnet, vit, diffusion):
        name, _, step, rounds = make()
        show("train." + name, median(step, rounds) * 1e3, "ms/step")


def gelu(x):
    return x * 0.5 * (1 + torch.tanh((x + x * x * x * 0.044715) * 0.7978845608))


def nine(x):
    y = x * 2
    for _ in range(4):
        y = torch.tanh(y + x)
    return y


def adam(x):
    m = x * 0.9 + x * 0.1
    v = x * x * 0.999 + x * x * 0.001
    return x - m / ((v / 0.5).sqrt() + 1e-8) * 0.001


def compiled():
    """torch.compile: the first call, eager calls and compiled ones."""
    for f in (gelu, nine, adam):
        for n in (64, 1000, 4000000):
            x, name = torch.rand(n), f"compile.{f.__name__}_{n}"
            count = 1 if n > 10000 else 2000
            torch._dynamo.reset()
            with torch.no_grad():
                fast = torch.compile(f)
                start = time.perf_counter()
                fast(x)
                show(name + ".first_call", (time.perf_counter() - start) * 1e3, "ms")
                show(name + ".eager", median(lambda: f(x), 9, count) * 1e6, "us")
                show(name + ".compiled", median(lambda: fast(x), 9, count) * 1e6, "us")
    for make in (mlp, tiny, lenet, gpt, charlstm, resnet, vit):
        name, _, step, rounds = make()
        torch._dynamo.reset()
        fast = torch.compile(step)
        show(f"compile.{name}.eager", median(step, rounds) * 1e3, "ms/step")
        start = time.perf_counter()
        fast()
        show(f"compile.{name}.first_call", (time.perf_counter() - start) * 1e3, "ms")
        show(f"compile.{name}.compiled", median(fast, rounds) * 1e3, "ms/step")


def blocks_of(f):
    """The sizes of the blocks made (above 0) and freed (below) while f runs, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        f()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]


def memory():
    for make in (mlp, lenet, gpt, gpt24, gpt24_checkpoint):
        made = []
        before = sum(blocks_of(lambda: made.append(make())))
        _, optimizer, step, _ = made[0]

        def warm():
            for _ in range(5):
                step()
            optimizer.zero_grad()
        before += sum(blocks_of(warm))
        live = list(itertools.accumulate(blocks_of(step)))
        show_bytes(f"mem.{make.__name__}.before_bytes", before)
        show_bytes(f"mem.{make.__name__}.peak_bytes", max(live))


if __name__ == "__main__":
    print("torch", torch.__version__, "threads", torch.get_num_threads())
    if MEMORY:
        memory()
    else:
        small_ops()
        elementwise()
        matrices()
        products()
        training()
        compiled()
