"""tests/fuzz/torch_calls.py: makes the calls that torch_calls.lua wrote with PyTorch, and prints where
the outcomes differ: one side raises and the other does not, or results differ in number, dtype, shape
or value. One example for each op, argument and kind of difference. Needs PyTorch.
usage: moonlet tests/fuzz/torch_calls.lua calls.jsonl; python3 tests/fuzz/torch_calls.py calls.jsonl
"""
import collections, concurrent.futures, json, os, sys, warnings
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import torch
import make_reference
from make_reference import decode

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 3e-5, torch.complex64: 3e-5}

def brief(value):
    if isinstance(value, torch.Tensor):
        text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return text + (str(value.tolist()) if value.numel() <= 6 else "")
    if isinstance(value, (list, tuple)): return "[" + ", ".join(map(brief, value)) + "]"
    if isinstance(value, dict): return "{" + ", ".join(f"{k}={brief(v)}" for k, v in value.items()) + "}"
    return repr(value)

def theirs(line):
    try:
        args, kw = make_reference.arguments(line)
        result = make_reference.evaluate(line, args, kw)
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return list(result) if isinstance(result, (list, tuple)) else [result], None

def difference(ours, other):
    """The kind of difference between two values, or None."""
    if not isinstance(other, torch.Tensor):
        if isinstance(ours, torch.Tensor): ours = ours.item() if ours.numel() == 1 else ours
        same = ours == other or isinstance(other, float) and abs(ours - other) <= 1e-5 * abs(other)
        return None if same else "value"
    if not isinstance(ours, torch.Tensor): return "kind"
    if ours.dtype != other.dtype: return "dtype"
    if ours.shape != other.shape: return "shape"
    tolerance = TOLERANCE.get(other.dtype, 1e-9)
    if torch.allclose(ours, other, rtol=tolerance, atol=tolerance, equal_nan=True): return None
    return "value"

def compare(line):
    """The kind of difference of a call and a description, or None."""
    results, error = theirs(line)
    if "error" in line:
        if "out of memory" in line["error"] or results is None: return None
        return "we raise", f"ours: {line['error']}\n      PyTorch: {brief(results)}"
    ours = [decode(item) for item in line["results"] or []]
    if results is None: return "PyTorch raises", f"ours: {brief(ours)}\n      PyTorch: {error}"
    if len(ours) != len(results): return "count", f"ours: {brief(ours)}\n      PyTorch: {brief(results)}"
    for a, b in zip(ours, results):
        kind = difference(a, b)
        if kind: return kind, f"ours: {brief(a)}\n      PyTorch: {brief(b)}"
    return None

CHUNK = 200

def compared(texts):
    """(name, what was changed, kind of difference, example) of each call that differs."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    out = []
    for text in texts:
        line = json.loads(text)
        for key in ("inputs", "types", "names"): line[key] = line[key] or []
        answer = compare(line)
        if answer:
            inputs = [decode(item) for item in line["inputs"]]
            out.append((line["name"], line["change"], answer[0], f"{brief(inputs)}\n      {answer[1]}"))
    return out

def in_process(texts):
    """The same in a process of its own, as some calls end PyTorch's: halves tell which."""
    try:
        with concurrent.futures.ProcessPoolExecutor(1) as pool: return pool.submit(compared, texts).result()
    except concurrent.futures.process.BrokenProcessPool:
        if len(texts) == 1:
            line = json.loads(texts[0])
            return [(line["name"], line["change"], "PyTorch crashes", brief([decode(i) for i in line["inputs"]]))]
        half = len(texts) // 2
        return in_process(texts[:half]) + in_process(texts[half:])

def main():
    texts = open(sys.argv[1]).readlines()
    found, examples = collections.Counter(), {}
    for first in range(0, len(texts), CHUNK):
        for name, change, kind, example in in_process(texts[first:first + CHUNK]):
            found[name, change, kind] += 1
            examples.setdefault((name, change, kind), example)
    for key in sorted(found):
        print(f"{key[0]}, {key[1]}: {key[2]} ({found[key]})\n   {examples[key]}")
    print(f"{len(texts)} calls, {sum(found.values())} differ in {len(found)} ways")

if __name__ == "__main__":
    main()
