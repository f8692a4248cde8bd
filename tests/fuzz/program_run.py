"""tests/fuzz/program_run.py: a random program in PyTorch: how each step ends and what its tensors are.

A program is run by PyTorch twice when its first run fails in backward because a saved tensor was
changed or freed: the second one keeps copies of all that is saved. Moonlet may then refuse too, or
give the second run's numbers (it saves less).
"""
import collections
import re

import torch
from torch.autograd import forward_ad

from program_views import ambiguous
from program_words import WORDS, digest, tangent

NAME = re.compile(r"\bx\d+\b")
RESULT = re.compile(r"^(?:with \w[\w.]*\(\): )?((?:x\d+, ?)*x\d+),? = ", re.MULTILINE)
LATER = re.compile(r"modified by an inplace operation|second time|already been freed")


def refresh(t):
    """Makes PyTorch look a view's history up again: before that, a view made of a constant that has a
    history since counts as a leaf."""
    return None if ambiguous(t) else t.grad_fn


class Run:
    """One program on PyTorch's side: its tensors, how each step ended, what hooks saw."""

    def __init__(self, keep=False):
        self.keep, self.ended, self.broken, self.level = keep, False, False, None
        self.statuses, self.seen = [], collections.defaultdict(list)
        self.message = None  # of what was refused last
        self.quiet = set()  # names of views made under no_grad
        self.handles, self.hooked = {}, []  # the tensors are kept, because `seen` goes by their identity
        own = [self.hook, self.unhook, self.node_hook, self.grad_hook, self.backward, self.grad, self.enter]
        self.env = WORDS | {word.__name__: word for word in own}

    # Words that note something.

    def note(self, x, number, g):
        # A copy: PyTorch adds later gradients of a leaf to what a hook was given.
        self.seen[f"x{id(x)}"].append((number, g.detach().clone()))

    def hook(self, number, x, factor=None):
        def seen(g):
            if g is None:  # of a result of a function that no gradient has reached
                return None
            self.note(x, number, g)
            return g * factor if factor else None
        self.hooked.append(x)
        self.handles[number] = x.register_hook(seen)

    def node_hook(self, number, x, before, factor=None):
        """A hook before or after the node that x comes from."""
        def seen(changed, *others):
            for g in (*changed, *(g for other in others for g in other)):
                if g is not None:
                    self.note(x, number, g)
            return tuple(g if g is None else g * factor for g in changed) if factor else None
        self.hooked.append(x)
        node = x.grad_fn
        self.handles[number] = node.register_prehook(seen) if before else node.register_hook(seen)

    def grad_hook(self, number, x, factor=None):
        """A hook of a leaf whose gradient was added up."""
        def seen(leaf):
            self.note(x, number, leaf.grad)
            if factor:
                leaf.grad = leaf.grad.detach() * factor
        self.hooked.append(x)
        self.handles[number] = x.register_post_accumulate_grad_hook(seen)

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

    def enter(self):
        """Begins a level of forward mode, which ends with the program."""
        self.level = forward_ad.dual_level()
        self.level.__enter__()

    def close(self):
        if self.level:
            self.level.__exit__(None, None, None)
            self.level = None

    # Steps.

    def tensors(self):
        return [(n, t) for n, t in self.env.items() if isinstance(t, torch.Tensor)]

    def step(self, step):
        """Statuses: "." done, "e" refused, "o" to be refused (memory that overlaps itself), "s" skipped
        because an input is missing, "b" refused by backward because what it saved is gone, "?" done,
        but may be refused, "r" refused, but may be done."""
        result = RESULT.search(step.py)
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
            if self.keep and "torch.func" not in step.py:
                with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
                    exec(step.py, self.env)
            else:
                exec(step.py, self.env)
            self.give_memory(made)
            self.statuses.append("?" if step.mark == "?" else ".")
            silent = "no_grad" in step.py or self.quiet.intersection(inputs)
            self.quiet.update(n for n in made
                              if silent and self.env[n] is not None and self.env[n]._is_view())
        except NameError:  # a step that was left out is needed
            self.broken = True
            self.statuses.append("s")
        except Exception as error:  # PyTorch's errors are of many classes
            self.refuse(step, made, error)

    def give_memory(self, names):
        """Zeros of forward mode have none."""
        for name in names:
            if self.env[name] is not None and self.env[name]._is_zerotensor():
                self.env[name] = self.env[name].clone()

    def refuse(self, step, made, error):
        self.message = str(error).split("\n")[0]
        for n in made:
            self.env.pop(n, None)
        if step.mark == "r":
            self.statuses.append("r")
            return
        self.broken = "INTERNAL ASSERT" in str(error)
        gone = bool(LATER.search(str(error)))
        self.statuses.append("b" if gone else "e")
        self.ended = gone or bool(re.search(r"\b(backward|grad)\(", step.py))

    def observations(self):
        out = {}
        for name, t in self.tensors():
            if name in self.quiet or ambiguous(t):
                continue
            flags = ("r" if t.requires_grad else "") + ("l" if t.is_leaf else "")
            out[name] = digest(t) + " " + flags
            if t.grad is not None:
                out[name + ".grad"] = digest(t.grad)
            if self.level and (t.is_floating_point() or t.is_complex()):
                out[name + ".tangent"] = digest(tangent(t))
            if self.seen.get(f"x{id(t)}"):
                out[name + ".hooks"] = [f"{n} {digest(g)}" for n, g in self.seen[f"x{id(t)}"]]
        return out


class Draft(Run):
    """The body of a function while it is drawn: run at once, with samples in the place of arguments."""

    def step(self, step):
        result = re.match(r"(?:def [^\0]*^)?((?:[a-z]\d+, ?)*[a-z]\d+),? = ", step.py, re.MULTILINE)
        made = re.findall(r"\w+", result.group(1)) if result else []
        try:
            exec(step.py, self.env)
            self.give_memory(made)
            self.statuses.append(".")
        except Exception:
            for name in made:
                self.env.pop(name, None)
            self.statuses.append("r")


def run_all(steps, keep=False):
    run = Run(keep)
    try:
        for step in steps:
            run.step(step)
            if run.ended or run.broken:
                break
        wanted = {} if run.ended else run.observations()
    finally:
        run.close()
    return run, wanted


def answer(steps):
    """PyTorch's answer to a program, or None where its two runs do not fit together."""
    run, wanted = run_all(steps)
    statuses = run.statuses
    if run.ended and statuses[-1] == "b":
        run, wanted = run_all(steps[:len(statuses)], keep=True)
        if run.statuses[:-1] != statuses[:-1] or run.statuses[-1] != ".":
            return None
    if run.broken:
        return None
    used = steps[:len(statuses)]
    return {"steps": [s.lua for s in used], "status": "".join(statuses), "wanted": wanted}
