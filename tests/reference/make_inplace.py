"""tests/reference/make_inplace.py: random programs of views and in-place changes with PyTorch's
gradients, for tests/lua/autograd_test.lua. Needs PyTorch; run by hand:
    python3 tests/reference/make_inplace.py > tests/reference/inplace.json
"""
import json
import random

import torch

PROGRAMS = 120
VIEWS = ("t", "select", "narrow", "unsqueeze", "diagonal")
CHANGES = ("mul", "add", "sin", "exp", "relu", "fill", "add tensor", "copy", "mul tensor")


class Program:
    """The same steps in PyTorch and in Lua. The variables are x0, x1, ... with known shapes."""

    def __init__(self):
        self.torch, self.lua = ["x0 = a * 1.0", "x1 = b * 2.0"], ["x0 = a * 1.0", "x1 = b * 2.0"]
        self.shapes = {"x0": (2, 3), "x1": (3,)}

    def step(self, torch_text, lua_text, shape=None):
        if shape is not None:
            name = f"x{len(self.shapes)}"
            self.shapes[name] = shape
            torch_text, lua_text = f"{name} = {torch_text}", f"{name} = {lua_text}"
        self.torch.append(torch_text)
        self.lua.append(lua_text)

    def view(self, v, s):
        kind, d = random.choice(VIEWS), random.randrange(len(s))
        if kind == "t" and len(s) == 2:
            self.step(f"{v}.t()", f"{v}:t()", s[::-1])
        elif kind == "select":
            i = random.randrange(s[d])
            self.step(f"{v}.select({d}, {i})", f"{v}:select({d + 1}, {i + 1})", s[:d] + s[d + 1:])
        elif kind == "narrow":
            i = random.randrange(s[d])
            n = random.randint(1, s[d] - i)
            self.step(f"{v}.narrow({d}, {i}, {n})", f"{v}:narrow({d + 1}, {i + 1}, {n})",
                      s[:d] + (n,) + s[d + 1:])
        elif kind == "unsqueeze" and len(s) < 3:
            self.step(f"{v}.unsqueeze({d})", f"{v}:unsqueeze({d + 1})", s[:d] + (1,) + s[d:])
        elif kind == "diagonal" and len(s) == 2:
            self.step(f"{v}.diagonal()", f"{v}:diagonal()", (min(s),))

    def change(self, v, s):
        kind = random.choice(CHANGES)
        plain = {"mul": "mul_(1.5)", "add": "add_(0.5)", "sin": "sin_()", "relu": "relu_()",
                 "fill": "fill_(2.0)"}
        if kind in plain:
            self.step(f"{v}.{plain[kind]}", f"{v}:{plain[kind]}")
        elif kind == "exp":
            self.step(f"{v}.mul_(0.1).exp_()", f"{v}:mul_(0.1):exp_()")
        else:
            other = random.choice(list(self.shapes))
            wanted = self.shapes[other]
            if s[len(s) - len(wanted):] != wanted:
                return
            op = {"add tensor": "add_", "copy": "copy_", "mul tensor": "mul_"}[kind]
            self.step(f"{v}.{op}({other}.clone())", f"{v}:{op}({other}:clone())")

    def compute(self, v, s):
        kind = random.randrange(3)
        self.step((f"{v} * {v}", f"{v}.cos()", f"{v} + 1.0")[kind],
                  (f"{v} * {v}", f"{v}:cos()", f"{v} + 1.0")[kind], s)

    def finish(self):
        terms = [f"({v} * {i + 1}.0)" for i, v in enumerate(self.shapes)]
        self.torch.append("y = " + " + ".join(term + ".sum()" for term in terms))
        self.lua.append("y = " + " + ".join(term + ":sum()" for term in terms))


def make():
    program = Program()
    for _ in range(random.randint(4, 10)):
        v = random.choice(list(program.shapes))
        s, r = program.shapes[v], random.random()
        if r < 0.35 and len(s) > 0:
            program.view(v, s)
        elif r < 0.75:
            program.change(v, s)
        else:
            program.compute(v, s)
    program.finish()
    return program


def gradients(program):
    """The gradients of a and b, or None where PyTorch refuses the program."""
    a = torch.tensor([[.1, .2, .3], [.4, .5, .6]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([.7, .8, .9], dtype=torch.float64, requires_grad=True)
    env = {"a": a, "b": b}
    try:
        exec("\n".join(program.torch), env)
        env["y"].backward()
    except RuntimeError:
        return None
    zero = torch.zeros(1)
    flat = [(x.grad if x.grad is not None else zero.expand(x.shape)).flatten() for x in (a, b)]
    return [[float(f"{v:.12g}") for v in x.tolist()] for x in flat]


random.seed(7)
out = []
while len(out) < PROGRAMS:
    made = make()
    grads = gradients(made)
    if grads is not None:
        out.append({"lua": made.lua, "a": grads[0], "b": grads[1]})
print("[\n" + ",\n".join(json.dumps(item) for item in out) + "\n]")
