"""tests/fuzz/torch_library.py: random layers, optimisers, schedules and index expressions through PyTorch
and through Moonlet; needs PyTorch.

    python3 tests/fuzz/torch_library.py --moonlet build/moonlet --seed 1 --count 1000
        draws cases of each kind, runs them on both sides and prints those that differ.
    python3 tests/fuzz/torch_library.py --write tests/fuzz/library.jsonl --seed 7 --count 60
        writes cases with PyTorch's answers, for the test that needs no PyTorch.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "reference"))
import torch

import library_modules
import library_optim
import make_index_expressions


def index_expression():
    try:
        return make_index_expressions.case()
    except IndexError:  # index tensors that do not broadcast
        return None


KINDS = {"module": library_modules.draw, "optimizer": library_optim.optimizer,
         "schedule": library_optim.schedule, "index": index_expression}


def cases(kind, seed, count):
    """`count` cases of a kind as lines of JSON, each drawn by its own number."""
    out, number = [], 0
    while len(out) < count:
        random.seed(f"{kind}:{seed}:{number}")
        torch.manual_seed(random.getrandbits(60))
        case = KINDS[kind]()
        number += 1
        if case:
            out.append(json.dumps({"kind": kind, "number": number, "case": case}, separators=(",", ":")))
    return out


def compare(options, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        return subprocess.run([options.moonlet, os.path.join(HERE, "library.lua"), file.name]).returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moonlet", default="build/moonlet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS), help="the kinds of cases, by commas")
    parser.add_argument("--write", help="write cases and answers to this file instead")
    options = parser.parse_args()
    unknown = [kind for kind in options.kinds.split(",") if kind not in KINDS]
    if unknown:
        parser.error(f"no kind '{unknown[0]}'; there are {', '.join(KINDS)}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = [line for kind in options.kinds.split(",") for line in cases(kind, options.seed, options.count)]
    if options.write:
        with open(options.write, "w") as file:
            file.write("\n".join(lines) + "\n")
        return 0
    return compare(options, lines)


if __name__ == "__main__":
    sys.exit(main())
