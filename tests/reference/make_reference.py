"""tests/reference/make_reference.py: computes the op samples with PyTorch and writes the values to
tests/reference/FAMILY.json, which the tests compare with. Needs PyTorch; run by hand when samples
change:
    MOONLET_OP_CASES=build/tests/op_cases.lua build/moonlet tests/reference/dump_inputs.lua in.json
    python3 tests/reference/make_reference.py in.json
"""
import json, math, os, sys
import torch
import torch.nn.functional as F

SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

def tensor(t):
    dtype = getattr(torch, t["dtype"])
    data = [SPECIAL.get(v, v) if isinstance(v, str) else v for v in t["data"]]
    if dtype.is_complex:
        real = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.view_as_complex(torch.tensor(data, dtype=torch.float64).to(real).reshape(list(t["shape"]) + [2]))
    base = torch.float64 if dtype.is_floating_point else torch.int64
    return torch.tensor(data, dtype=base).to(dtype).reshape(list(t["shape"]))

def rebase(value, kind):
    """Positions and dims count from 1 in Moonlet and from 0 in PyTorch; negatives count from the end in both."""
    if kind in ("Dim", "Dim?", "NewDim", "Index"):
        return value - 1 if isinstance(value, int) and value > 0 else value
    if kind in ("Dim[]", "Dim[*]", "Dim[]?"):
        if isinstance(value, int): return value - 1 if value > 0 else value
        return [v - 1 if v > 0 else v for v in value] if value else value
    if kind == "Index[*]":
        return [v - 1 if v > 0 else v for v in value]
    if kind == "Indices":
        return tuple(slice(None) if v is None or v is False else rebase(v, "Positions") for v in value)
    if kind == "Positions" and isinstance(value, torch.Tensor):
        return torch.where(value > 0, value - 1, value).long() if value.dtype != torch.bool else value
    if kind == "DType?" and isinstance(value, str):
        return getattr(torch, value)
    return value

def decode(item):
    if "none" in item: return None
    if "t" in item: return tensor(item["t"])
    if "l" in item:
        items = item["l"] or []
        return [decode(v) for v in items] if not item.get("k") else {k: decode(v) for k, v in item["k"].items()}
    return item["v"]

def encode_number(v, wide):
    if isinstance(v, bool): return int(v)
    if isinstance(v, float):
        if math.isnan(v): return "nan"
        if math.isinf(v): return "inf" if v > 0 else "-inf"
        return float(f"{v:.17g}" if wide else f"{v:.9g}")
    return v

def encode(value):
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        v = torch.view_as_real(value.resolve_conj().contiguous()) if value.is_complex() else value
        if v.dtype in (torch.float16, torch.bfloat16): v = v.float()
        return {"t": {"dtype": name, "shape": list(value.shape), "data": [encode_number(x, value.dtype in (torch.float64, torch.complex128)) for x in v.reshape(-1).tolist()]}}
    if isinstance(value, (list, tuple)): return {"l": [encode(v) for v in value]}
    return {"v": value}

# Positions in results count from 1.
def positions(result):
    return [r + 1 if r.dtype == torch.int64 else r for r in result]

# Computations PyTorch has under another form; positions in arguments are 0-based here.
def max_pool2d_1based(*args):
    values, indices = F.max_pool2d(*args, return_indices=True)
    return values, indices + 1

def max_pool2d_grad_x_ref(grad, indices, size):
    return torch.zeros(size).flatten(-2).scatter_add(-1, indices.flatten(-2), grad.flatten(-2)).reshape(size)

def max_pool2d_grad_x_grad_grad_ref(grad, indices):
    return grad.flatten(-2).gather(-1, indices.flatten(-2)).reshape(indices.shape)

def avg_pool2d_grad_x_ref(grad, size, *args):
    x = torch.zeros(size, requires_grad=True)
    return torch.autograd.grad(F.avg_pool2d(x, *args), x, grad)[0]

def adaptive_avg_pool2d_grad_x_ref(grad, size):
    x = torch.zeros(size, requires_grad=True)
    return torch.autograd.grad(F.adaptive_avg_pool2d(x, grad.shape[-2:]), x, grad)[0]

def cross_entropy_1based(x, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    if not target.dtype.is_floating_point:
        target = torch.where(target > 0, target - 1, target)
    return F.cross_entropy(x, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

def index_put_ref(x, indices, values, accumulate=False):
    y = x.clone()
    first, *rest = indices
    if isinstance(first, slice):
        first = torch.arange(x.shape[0])[:, None]
    return y.index_put_([first, *rest], values, accumulate)

def arguments(case):
    """The arguments of a case as PyTorch takes them: positional, named."""
    args, kw = [], {}
    for i, item in enumerate(case["inputs"]):
        kind = case["types"][i] if i < len(case["types"]) else "named"
        value = decode(item)
        if isinstance(value, dict):
            kinds = dict(zip(case["names"], case["types"]))
            kw = {k: rebase(v, kinds.get(k)) for k, v in value.items()}
        else:
            args.append(rebase(value, kind))
    return args, kw

def evaluate(case, args, kw):
    return eval(case["torch"], globals() | {"args": args, "kw": kw})

def main():
    cases = json.load(open(sys.argv[1]))
    families, failed = {}, 0
    for case in cases:
        args, kw = arguments(case)
        try:
            result = evaluate(case, args, kw)
        except Exception as error:
            print(f"{case['name']}({case['sample']}): {case['torch']}: {type(error).__name__}: {error}", file=sys.stderr)
            failed += 1
            continue
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        families.setdefault(case["family"], []).append(
            {"name": case["name"], "sample": case["sample"], "inputs": case["inputs"], "results": [encode(r) for r in results]})
    here = os.path.dirname(os.path.abspath(__file__))
    for family, entries in families.items():
        with open(os.path.join(here, family + ".json"), "w") as out:
            out.write("[\n" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries) + "\n]\n")
    print(f"PyTorch {torch.__version__}: {sum(map(len, families.values()))} samples written, {failed} failed")

if __name__ == "__main__":
    main()
