"""tests/fuzz/torch_programs.py: random programs through PyTorch and through Moonlet; needs PyTorch.

    python3 tests/fuzz/torch_programs.py --moonlet build/moonlet --seed 1 --count 20000
        draws programs, runs them on both sides, prints mismatches made small, and a summary.
    python3 tests/fuzz/torch_programs.py --write tests/fuzz/programs.jsonl --seed 7 --count 400
        writes programs and PyTorch's answers, for the test that needs no PyTorch.

The kinds of programs: tape (views, in-place changes, hooks, gradients), functions (with a derivative
of their own), hooks (of nodes, of leaves, of what is saved), checkpoint, forward (tangents) and func
(transforms of functions in one another). --kinds names some of them.
"""
import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
import warnings

import torch

from program_run import Run, answer, run_all
from program_steps import KINDS, Maker, fewer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
BATCH = 1000


def draw(kind, seed, number):
    rng = random.Random(f"{kind}:{seed}:{number}")
    run = Run()
    try:
        return Maker(rng, run, KINDS[kind]).program()
    finally:
        run.close()


def run_moonlet(moonlet, programs, seconds=300):
    """Mismatches {index: (kind, message)} of programs with answers."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for program in programs:
            file.write(json.dumps(program) + "\n")
        file.flush()
        command = [moonlet, __file__.replace("torch_programs.py", "programs.lua"), file.name, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code not in (0, 1):
        if len(programs) == 1:
            return {0: ("crash", f"the process ended with {code}")}
        half = len(programs) // 2
        found = run_moonlet(moonlet, programs[:half], seconds)
        for i, item in run_moonlet(moonlet, programs[half:], seconds).items():
            found[i + half] = item
        return found
    found = {}
    for line in done.stdout.splitlines():
        item = json.loads(line)
        found[item["program"] - 1] = (item["kind"], item["message"])
    return found


def shrink(moonlet, failing):
    """Makes each program smaller while a mismatch of its kind stays. failing: {key: (steps, kind)}."""
    small = dict(failing)
    busy = set(small)
    while busy:
        tried = []
        for key in busy:
            steps, kind = small[key]
            for less in fewer(steps):
                made = answer(less) if less else None
                kept = [s for s, status in zip(less, made["status"]) if status != "s"] if made else []
                if kept:
                    tried.append((key, kind, kept, answer(kept)))
        tried = [item for item in tried if item[3]]
        found = run_moonlet(moonlet, [item[3] for item in tried]) if tried else {}
        busy = set()
        for i, (key, kind, kept, _) in enumerate(tried):
            if found.get(i, ("",))[0] == kind and length(kept) < length(small[key][0]):
                small[key] = (kept, kind)
                busy.add(key)
    return {key: steps for key, (steps, _) in small.items()}


def length(steps):
    return sum(len(step.lua) for step in steps)


def report(moonlet, number, steps, kind):
    made = answer(steps)
    found = run_moonlet(moonlet, [made]).get(0, (kind, "gone when run alone"))
    print(f"\n-- program {number}: {found[0]}: {found[1]}")
    for step, status in zip(steps, made["status"]):
        if "\n" in step.lua:
            print(f"{step.lua}  -- {status}\n--[[\n{step.py}\n--]]")
        else:
            print(f"{step.lua:60}  -- {status}  {step.py}")
    message = run_all(steps)[0].message
    if message:
        print(f"PyTorch: {message}")
    sys.stdout.flush()


def compare(options):
    return max([compare_kind(options, kind) for kind in options.kinds])


def compare_kind(options, kind_of_program):
    programs, mismatched, kinds, wanted = 0, 0, collections.Counter(), collections.Counter()
    for first in range(0, options.count, BATCH):
        batch = []
        for number in range(first, min(first + BATCH, options.count)):
            steps = draw(kind_of_program, options.seed, number)
            made = answer(steps)
            if made:
                batch.append((number, steps, made))
                wanted.update(made["status"])
        found = run_moonlet(options.moonlet, [made for _, _, made in batch])
        programs, mismatched = programs + len(batch), mismatched + len(found)
        failing = {}
        for i, (kind, _) in found.items():
            kinds[kind] += 1
            if kinds[kind] <= options.show and options.only in kind:
                failing[batch[i][0]] = (batch[i][1], kind)
        for number, steps in shrink(options.moonlet, failing).items():
            report(options.moonlet, number, steps, failing[number][1])
        print(f"{kind_of_program}: {programs} programs, {mismatched} mismatches", file=sys.stderr)
    print(f"\n{kind_of_program}, seed {options.seed}: {programs} programs, {sum(wanted.values())} steps "
          f"({wanted['e']} refused by PyTorch, {wanted['b']} in backward), {mismatched} mismatches")
    for kind, count in kinds.most_common():
        print(f"{count:8} {kind}")
    sys.stdout.flush()
    return 1 if mismatched else 0


def write(options):
    lines = []
    for kind in options.kinds:
        number, before = 0, len(lines)
        while len(lines) < before + options.count:
            made = answer(draw(kind, options.seed, number))
            number += 1
            if made and made["wanted"]:
                lines.append(json.dumps(made, separators=(",", ":")))
    with open(options.write, "w") as file:
        file.write("\n".join(lines) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moonlet", default="build/moonlet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000, help="programs of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS), help="the kinds of programs, by commas")
    parser.add_argument("--show", type=int, default=3, help="programs made small for each kind of mismatch")
    parser.add_argument("--only", default="", help="show only mismatches whose kind has this in its name")
    parser.add_argument("--write", help="write programs and answers to this file instead")
    options = parser.parse_args()
    options.kinds = options.kinds.split(",")
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no kind '{unknown[0]}'; there are {', '.join(KINDS)}")
    sys.exit(write(options) if options.write else compare(options))


if __name__ == "__main__":
    main()
