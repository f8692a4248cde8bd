"""tests/bench/peer_programs.py: inference of the networks of programs.lua by PyTorch, eager and
compiled, and by onnxruntime where Python finds it: the best of several rounds, in microseconds.
usage: peer_programs.py THREADS [FILTER [compile]]"""
import io
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

THREADS = int(sys.argv[1])
FILTER = sys.argv[2] if len(sys.argv) > 2 else ""
COMPILE = len(sys.argv) > 3
torch.set_num_threads(THREADS)


def mlp():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), (torch.randn(1, 4),)


def policy():
    return (nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)),
            (torch.randn(1, 64),))


def lenet():
    return (nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(),
                          nn.Linear(128, 10)), (torch.randn(1, 1, 28, 28),))


def depthwise():
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    blocks = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    for a, b, stride in blocks + [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]:
        layers += [nn.Conv2d(a, a, 3, stride, 1, groups=a, bias=False), nn.BatchNorm2d(a), nn.ReLU(),
                   nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)]
    return nn.Sequential(*layers), (torch.randn(1, 3, 224, 224),)


def encoder():
    layer = nn.TransformerEncoderLayer(256, 8, 1024, 0, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), (torch.randn(1, 128, 256),)


class Token(nn.Module):
    def __init__(self, d=128, h=4, layers=4):
        super().__init__()
        self.h, self.te, self.ln, self.o = h, nn.Embedding(65, d), nn.LayerNorm(d), nn.Linear(d, 65)
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d),
                           nn.Linear(d, 4 * d), nn.Linear(4 * d, d)]) for _ in range(layers))

    def forward(self, token, past):
        x, kept = self.te(token), []
        d = x.shape[-1]
        for i, (l1, qkv, pr, l2, f1, f2) in enumerate(self.blocks):
            q, k, v = (t.view(1, 1, self.h, d // self.h).transpose(1, 2) for t in qkv(l1(x)).split(d, -1))
            k, v = torch.cat([past[2 * i], k], 2), torch.cat([past[2 * i + 1], v], 2)
            kept += [k, v]
            a = F.scaled_dot_product_attention(q, k, v)
            x = x + pr(a.transpose(1, 2).reshape(1, 1, d))
            x = x + f2(F.gelu(f1(l2(x))))
        return self.o(self.ln(x)), *kept


def token():
    return Token(), (torch.zeros(1, 1, dtype=torch.int64), torch.randn(8, 1, 4, 63, 32))


def best(f, seconds=0.002, rounds=100):
    f()
    least = float("inf")
    for _ in range(rounds):
        start, n = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            f()
            n += 1
        start = time.perf_counter()
        for _ in range(n):
            f()
        least = min(least, (time.perf_counter() - start) / n)
    return least * 1e6


def session(net, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    data = io.BytesIO()
    torch.backends.mha.set_fastpath_enabled(False)  # a call that ONNX has no op for
    torch.onnx.export(net, inputs, data, dynamo=False)
    torch.backends.mha.set_fastpath_enabled(True)
    return onnxruntime.InferenceSession(data.getvalue(), options, providers=["CPUExecutionProvider"])


for make in (mlp, policy, lenet, depthwise, encoder, token):
    if FILTER not in make.__name__:
        continue
    net, inputs = make()
    net.eval()
    with torch.no_grad():
        print(f"{make.__name__}.eager {best(lambda: net(*inputs)):.2f} us", flush=True)
        if COMPILE:
            start = time.perf_counter()
            fast = torch.compile(net)
            fast(*inputs)
            first = time.perf_counter() - start
            print(f"{make.__name__}.compiled {best(lambda: fast(*inputs)):.2f} us, first call {first:.1f} s",
                  flush=True)
        if onnxruntime:
            run = session(net, inputs)
            given = dict(zip((i.name for i in run.get_inputs()), (x.numpy() for x in inputs)))
            print(f"{make.__name__}.onnxruntime {best(lambda: run.run(None, given)):.2f} us", flush=True)
