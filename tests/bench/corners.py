"""tests/bench/corners.py: calls on long, narrow and otherwise unusual shapes beside PyTorch, in turn.
Prints those that are slower than PyTorch, worst first, and the geometric mean of all ratios (above 1:
Moonlet is faster).
usage: python3 tests/bench/corners.py [THREADS [FILTER]]
FILTER is a part of a call, MOONLET names the executable (build/moonlet).
"""
import json, math, os, statistics, subprocess, sys
import torch
import torch.nn.functional as F
from sweep import HERE, seconds

def tensor(entry):
    if "below" in entry: return torch.randint(0, entry["below"], entry["sizes"])
    return torch.randn(entry["sizes"])

def time_there(line):
    inputs = {name: tensor(entry) for name, entry in (line["inputs"] or {}).items()}
    return seconds(eval("lambda: " + line["there"], {"torch": torch, "F": F, **inputs}))

def report(rows):
    print(f"{len(rows)} calls, geometric mean {math.exp(statistics.fmean(math.log(row[0]) for row in rows)):.2f}")
    for ratio, name, here, there in sorted(rows):
        if ratio < 1: print(f"{ratio:5.2f} {here * 1e6:12.1f} us {there * 1e6:12.1f} us  {name}")

def main():
    threads = sys.argv[1] if len(sys.argv) > 1 else "1"
    torch.set_num_threads(int(threads))
    moonlet = os.environ.get("MOONLET", os.path.join(HERE, "..", "..", "build", "moonlet"))
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    env |= {"OMP_NUM_THREADS": threads}
    command = [moonlet, os.path.join(HERE, "corners.lua"), threads] + sys.argv[2:3]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    rows = []
    for text in process.stdout:
        line = json.loads(text)
        shapes = ", ".join(f"{k} {tuple(v['sizes'])}" for k, v in (line["inputs"] or {}).items())
        name = f"{line['here']}  of {shapes}"
        if "error" in line:
            print(f"{name}: {line['error']}", file=sys.stderr)
        else:
            there = time_there(line)
            rows.append((there / line["seconds"], name, line["seconds"], there))
        process.stdin.write("\n")
        process.stdin.flush()
    if rows: report(rows)

if __name__ == "__main__":
    main()
