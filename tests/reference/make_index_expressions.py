"""tests/reference/make_index_expressions.py: random index expressions that mix positions, ranges, new
dimensions, index tensors and masks, with what PyTorch reads, writes and differentiates by them, as
tests/reference/values/index_expressions.json. Needs PyTorch; run by hand:
    python3 tests/reference/make_index_expressions.py
"""
import json, os, random
import torch

COUNT = 400

def lua(value):
    return str(value).replace("[", "{").replace("]", "}").replace("True", "true").replace("False", "false")

def tensor_text(t):
    return f"ml.tensor({lua(t.tolist())})"

def mask(sizes):
    m = torch.rand(sizes) > 0.45
    return m, tensor_text(m), len(sizes)

def positions(size, base):
    t = torch.randint(-size, size, random.choice([base, base[-1:], [1]]))
    return t, tensor_text(torch.where(t >= 0, t + 1, t)), 1

def item(shape, base, may_skip):
    """An index for the dimensions of `shape`: for PyTorch, for Lua, and how many it takes."""
    size, r = shape[0], random.random()
    if r < 0.08 and may_skip:
        return Ellipsis, "ml.ellipsis", random.randint(0, len(shape))
    if r < 0.16:
        return None, "ml.newaxis", 0
    if r < 0.3:
        i = random.randint(-size, size - 1)
        return i, str(i + 1 if i >= 0 else i), 1
    if r < 0.5:
        start = random.randint(0, size - 1)
        stop, step = random.randint(start, size), random.randint(1, 2)
        return slice(start, stop, step), f"{{{start + 1}, {stop}, {step}}}", 1
    if r < 0.6:
        return slice(None), "{}", 1
    if r < 0.7 and len(shape) > 1:
        return mask(shape[:2])
    return mask(shape[:1]) if r < 0.78 else positions(size, base)

def expression():
    shape = [random.randint(1, 4) for _ in range(random.randint(1, 4))]
    base = random.choice([[2], [3], [2, 1], [1, 3], [2, 3], [1]])
    items, texts, taken = [], [], 0
    while taken < len(shape) and (not items or random.random() > 0.04):
        index, text, count = item(shape[taken:], base, not any(i is Ellipsis for i in items))
        items.append(index)
        texts.append(text)
        taken += count
    return shape, tuple(items), "{" + ", ".join(texts) + "}"

def case():
    shape, items, text = expression()
    x = torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64).reshape(shape)
    read = x[items]
    filled = x.clone()
    filled[items] = 0.5
    leaf = x.clone().requires_grad_(True)
    weights = torch.arange(1, read.numel() + 1, dtype=torch.float64).reshape(read.shape)
    (leaf[items] * weights).sum().backward()
    flat = lambda t: t.reshape(-1).tolist()
    return {"shape": shape, "index": text, "sizes": list(read.shape), "read": flat(read),
            "filled": flat(filled), "grad": flat(leaf.grad)}

def main():
    random.seed(5)
    torch.manual_seed(5)
    cases = []
    while len(cases) < COUNT:
        try:
            cases.append(case())
        except IndexError:  # index tensors that do not broadcast
            pass
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "values", "index_expressions.json"), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")

if __name__ == "__main__":
    main()
