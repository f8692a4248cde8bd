"""tests/reference/make_strides.py: the strides that PyTorch gives the results of ops on inputs of
many layouts, for tests/lua/tensor/memory_format_test.lua. Needs PyTorch; run by hand:
    python3 tests/reference/make_strides.py > tests/reference/values/strides.json
A layout is [sizes, strides, offset] over a buffer of BUFFER numbers. A stride of a result is null
where the size is 1, and everywhere in a result without elements: any is right there.
"""
import json
import random

import torch

BUFFER = 20000
CASES = 1300
base = torch.arange(1.0, BUFFER + 1) / BUFFER

ONE = {
    "exp": lambda x: x.exp(),
    "neg": lambda x: -x,
    "add number": lambda x: x + 1.5,
    "gt number": lambda x: x > 0.5,
    "relu": lambda x: torch.relu(x),
    "clamp": lambda x: x.clamp(0.25, 0.5),
    "clone": lambda x: x.clone(),
    "clone row-major": lambda x: x.clone(memory_format=torch.contiguous_format),
    "to float64": lambda x: x.to(torch.float64),
    "to int64": lambda x: x.to(torch.int64),
    "contiguous": lambda x: x.contiguous(),
    "empty_like": lambda x: torch.empty_like(x),
    "zeros_like": lambda x: torch.zeros_like(x),
    "ones_like int64": lambda x: torch.ones_like(x, dtype=torch.int64),
    "full_like": lambda x: torch.full_like(x, 2.5),
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x),
    "fill": lambda x: torch.fill(x, 2.0),
    "flip": lambda x: x.flip(-1) if x.dim() else x.clone(),
    "sort values": lambda x: x.sort(-1)[0] if x.dim() else x.clone(),
    "sort indices": lambda x: x.sort(0)[1] if x.dim() else x.clone(),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 0.0),
    "roll": lambda x: x.roll((1, 1), (0, -1)) if x.dim() > 1 and x.shape[0] > 1 < x.shape[-1] else x.clone(),
    # Without dimensions of one position, which PyTorch may put elsewhere.
    "index first": lambda x: x[first(x, 0)] if x.dim() and 1 not in x.shape else x.clone(),
    "index last": lambda x: x[..., first(x, -1)] if x.dim() and 1 not in x.shape else x.clone(),
    "index table": lambda x: x[:, first(x, 1).reshape(-1, 1)] if x.dim() > 1 and 1 not in x.shape else x.clone(),
    "index two": lambda x: x[first(x, 0)[:1], :, first(x, 2)] if x.dim() > 2 and 1 not in x.shape else x.clone(),
}
FORMATS = {4: ("channels_last", torch.channels_last), 5: ("channels_last_3d", torch.channels_last_3d)}
FORMATTED = {
    "contiguous format": lambda x, f: x.contiguous(memory_format=f),
    "clone format": lambda x, f: x.clone(memory_format=f),
    # PyTorch leaves a cut-out of a tensor in that format as it is; Moonlet makes it dense.
    "to format": lambda x, f: x.to(memory_format=f).contiguous(memory_format=f),
    "to float64 format": lambda x, f: x.to(torch.float64, memory_format=f),
    "empty_like format": lambda x, f: torch.empty_like(x, memory_format=f),
    "zeros_like format": lambda x, f: torch.zeros_like(x, memory_format=f),
    "full_like format": lambda x, f: torch.full_like(x, 1.0, memory_format=f),
    "rand_like format": lambda x, f: torch.rand_like(x, memory_format=f),
    "empty format": lambda x, f: torch.empty(x.shape, memory_format=f),
    "add after format": lambda x, f: x.contiguous(memory_format=f) + x,
}
TWO = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "lt": lambda x, y: x < y,
    "maximum": lambda x, y: torch.maximum(x, y),
    "add out empty": lambda x, y: torch.add(x, y, out=torch.empty(0)),
}
THREE = {
    "where": lambda x, y, z: torch.where(x > 0.5, y, z),
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z),
    "lerp": lambda x, y, z: torch.lerp(x, y, z),
}


def first(x, dim):
    """Up to two positions from the front of a dimension."""
    return torch.arange(min(2, x.shape[dim]))


def layout(x):
    return [list(x.shape), list(x.stride()), x.storage_offset()]


def over(sizes, strides, offset=0):
    return base.as_strided(sizes, strides, offset)


def dense(sizes, order):
    """A dense view of the buffer whose dimensions lie in that order, outermost first."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(sizes[d], 1)
    return over(sizes, strides, random.choice((0, 3)))


def of_shape(sizes):
    """A random layout of these sizes: permuted, cut out of a larger tensor, or expanded."""
    order = list(range(len(sizes)))
    kind = random.random()
    if len(sizes) in FORMATS and random.random() < 0.3:
        order = [0] + order[2:] + [1]
    elif kind < 0.8:
        random.shuffle(order)
    if random.random() < 0.3:
        larger = [s + random.choice((0, 0, 1, 2)) for s in sizes]
        x = dense(larger, order)
        for d, s in enumerate(sizes):
            x = x.narrow(d, random.randint(0, larger[d] - s), s)
        return x
    if random.random() < 0.2 and sizes:
        d = random.randrange(len(sizes))
        x = dense([s * (2 if i == d else 1) for i, s in enumerate(sizes)], order)
        return x[(slice(None),) * d + (slice(None, None, 2),)]
    if random.random() < 0.2:
        small = [1 if random.random() < 0.4 else s for s in sizes]
        return dense(small, order).expand(sizes)
    return dense(sizes, order)


def shape():
    rank = random.choice((0, 1, 2, 3, 3, 4, 4, 4, 5))
    sizes = [random.choice((1, 2, 3, 4, 5)) for _ in range(rank)]
    if rank and random.random() < 0.05:
        sizes[random.randrange(rank)] = 0
    return sizes


def partner(sizes):
    """A shape that broadcasts with sizes."""
    other = [1 if random.random() < 0.2 else s for s in sizes]
    return other[random.choice((0, 0, 0, 1)):] if random.random() < 0.5 else list(sizes)


def shown(y):
    if y.numel() == 0:
        return [None] * y.dim()
    return [None if size == 1 else stride for size, stride in zip(y.shape, y.stride())]


def case():
    sizes = shape()
    x = of_shape(sizes)
    kind = random.random()
    if len(sizes) in FORMATS and kind < 0.25:
        name, form = FORMATS[len(sizes)]
        op = random.choice(list(FORMATTED))
        return {"op": op, "format": name, "inputs": [layout(x)], "strides": shown(FORMATTED[op](x, form)),
                "is_format": x.is_contiguous(memory_format=form)}
    if kind < 0.5:
        op = random.choice(list(ONE))
        return {"op": op, "inputs": [layout(x)], "strides": shown(ONE[op](x))}
    y = of_shape(partner(sizes))
    inputs = [x, y] if random.random() < 0.5 else [y, x]
    if kind < 0.75:
        op = random.choice(list(TWO))
        return {"op": op, "inputs": [layout(t) for t in inputs], "strides": shown(TWO[op](*inputs))}
    if kind < 0.85:
        wanted = torch.broadcast_shapes(x.shape, y.shape)
        out = dense(list(wanted), random.sample(range(len(wanted)), len(wanted))).clone()
        torch.add(*inputs, out=out)
        return {"op": "add out", "inputs": [layout(t) for t in inputs + [out]], "strides": shown(out)}
    inputs.append(of_shape(partner(sizes)))
    op = random.choice(list(THREE))
    return {"op": op, "inputs": [layout(t) for t in inputs], "strides": shown(THREE[op](*inputs))}


random.seed(11)
cases = [case() for _ in range(CASES)]
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
