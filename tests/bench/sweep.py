"""tests/bench/sweep.py: every op of the table beside PyTorch, each measure taken in turn on the same
tensors: forward and backward, small and large, in several dtypes and layouts. Prints those that are
slower than PyTorch, worst first, and the geometric mean of all ratios (above 1: Moonlet is faster).
usage: python3 tests/bench/sweep.py [THREADS [FILTER [FILE.tsv]]]
FILTER is a family or part of a name, MOONLET names the executable (build/moonlet), FILE.tsv gets all
measures.
"""
import json, math, os, resource, statistics, struct, subprocess, sys, tempfile, time
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import torch
import make_reference
from make_reference import rebase

DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "F16": torch.float16,
          "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
          "BOOL": torch.bool, "C64": torch.complex64}
MIN_SECONDS, ROUNDS, LONG_SECONDS = 0.005, 3, 0.1  # a call that takes long is timed once
TURNS = 3  # times that both sides are measured, in turn: other work on the machine comes and goes
MEMORY = 8 << 30  # bytes of address space: some samples scaled up want more than any machine has

def read_tensors(path):
    """The tensors of a safetensors file, by name."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__": continue
        first, last = entry["data_offsets"]
        bytes_ = bytearray(data[8 + length + first:8 + length + last])
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(bytes_, dtype=dtype) if bytes_ else torch.empty(0, dtype=dtype)
        out[name] = flat.reshape(entry["shape"])
    return out

def decode(item, tensors):
    if item.get("none"): return None
    if "t" in item:
        value = tensors[item["t"]]
        return value.transpose(-1, -2).contiguous().transpose(-1, -2) if item["transposed"] else value
    if "l" in item:
        if item.get("k"): return {k: decode(v, tensors) for k, v in item["k"].items()}
        return [decode(v, tensors) for v in item["l"] or []]
    return item["v"]

def arguments(line, tensors):
    args, kw = [], {}
    for i, item in enumerate(line["inputs"] or []):
        value = decode(item, tensors)
        if isinstance(value, dict):
            kinds = dict(zip(line["names"], line["types"]))
            kw = {k: rebase(v, kinds.get(k)) for k, v in value.items()}
        else:
            args.append(rebase(value, line["types"][i] if i < len(line["types"]) else "named"))
    return args, kw

def function_of(line, args, kw):
    """The call of PyTorch's as a function, compiled once: nothing of ours is timed with it."""
    return eval("lambda: " + line["torch"], vars(make_reference) | {"args": args, "kw": kw})

def seconds(f):
    f()
    start = time.perf_counter()
    f()
    first = time.perf_counter() - start
    if first > LONG_SECONDS: return first
    calls = max(1, int(MIN_SECONDS / max(first, 1e-7)))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls): f()
        rounds.append((time.perf_counter() - start) / calls)
    return statistics.median(rounds)

def backward(line, args, kw):
    inputs = []
    def tracked(value):
        if isinstance(value, list): return [tracked(v) for v in value]
        if not isinstance(value, torch.Tensor) or not value.is_floating_point(): return value
        inputs.append(value.detach().requires_grad_())
        return inputs[-1]
    result = function_of(line, [tracked(a) for a in args], kw)()
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    results = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    gradients = [torch.ones_like(r) for r in results]
    return lambda: torch.autograd.grad(results, inputs, gradients, retain_graph=True, allow_unused=True)

def compare(line, path, again):
    """Rows (family, name, setting, direction, seconds here, seconds there); again() times ours once more."""
    tensors = read_tensors(path)
    args, kw = arguments(line, tensors)
    setting = line["setting"]
    label = f"{setting['count']} {setting['dtype']}{' transposed' if setting.get('transposed') else ''}"
    calls = {"forward": function_of(line, args, kw)}
    there = {"forward": [seconds(calls["forward"])]}
    if line.get("backward"):
        try:
            calls["backward"] = backward(line, args, kw)
            there["backward"] = [seconds(calls["backward"])]
        except Exception as error:
            calls.pop("backward", None)
            print(f"{line['name']} {label} backward: {error}", file=sys.stderr)
    here = {way: [line[way]] for way in calls}
    while len(here["forward"]) < TURNS and line["forward"] < LONG_SECONDS:
        ours = again()
        if not ours: break
        for way, call in calls.items():
            here[way].append(ours[way])
            there[way].append(seconds(call))
    about = (line["family"], line["name"], label)
    return [about + (way, statistics.median(here[way]), statistics.median(there[way])) for way in calls]

def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

def processor():
    with open("/proc/cpuinfo") as file:
        known = dict(line.split(":", 1) for line in file if ":" in line)
    known = {key.strip(): value.strip() for key, value in known.items()}
    vectors = "AVX-512" if "avx512f" in known.get("flags", "") else "AVX2" if "avx2" in known.get("flags", "") else "SSE"
    return f"{known['model name']} with {vectors}"

def report(rows, out):
    ratios = [there / here for *_, here, there in rows]
    print(f"{len(rows)} measures, geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, "
          f"below 1: {sum(r < 1 for r in ratios)}, below 0.8: {sum(r < 0.8 for r in ratios)}")
    for _, name, label, direction, here, there in sorted(rows, key=lambda r: r[5] / r[4]):
        if there < here:
            print(f"{name:32} {label:24} {direction:8} {here * 1e6:12.2f} us {there * 1e6:12.2f} us {there / here:6.2f}")
    if out:
        with open(out, "w") as file:
            print(f"# {torch.get_num_threads()} threads, {processor()}, PyTorch {torch.__version__}", file=file)
            for row in rows: file.write("\t".join(map(str, row)) + "\n")

def main():
    threads = sys.argv[1] if len(sys.argv) > 1 else "1"
    torch.set_num_threads(int(threads))
    root = os.path.join(HERE, "..", "..")
    moonlet = os.path.abspath(os.environ.get("MOONLET", os.path.join(root, "build", "moonlet")))
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    env |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    env.setdefault("MOONLET_OP_CASES", os.path.join(os.path.dirname(moonlet), "tests", "op_cases.lua"))
    path = os.path.join(tempfile.mkdtemp(), "tensors.safetensors")
    command = [moonlet, os.path.join(HERE, "sweep.lua"), threads, path] + sys.argv[2:3]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
                               preexec_fn=limit_memory)
    def say(word):
        process.stdin.write(word + "\n")
        process.stdin.flush()
    def again():
        say("again")
        return json.loads(process.stdout.readline())
    rows = []
    while text := process.stdout.readline():
        line = json.loads(text)
        if "error" in line:
            print(f"{line['name']} {line['setting']['count']} {line['setting']['dtype']}: {line['error']}", file=sys.stderr)
            continue
        try:
            rows += compare(line, path, again)
        except Exception as error:
            print(f"{line['name']} {line['setting']}: {error}", file=sys.stderr)
        try:
            say("")
        except BrokenPipeError:
            print(f"Moonlet ended with {process.wait()} after {line['name']}", file=sys.stderr)
            break
        if sys.stderr.isatty(): print(f"\r{len(rows)} {line['name']:40}", end="", file=sys.stderr)
    if rows: report(rows, sys.argv[3] if len(sys.argv) > 3 else None)
    os.rmdir(os.path.dirname(path)) if not os.path.exists(path) else (os.remove(path), os.rmdir(os.path.dirname(path)))

if __name__ == "__main__":
    main()
