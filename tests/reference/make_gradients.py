"""tests/reference/make_gradients.py: writes tests/reference/values/gradients.json: for each op sample and
each of its floating arguments, which results carry a gradient in PyTorch when that argument alone
requires one ("1" or "0" each). Takes the file that dump_inputs.lua writes:
    python3 tests/reference/make_gradients.py in.json
"""
import json, os, sys
import torch
sys.dont_write_bytecode = True
from make_reference import arguments, evaluate

def differentiable(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())

def carried(case, position):
    args, kw = arguments(case)
    args[position] = args[position].clone().requires_grad_(True)
    try:
        result = evaluate(case, args, kw)
    except RuntimeError:  # an argument that PyTorch refuses a gradient for (running statistics)
        return None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return "".join(str(int(r.requires_grad)) if isinstance(r, torch.Tensor) else "-" for r in results)

def main():
    entries = []
    for case in json.load(open(sys.argv[1])):
        # What the reference computes by a gradient of its own has no history.
        if case["torch"].endswith("_ref(*args)"): continue
        args, _ = arguments(case)
        gives = {str(i + 1): carried(case, i) for i, value in enumerate(args) if differentiable(value)}
        gives = {k: v for k, v in gives.items() if v is not None}
        if gives: entries.append({"name": case["name"], "sample": case["sample"], "gives": gives})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "gradients.json")
    with open(path, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries) + "\n]\n")
    print(f"PyTorch {torch.__version__}: {len(entries)} samples written")

main()
