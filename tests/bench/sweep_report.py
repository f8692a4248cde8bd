"""tests/bench/sweep_report.py: writes docs/performance.md from the measures of tests/bench/sweep.py:
by family and by setting how fast Moonlet's ops are beside PyTorch's, then every op that is slower.
usage: python3 tests/bench/sweep_report.py FILE.tsv... > docs/performance.md
"""
import collections, math, re, statistics, sys

SLOW = 0.8  # the ratio that no op should be below

HEAD = """# Speed of the ops beside PyTorch

Every op of the families named below was timed beside PyTorch on the same tensors, in turn; ops that
were changed after the run were measured again. A number is a ratio of medians, PyTorch's time divided
by Moonlet's: above 1 Moonlet is faster. On a shared machine two runs of one measure differ by up to a
third. Written by `tests/bench/sweep_report.py`; one file per number of threads:

    python3 tests/bench/sweep.py 1 "" one.tsv
    python3 tests/bench/sweep.py 2 "" two.tsv
    python3 tests/bench/sweep_report.py one.tsv two.tsv > docs/performance.md

A row of a table: how many measures, their geometric mean, and how many are below 0.8.
`python3 tests/bench/corners.py` compares calls on long, narrow and otherwise unusual shapes."""

TAIL = """
## CUDA

Not yet run on a device. `sh scripts/gpu_bundle.sh build` makes a folder for a machine that has one; its
`gpu_check` measures copies, kernels as shares of a copy, products, convolution, attention, small ops
from Lua and a step of training, beside PyTorch where that is installed."""

def read(path):
    with open(path) as file:
        title = file.readline()[1:].strip()
        rows = [line.rstrip("\n").split("\t") for line in file]
    return title, [(*row[:4], float(row[5]) / float(row[4])) for row in rows]

def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))

def table(heading, groups):
    print(f"\n| {heading} | measures | geometric mean | below {SLOW} |\n|---|---|---|---|")
    for name, ratios in groups.items():
        print(f"| {name} | {len(ratios)} | {mean(ratios):.2f} | {sum(r < SLOW for r in ratios)} |")

def grouped(rows, key):
    groups = collections.defaultdict(list)
    for row in rows: groups[key(row)].append(row[-1])
    return groups

def slow_ops(rows):
    """One line per op: its slow measures, worst first; the ops by their worst."""
    slow = collections.defaultdict(list)
    for _, name, label, direction, ratio in rows:
        if ratio < SLOW: slow[name].append((ratio, f"{label} {direction}"))
    for name, found in sorted(slow.items(), key=lambda item: min(item[1])):
        print(f"- `{name}`: " + ", ".join(f"{ratio:.2f} ({label})" for ratio, label in sorted(found)))

def main():
    print(HEAD)
    for path in sys.argv[1:]:
        title, rows = read(path)
        print("\n## " + re.sub("^1 threads", "1 thread", title))
        table("all", {"": [row[-1] for row in rows]})
        table("family", grouped(rows, lambda row: row[0]))
        table("elements of the first tensor, dtype, direction", grouped(rows, lambda row: f"{row[2]} {row[3]}"))
        print(f"\n### Below {SLOW}\n")
        slow_ops(rows)
    print(TAIL)

if __name__ == "__main__":
    main()
