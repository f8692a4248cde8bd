# scripts/gpu_check/speed_torch.py: what speed.lua measures, with PyTorch, by the same names.
import os
import sys
import time

try:
    import torch
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no CUDA device")
    sys.exit(77)


def seconds(f, count=10):
    f()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            f()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def result(name, value, unit):
    print(f"result\t{name}\t{value:.6g}\t{unit}")


def layers(share, name, x, g, moved):
    functional = torch.nn.functional
    share(name + " gelu", 2 * moved, lambda: functional.gelu(x))
    share(name + " dropout", 2 * moved + x.numel(), lambda: functional.dropout(x, 0.5, True))
    tokens = x.numel() // 50257
    scores = x[:tokens * 50257].view(tokens, 50257)
    part = moved // x.numel() * scores.numel()
    share(name + " softmax of 50257", 2 * part, lambda: scores.softmax(1))
    classes = torch.randint(50257, (tokens,), device="cuda")
    share(name + " cross entropy of 50257", part, lambda: functional.cross_entropy(scores, classes))
    rows = x.view(-1, 1024).detach().requires_grad_()
    w = torch.ones(1024, dtype=x.dtype, device="cuda", requires_grad=True)
    b = torch.zeros(1024, dtype=x.dtype, device="cuda", requires_grad=True)
    out = functional.layer_norm(rows, (1024,), w, b)
    share(name + " layer norm, backward", 3 * moved,
          lambda: torch.autograd.grad(out, (rows, w, b), g.view(-1, 1024), retain_graph=True))
    p = torch.nn.Parameter(x.clone())
    p.grad = g
    adam = torch.optim.Adam([p], fused=True, capturable=True)
    share(name + " Adam", 7 * moved, adam.step)


def recurrent():
    steps, batch, size = 128, 64, 1024
    for name in ("float32", "bfloat16"):
        for kind in ("LSTM", "GRU"):
            net = getattr(torch.nn, kind)(size, size).to("cuda", getattr(torch, name))
            x = torch.randn(steps, batch, size, dtype=getattr(torch, name), device="cuda")
            work = 4 * steps * batch * size * net.weight_hh_l0.shape[0]

            def forward():
                with torch.no_grad():
                    net(x)

            def both():
                net.zero_grad()
                net(x)[0].backward(x)

            title = f"{kind} of {steps} steps, {name}, cuDNN"
            result(title, work / seconds(forward) / 1e12, "TFLOP/s")
            result(title + ", with gradients", 3 * work / seconds(both) / 1e12, "TFLOP/s")


def main():
    gib = 1 << 30
    while 10 * gib > torch.cuda.mem_get_info()[0]:
        gib //= 2
    a = torch.ones(gib, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    copy = 2 * gib / seconds(lambda: b.copy_(a))
    result("copy", copy / 1e9, "GB/s")
    del a, b

    def share(name, moved, f):
        result(name, 100 * moved / seconds(f) / copy, "% of the copy")

    for name, dtype, size in (("float32", torch.float32, 4), ("bfloat16", torch.bfloat16, 2)):
        n = gib // size // 1024 * 1024
        x, y = (torch.ones(n, dtype=dtype, device="cuda") for _ in range(2))
        out, moved = torch.empty_like(x), n * size
        rows = x.view(-1, 1024)
        share(name + " add", 3 * moved, lambda: torch.add(x, y, out=out))
        share(name + " exp", 2 * moved, lambda: torch.exp(x, out=out))
        share(name + " mul by a number", 2 * moved, lambda: x.mul_(1))
        share(name + " sum", moved, lambda: x.sum())
        share(name + " sum of columns", moved, lambda: rows.sum(0))
        share(name + " sum of rows", moved, lambda: rows.sum(1))
        share(name + " softmax", 2 * moved, lambda: rows.softmax(1))
        share(name + " layer norm", 2 * moved,
              lambda: torch.nn.functional.layer_norm(rows, (1024,)))
        share(name + " transposed copy", 2 * moved, lambda: rows.t().contiguous())
        layers(share, name, x, y, moved)
        del x, y, out, rows

    products = os.path.join(os.path.dirname(os.path.abspath(__file__)), "products.txt")
    for line in open(products):
        name, *sizes = line.split()
        m, n, k = map(int, sizes)
        a = torch.ones(m, k, dtype=getattr(torch, name), device="cuda")
        b = torch.ones(k, n, dtype=getattr(torch, name), device="cuda")
        rate = 2 * m * n * k / seconds(lambda: a @ b)
        result(f"product {m}x{n}x{k}, {name}", rate / 1e12, "TFLOP/s")
        del a, b

    functional = torch.nn.functional
    for name in ("float32", "bfloat16", "float16"):
        dtype = getattr(torch, name)
        w = torch.ones(14336, 4096, dtype=dtype, device="cuda")
        bias = torch.ones(14336, dtype=dtype, device="cuda")
        for count in (1, 4, 8):
            x = torch.ones(count, 4096, dtype=dtype, device="cuda")
            share(f"{name} linear of {count} rows", w.numel() * w.element_size(),
                  lambda: functional.linear(x, w, bias))
        del w

    for name in ("float32", "bfloat16"):
        dtype = getattr(torch, name)
        x = torch.ones(32, 64, 56, 56, dtype=dtype, device="cuda")
        w = torch.ones(64, 64, 3, 3, dtype=dtype, device="cuda")
        work = 2 * 9 * 32 * 64**2 * 56**2
        rate = work / seconds(lambda: functional.conv2d(x, w, padding=1))
        result("convolution, " + name, rate / 1e12, "TFLOP/s")
        q = torch.ones(8, 16, 1024, 64, dtype=dtype, device="cuda")
        work = 4 * 8 * 16 * 1024**2 * 64
        rate = work / seconds(lambda: functional.scaled_dot_product_attention(q, q, q))
        result("attention, " + name, rate / 1e12, "TFLOP/s")

    recurrent()
    small = torch.ones(10, device="cuda")
    result("add of 10 elements from Lua", 1e6 * seconds(lambda: small.add_(1), 1000), "us")


if __name__ == "__main__":
    main()
