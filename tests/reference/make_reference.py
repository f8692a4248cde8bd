"""tests/reference/make_reference.py: computes the op samples with PyTorch and writes the values to
tests/reference/values/FAMILY.json, which the tests compare with. Needs PyTorch; run by hand when samples
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
    if "s" in item: return SPECIAL[item["s"]]
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

# The same of (values, positions), whatever dtype the values have.
def with_positions(result):
    values, indices = result
    return [values, indices + 1]

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

# By differences of the distribution function in float64: PyTorch's own keeps about four digits.
def standard_gamma_grad_ref(grad, a, x):
    a, x, P, h = a.double(), x.double(), torch.special.gammainc, 1e-3 * a.double().minimum(a.double().sqrt())
    slope = (8 * (P(a + h, x) - P(a - h, x)) - P(a + 2 * h, x) + P(a - 2 * h, x)) / (12 * h)
    return (-grad * slope / (torch.xlogy(a - 1, x) - x - torch.lgamma(a)).exp()).to(grad)

def adaptive_avg_pool2d_grad_x_ref(grad, size):
    x = torch.zeros(size, requires_grad=True)
    return torch.autograd.grad(F.adaptive_avg_pool2d(x, grad.shape[-2:]), x, grad)[0]

def max_unpool_ref(x, indices, output_size):
    size = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size]
    spatial = len(size)
    flat = torch.zeros(*x.shape[:-spatial], math.prod(size), dtype=x.dtype)
    return flat.scatter(-1, indices.flatten(-spatial), x.flatten(-spatial)).reshape(*x.shape[:-spatial], *size)

# Resizing along one dimension, by PyTorch's resizing of images of one column.
def resample_ref(x, size, dim, mode, align_corners=False, antialias=False):
    planes = x.movedim(dim, -1)
    image = planes.reshape(1, -1, 1, planes.shape[-1]) if mode != "linear" or antialias else planes.reshape(1, -1, planes.shape[-1])
    name = {"linear": "bilinear" if antialias else "linear", "cubic": "bicubic", "lanczos": "lanczos"}[mode]
    out = F.interpolate(image, ([1] if image.ndim == 4 else []) + [size[dim]], mode=name, align_corners=align_corners, antialias=antialias)
    return out.reshape(*planes.shape[:-1], size[dim]).movedim(-1, dim)

def resample_grad_x_ref(grad, size, dim, *args):
    x = torch.zeros(size, requires_grad=True)
    return torch.autograd.grad(resample_ref(x, grad.shape, dim, *args), x, grad)[0]

def cross_entropy_1based(x, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    if not target.dtype.is_floating_point:
        target = torch.where(target > 0, target - 1, target)
    return F.cross_entropy(x, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)

def linear_cross_entropy_1based(x, weight, target, bias=None, *rest):
    if not target.dtype.is_floating_point: target = target - 1
    names = ("weight", "reduction", "ignore_index", "label_smoothing")
    rest = dict(zip(names, rest))
    if "ignore_index" in rest: rest["ignore_index"] -= 1
    return F.linear_cross_entropy(x, weight, target, linear_bias=bias, **rest)

def multilabel_margin_loss_1based(x, target, reduction="mean"):
    # What is no position has kept its value: PyTorch's lists end at a negative one.
    return F.multilabel_margin_loss(x, target, reduction=reduction)

def embedding_bag_1based(weight, indices, offsets, scale=False, mode="mean", weights=None, last=False, padding_idx=0):
    return F.embedding_bag(indices, weight, offsets, None, 2.0, scale, mode, False, weights, last, padding_idx - 1 if padding_idx else None)

def ctc_loss_1based(x, targets, lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    if x.dim() == 2: targets = targets.unsqueeze(0)
    result = F.ctc_loss(x.unsqueeze(1) if x.dim() == 2 else x, targets, lengths, target_lengths, blank, reduction, zero_infinity)
    return result.reshape(()) if x.dim() == 2 else result

def unique_1based(function, args, flags_from):
    """`function` with flags from args[1 + flags_from] on, after `sorted` where it has that, and a dim at the end."""
    flags = list(args[1 + flags_from:]) + [False] * 2
    dim = args[3 + flags_from] if len(args) > 3 + flags_from else None
    results = function(args[0], return_inverse=flags[0], return_counts=flags[1], dim=dim)
    results = list(results) if isinstance(results, tuple) else [results]
    if flags[0]: results[1] = results[1] + 1
    return results

def torch_gradient(args):
    """torch.gradient, which takes all but its tensor by name and no None for `dim`."""
    named = dict(zip(("spacing", "dim", "edge_order"), args[1:]))
    return torch.gradient(args[0], **{key: value for key, value in named.items() if value is not None})

def torch_histogram(args):
    """torch.histogram, which takes the range, the weights and the density by name."""
    x, bins, *rest = args
    names = ("weight", "density") if isinstance(bins, torch.Tensor) else ("range", "weight", "density")
    named = {key: value for key, value in zip(names, rest) if value is not None}
    if "range" in named: named["range"] = tuple(float(v) for v in named["range"])
    return tuple(torch.histogram(x, bins, **named))

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
        with open(os.path.join(here, "values", family + ".json"), "w") as out:
            out.write("[\n" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries) + "\n]\n")
    print(f"PyTorch {torch.__version__}: {sum(map(len, families.values()))} samples written, {failed} failed")

if __name__ == "__main__":
    main()
