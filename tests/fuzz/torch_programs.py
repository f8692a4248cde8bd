"""tests/fuzz/torch_programs.py: random programs through PyTorch and through Moonlet; needs PyTorch.

    python3 tests/fuzz/torch_programs.py --moonlet build/moonlet --seed 1 --count 20000
        draws programs, runs them on both sides, prints mismatches made small, and a summary.
    python3 tests/fuzz/torch_programs.py --write tests/fuzz/programs.jsonl --seed 7 --count 400
        writes programs and PyTorch's answers, for the test that needs no PyTorch.

A program is run by PyTorch twice when its first run fails in backward because a saved tensor was
changed or freed: the second one keeps copies of all that is saved. Moonlet may then refuse too, or
give the second run's numbers (it saves less).
"""
import argparse
import collections
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import warnings

import torch

from program_steps import Maker, Step

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
NAME = re.compile(r"\bx\d+\b")
RESULT = re.compile(r"^(?:with torch.no_grad\(\): )?((?:x\d+, ?)*x\d+),? = ")
LATER = re.compile(r"modified by an inplace operation|second time|already been freed")
BATCH = 1000


def numbers(t):
    """The elements of t in order as a flat list, real and imaginary parts side by side."""
    t = t.detach().resolve_conj()
    return (torch.view_as_real(t) if t.is_complex() else t).double().flatten().tolist()


def digest(t):
    """dtype, sizes and one number that depends on each element and its place."""
    total = sum(v * (0.5 + math.fmod((i + 1) * 0.6180339887, 1.0)) for i, v in enumerate(numbers(t)))
    text = f"{total:.12g}" if math.isfinite(total) and abs(total) < 1e150 else "large"
    kind = str(t.dtype).removeprefix("torch.")
    kind = {"float64": "d", "float32": "f", "complex128": "z"}.get(kind, kind)
    return f"{kind}{','.join(map(str, t.shape))}:{text}"


def leaf(shape, number, dtype, requires_grad):
    n = math.prod(shape)
    real = torch.tensor([((i * 7 + number * 5) % 11 - 4) / 4 + 0.1 for i in range(n)], dtype=torch.float64)
    if dtype == "complex128":
        real = torch.complex(real, real.flip(0) * 0.5)
    return real.to(getattr(torch, dtype)).reshape(shape).clone().requires_grad_(requires_grad)


def weights(x):
    n = math.prod(x.shape)
    values = [1 + (i % 5) * 0.25 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).to(x.dtype).reshape(x.shape)


def loss(x):
    y = x * weights(x)
    return (torch.view_as_real(y) if y.is_complex() else y).sum().double()


def mask(x):
    return (torch.arange(math.prod(x.shape)) % 2 == 0).reshape(x.shape)


def rows(where, x):
    index = torch.tensor(where).reshape([-1] + [1] * (x.dim() - 1))
    return index.expand([len(where)] + list(x.shape[1:]))


def refresh(t):
    """Makes PyTorch look a view's history up again: before that, a view made of a constant that has a
    history since counts as a leaf."""
    try:
        return t.grad_fn
    except RuntimeError:  # an ambiguous view made under no_grad
        return None


class Run:
    """One program on PyTorch's side: its tensors, how each step ended, what hooks saw."""

    def __init__(self, keep=False):
        self.keep, self.ended = keep, False
        self.statuses, self.seen = [], collections.defaultdict(list)
        self.quiet = set()  # names of views made under no_grad
        self.handles, self.hooked = {}, []  # the tensors are kept, because `seen` goes by their identity
        self.env = {"torch": torch, "leaf": leaf, "weights": weights, "loss": loss, "mask": mask,
                    "rows": rows, "hook": self.hook, "unhook": self.unhook,
                    "backward": self.backward, "grad": self.grad}

    def hook(self, number, x, factor=None):
        def seen(g):
            # A copy: PyTorch adds later gradients of a leaf to what a hook was given.
            self.seen[f"x{id(x)}"].append((number, g.detach().clone()))
            return g * factor if factor else None
        self.hooked.append(x)
        self.handles[number] = x.register_hook(seen)

    def unhook(self, number):
        if number in self.handles:
            self.handles[number].remove()

    def backward(self, x, seed=None, **options):
        if self.keep:
            options["retain_graph"] = True
        x.backward(seed, **options)

    def grad(self, y, inputs, **options):
        if self.keep:
            options["retain_graph"] = True
        return [g if g is None else g.contiguous() for g in torch.autograd.grad(y, inputs, **options)]

    def tensors(self):
        return [(n, t) for n, t in self.env.items() if isinstance(t, torch.Tensor)]

    def step(self, step):
        """Statuses: "." done, "e" refused, "o" to be refused (memory that overlaps itself), "s" skipped
        because an input is missing, "b" refused by backward because what it saved is gone, "?" done,
        but may be refused."""
        result = RESULT.match(step.py)
        made = NAME.findall(result.group(1)) if result else []
        inputs = [n for n in NAME.findall(step.py) if n not in made]
        if any(self.env.get(n) is None for n in inputs):
            self.statuses.append("s")
            return
        if "no_grad" not in step.py:  # nothing looks there
            for n in inputs:
                refresh(self.env[n])
        if step.mark == "o":
            self.statuses.append("o")
            return
        try:
            if self.keep:
                with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
                    exec(step.py, self.env)
            else:
                exec(step.py, self.env)
            self.statuses.append("?" if step.mark else ".")
            silent = "no_grad" in step.py or self.quiet.intersection(inputs)
            self.quiet.update(n for n in made
                              if silent and self.env[n] is not None and self.env[n]._is_view())
        except (RuntimeError, IndexError, TypeError) as error:
            for n in made:
                self.env.pop(n, None)
            gone = bool(LATER.search(str(error)))
            self.statuses.append("b" if gone else "e")
            self.ended = gone or bool(re.search(r"\b(backward|grad)\(", step.py))

    def observations(self):
        out = {}
        for name, t in self.tensors():
            if name in self.quiet:
                continue
            refresh(t)
            flags = ("r" if t.requires_grad else "") + ("l" if t.is_leaf else "")
            out[name] = digest(t) + " " + flags
            if t.grad is not None:
                out[name + ".grad"] = digest(t.grad)
            if self.seen.get(f"x{id(t)}"):
                out[name + ".hooks"] = [f"{n} {digest(g)}" for n, g in self.seen[f"x{id(t)}"]]
        return out


def answer(steps):
    """PyTorch's answer to a program, or None where its two runs do not fit together."""
    first = Run()
    for step in steps:
        first.step(step)
        if first.ended:
            break
    statuses, run = first.statuses, first
    if first.ended and statuses[-1] == "b":
        run = Run(keep=True)
        for step in steps[:len(statuses)]:
            run.step(step)
        if run.statuses[:-1] != statuses[:-1] or run.statuses[-1] != ".":
            return None
    wanted = {} if run.ended else run.observations()
    used = steps[:len(statuses)]
    return {"steps": [s.lua for s in used], "status": "".join(statuses), "wanted": wanted}


def draw(seed, number):
    rng = random.Random(f"{seed}:{number}")
    return Maker(rng, Run()).program()


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


TERM = re.compile(r" \+ loss\(x\d+\)|loss\(x\d+\) \+ ")


def fewer(steps):
    """The program without each one of its steps, and without each one term of its losses."""
    for i, step in enumerate(steps):
        yield steps[:i] + steps[i + 1:]
        for term in TERM.findall(step.lua):
            less = Step(step.lua.replace(term, "", 1), step.py.replace(term, "", 1), step.mark)
            yield steps[:i] + [less] + steps[i + 1:]


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
        print(f"{step.lua:60}  # {status}  {step.py}")
    sys.stdout.flush()


def compare(options):
    programs, mismatched, kinds, wanted = 0, 0, collections.Counter(), collections.Counter()
    for first in range(0, options.count, BATCH):
        batch = []
        for number in range(first, min(first + BATCH, options.count)):
            steps = draw(options.seed, number)
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
        print(f"{programs} programs, {mismatched} mismatches", file=sys.stderr)
    print(f"\nseed {options.seed}: {programs} programs, {sum(wanted.values())} steps "
          f"({wanted['e']} refused by PyTorch, {wanted['b']} in backward), {mismatched} mismatches")
    for kind, count in kinds.most_common():
        print(f"{count:8} {kind}")
    return 1 if mismatched else 0


def write(options):
    lines, number = [], 0
    while len(lines) < options.count:
        made = answer(draw(options.seed, number))
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
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--show", type=int, default=3, help="programs made small for each kind of mismatch")
    parser.add_argument("--only", default="", help="show only mismatches whose kind has this in its name")
    parser.add_argument("--write", help="write programs and answers to this file instead")
    options = parser.parse_args()
    sys.exit(write(options) if options.write else compare(options))


if __name__ == "__main__":
    main()
