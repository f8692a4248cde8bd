"""tests/fuzz/program_functions.py: steps of random programs that call functions with a derivative of
their own, hang hooks on nodes and leaves, and make and read tangents of forward mode.

Where the two sides differ on purpose:
- What a node gives its hooks depends on how its derivative is cut into nodes: only nodes of ops that
  both sides have as one are given any (NODES), and none that replaces gradients where ml.grad asks.
- What a function returns of its arguments shares their tangents in PyTorch, and has its own in Moonlet:
  not drawn with tangents. once_differentiable refuses nothing in PyTorch's transforms: not drawn there.
- Under vmap PyTorch multiplies the gradient by an argument that is the same for all samples when results
  differ in that: in bodies one result has a derivative.
- Tangents of such a function are wrong in PyTorch in two levels of forward mode: not drawn there.
- Whether a tangent has a history of its tensor differs: it is tied to it.
- PyTorch goes on below a function without a gradient for an argument, with zeros: functions give zeros.
  It drops the grad and the hooks of what is marked dirty, or dies: only what has none is.
- PyTorch has one level of forward mode outside of torch.func: programs enter one.
"""
from program_views import is_leaf, overlaps_itself, share

NODES = {"SinBackward0", "CosBackward0", "TanhBackward0", "SigmoidBackward0", "ExpBackward0",
         "NegBackward0", "MulBackward0", "CloneBackward0"}


def listed(words, quote):
    return quote[0] + ", ".join(f'"{w}"' for w in words) + quote[1]


class Functions:
    """The part of program_steps.Maker that calls functions and hangs hooks on nodes."""

    def custom(self):
        rng = self.rng
        if self.forwards > 1:
            return
        kinds = rng.sample(["mul", "tanh", "same", "alias", "fixed", "whole"], rng.randint(1, 3))
        if "dual" in self.kind.steps:
            kinds = [kind for kind in kinds if kind not in ("same", "alias")] or ["mul"]
        flags = [flag for flag in ("once", "skip", "sparse")
                 if self.chance(0.15) and not (flag == "once" and self.is_body)]
        x = self.pick(lambda t: not t.is_complex())
        if not self.is_body and self.chance(0.25):
            kinds = [kind for kind in kinds if kind not in ("same", "alias")][:1] + ["double"]
            x = self.target()
            t = x and self.get(x)
            if not x or t.is_complex() or overlaps_itself(t) or t.grad is not None or t.retains_grad \
                    or t._backward_hooks:
                return
        elif kinds != ["same"] and (self.is_body or self.chance(0.3)):
            flags.append("apart")
            kinds = [kind for kind in kinds if kind != "same"]  # PyTorch refuses to save it
        if self.is_body:
            linear = [kind for kind in kinds if kind in ("mul", "tanh", "alias")]
            kinds = [kind for kind in kinds if kind not in linear[1:]]
        if not x:
            return
        t = self.get(x)
        y = self.pick(lambda s: s.shape == t.shape and s.dtype == t.dtype and not share(s, t))
        y = y or f"weights({x})"
        outs = [self.new() for _ in kinds]
        self.add(f"{', '.join(outs)} = custom({listed(kinds, '{}')}, {listed(flags, '{}')}, {x}, {y})",
                 f"{', '.join(outs)}, = custom({listed(kinds, '[]')}, {listed(flags, '[]')}, {x}, {y})",
                 "r" if self.is_body else "")

    # Hooks.

    def new_hook(self):
        """The number of a hook, and the text of a factor by which it multiplies."""
        self.hooks += 1
        return self.hooks, self.rng.choice(["", "", ", 2.0", ", 0.5"])

    def node_hook(self):
        x = self.pick(lambda t: t.requires_grad and not is_leaf(t) and t.grad_fn is not None
                      and t.grad_fn.name() in NODES)
        if not x or self.hooks > 6:
            return
        number, factor = self.new_hook()
        if factor:
            self.replaced.update(self.names())
        before = self.chance(0.5)
        self.add(f"node_hook({number}, {x}, {str(before).lower()}{factor})",
                 f"node_hook({number}, {x}, {before}{factor})")

    def grad_hook(self):
        x = self.pick(lambda t: t.requires_grad and is_leaf(t))
        if x and self.hooks <= 6:
            number, factor = self.new_hook()
            self.add(f"grad_hook({number}, {x}{factor})", f"grad_hook({number}, {x}{factor})")

    # Forward mode.

    def enter(self):
        self.add("enter()", "enter()")

    def dual(self):
        x = self.pick(lambda t: not overlaps_itself(t) and (not t.requires_grad or self.chance(0.7)))
        if self.is_body:
            linear = [kind for kind in kinds if kind in ("mul", "tanh", "alias")]
            kinds = [kind for kind in kinds if kind not in linear[1:]]
        if not x:
            return
        t = self.get(x)
        y = self.pick(lambda s: s.shape == t.shape and s.dtype == t.dtype)
        along = f"weights({x})"
        if y and self.chance(0.3):
            along = f"primal({y})"
        self.make(f"dual({x}, {along})", f"dual({x}, {along})", 0)

    def tangent(self):
        x = self.pick()
        if x:
            self.unwritten.append(self.make(f"moving({x})", f"moving({x})", 0))
