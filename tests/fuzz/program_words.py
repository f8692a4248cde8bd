"""tests/fuzz/program_words.py: the words of random programs in Python: leaves, losses, functions with a
derivative of their own. program_words.lua has the same words for Moonlet.
"""
import functools
import math

import torch
from torch.autograd import forward_ad
from torch.utils import checkpoint as checkpoints


def numbers(t):
    """The elements of t in order as a flat list, real and imaginary parts side by side."""
    t = t.detach().resolve_conj()
    t = t.clone() if t._is_zerotensor() else t  # zeros without memory, of forward mode
    return (torch.view_as_real(t) if t.is_complex() else t).double().flatten().tolist()


def digest(t):
    """dtype, sizes and one number that depends on each element and its position."""
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


# Forward mode, transforms and checkpoints.

def dual(x, along):
    return forward_ad.make_dual(x, along)


def primal(x):
    """A copy of x without its tangent."""
    return forward_ad.unpack_dual(x).primal.clone()


def tangent(x):
    found = forward_ad.unpack_dual(x).tangent
    return torch.zeros_like(x.detach()) if found is None else found


def moving(x):
    """The tangent of x, with a history of x in any case."""
    return tangent(x) + primal(x) * 0.0


def pull(f, *inputs):
    """The result of f and its derivatives from `weights`, by all inputs."""
    y, back = torch.func.vjp(f, *inputs)
    return (y, *back(weights(y)))


def tied(inputs, found):
    """What a transform has found, with a history of these inputs in any case, and contiguous."""
    many = isinstance(found, (tuple, list))
    out = [y.contiguous() for y in (found if many else [found])]
    for x in inputs:
        zero = (x.real if x.is_complex() else x).sum().double() * 0.0
        out = [y + zero.to(y.dtype) if y.is_floating_point() or y.is_complex() else y for y in out]
    return out if many else out[0]


def checkpoint(f, *inputs, **options):
    return checkpoints.checkpoint(f, *inputs, use_reentrant=False, **options)


def packed():
    """Where copies in boxes are kept of what is saved."""
    return torch.autograd.graph.saved_tensors_hooks(lambda t: [t.detach().clone()], lambda box: box[0])


# Functions with a derivative of their own: each result by its kind, of x and y of the same shape.

RESULTS = {
    "mul": lambda x, y: x * y,
    "tanh": lambda x, y: x.tanh(),
    "same": lambda x, y: x,
    "alias": lambda x, y: x.view_as(x),
    "double": lambda x, y: x.mul_(2.0),
    "fixed": lambda x, y: x * 3.0,
    "whole": lambda x, y: (x > 0).long(),
}


def moved(kind, g, h, x, y, result):
    """How a result changes with changes g of x and h of y; None stands for zero."""
    by_x = {"mul": lambda: g * y, "tanh": lambda: g * (1.0 - result * result), "same": lambda: g,
            "alias": lambda: g.view_as(g), "double": lambda: g * 2.0}
    terms = [by_x[kind]()] if g is not None and kind in by_x else []
    terms += [h * x] if h is not None and kind == "mul" else []
    return functools.reduce(torch.add, terms) if terms else None


class Parts:
    """What the functions of the same results and flags have in common."""

    def __init__(self, kinds, flags):
        self.kinds, self.flags = kinds, flags

    def compute(self, x, y):
        return tuple(RESULTS[kind](x, y) for kind in self.kinds)

    def note(self, ctx, x, y, before, results):
        marked = [r for kind, r in zip(self.kinds, results) if kind == "fixed"]
        if marked:
            ctx.mark_non_differentiable(*marked)
        if "double" in self.kinds:
            ctx.mark_dirty(x)
        if "sparse" in self.flags:
            ctx.set_materialize_grads(False)
        kept = [r if kind == "tanh" else None for kind, r in zip(self.kinds, results)]
        ctx.save_for_backward(before, y, *kept)
        ctx.save_for_forward(before, y, *kept)

    def backward(self, ctx, *grads):
        x, y, *results = ctx.saved_tensors
        terms = [moved(kind, g, None, x, y, result)
                 for kind, g, result in zip(self.kinds, grads, results)]
        gx = [t for t in terms if t is not None]
        gy = [g * x for kind, g in zip(self.kinds, grads) if kind == "mul" and g is not None]
        needs = ctx.needs_input_grad if "skip" in self.flags else [True, True]
        return tuple(functools.reduce(torch.add, terms, torch.zeros_like(x)) if need else None
                     for terms, need in zip((gx, gy), needs))

    def jvp(self, ctx, g, h):
        x, y, *results = ctx.saved_tensors
        out = []
        for kind, result in zip(self.kinds, results):
            along = g.mul_(2.0) if kind == "double" and g is not None \
                else moved(kind, g, h, x, y, result)
            out.append(None if kind in ("fixed", "whole") else
                       torch.zeros_like(x) if along is None else along)
        return tuple(out)


@functools.lru_cache(None)
def function_of(kinds, flags):
    parts = Parts(kinds, flags)
    before = (lambda x: x.clone()) if "double" in kinds else (lambda x: x)
    once = torch.autograd.function.once_differentiable if "once" in flags else (lambda f: f)
    body = {"backward": staticmethod(once(parts.backward)), "jvp": staticmethod(parts.jvp)}
    if "apart" in flags:
        def set_up(ctx, inputs, output):
            parts.note(ctx, *inputs, inputs[0], output)
        body |= {"forward": staticmethod(parts.compute), "setup_context": staticmethod(set_up),
                 "generate_vmap_rule": True}
    else:
        def forward(ctx, x, y):
            kept = before(x)
            results = parts.compute(x, y)
            parts.note(ctx, x, y, kept, results)
            return results
        body["forward"] = staticmethod(forward)
    return type("Custom", (torch.autograd.Function,), body)


def custom(kinds, flags, x, y):
    """The results of a function with those results, and flags: once, skip, sparse, apart."""
    return function_of(tuple(kinds), tuple(flags)).apply(x, y)


WORDS = {"torch": torch, "leaf": leaf, "weights": weights, "loss": loss, "mask": mask, "rows": rows,
         "dual": dual, "primal": primal, "moving": moving, "pull": pull, "checkpoint": checkpoint, "packed": packed,
         "tied": tied,
         "custom": custom}
