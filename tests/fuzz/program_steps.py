"""tests/fuzz/program_steps.py: draws random programs of views, in-place changes, hooks and gradients.
Each step is a line of Lua and the same line of Python; the program is run in PyTorch while it is
drawn, so that a step fits the tensors it finds. torch_programs.py runs the programs on both sides.

Where the two sides differ on purpose (in this file and program_views.py):
- Lua counts dimensions and positions from 1, and ranges include their end.
- Writing to memory that overlaps itself (expanded, unfolded) is refused by Moonlet always, by PyTorch
  only where a stride is 0: such a step is marked "o" and not given to PyTorch.
- An in-place op that reads what it overwrites: Moonlet copies first or refuses, PyTorch's result is
  undefined: PyTorch gets the copy, and the step is marked "?" unless both are the same elements.
- PyTorch refuses to change the results of split, chunk and unbind in place, because it does not keep
  how each was made. Moonlet's are views like any other: PyTorch gets narrow and select.
- A view made under no_grad of a tensor with history says that it requires grad in PyTorch and acts as a
  leaf of its own; in Moonlet it does not. Such views (Run.quiet) are only written to, never computed with.
- A view made before its base came to require grad requires grad too in PyTorch, not in Moonlet: tensors
  with views are not given requires_grad_. A result that others saved cannot be detached in place in
  PyTorch: only leaves are.
- A gradient that does not depend on the inputs may say that it requires grad in PyTorch (those of relu
  and square do): such ops are left out.
- ml.grad gives an input's gradient after the hooks of that input; PyTorch before them when the graph goes
  on below it: inputs have no hooks that replace gradients.
- Whether results of ml.grad share memory, and how they lie in it, differs: they are not written to, and
  later steps see them in row-major order.
- A view of a leaf that is a view itself loses its history in PyTorch when their memory is written to
  under no_grad or through a view made under no_grad, because it is made again from the root, which does
  not require grad: nor are those.
- View ops in place (t_, squeeze_, ...): hooks and retain_grad of the tensor, also hooks registered
  later, see the gradient of the old shape in PyTorch: such tensors keep theirs. It replays views of another dtype on the changed base, and loses views of
  what as_strided_ left out: see may_restride. Under no_grad it leaves a history of the old shape
  behind: that is not drawn.
- A tangent in PyTorch keeps its dtype when a tensor of another dtype is copied to its tensor, and views
  are ambiguous sooner: with tangents there is no no_grad, and no copy to another dtype.
- A tensor with a tangent cannot be given another shape in place in Moonlet: not drawn with tangents.
- conj is a copy in Moonlet and a flagged view in PyTorch: PyTorch gets conj_physical.
"""
from dataclasses import dataclass, field
import re

from program_blocks import Blocks
from program_functions import Functions
from program_views import MOST_ELEMENTS, Views, ambiguous, broadcasts, is_leaf, overlaps_itself, share, table, up

SHAPES = [(4,), (6,), (2, 3), (3, 2), (2, 2), (2, 2, 2), (1, 3), (4, 2), ()]
UNARY = ["neg", "sin", "cos", "tanh", "sigmoid", "exp"]
COMPLEX_UNARY = ["neg", "sin", "exp"]
DECLARES = re.compile(r"[a-z]\d+(, [a-z]\d+)* = ")


@dataclass
class Kind:
    """What programs are made of: how often each step is drawn, in a program and in bodies in it."""
    steps: dict
    body: dict = field(default_factory=dict)
    packed: float = 0.0  # how often a step has hooks of saved tensors
    quiet: bool = True  # whether steps may be under no_grad

    @property
    def innermost(self):
        return {name: n for name, n in self.body.items() if name not in ("transform", "checkpoint")}


OPS = {"unary": 2, "binary": 2, "reshaping": 1.5, "view": 6, "inplace": 6}
TAPE = OPS | {"restride": 1.2, "hook": 1.2, "flag": 0.8, "backward": 0.5, "grad": 0.7}
CALM = {"unary": 3, "binary": 3, "reshaping": 3, "view": 3, "inplace": 3}
KINDS = {
    "tape": Kind(TAPE),
    "functions": Kind(TAPE | {"custom": 6}),
    "hooks": Kind(TAPE | {"view": 4, "inplace": 4, "node_hook": 5, "grad_hook": 2, "custom": 1}, packed=0.2),
    "checkpoint": Kind(TAPE | {"checkpoint": 5}, CALM | {"checkpoint": 2, "custom": 2}, packed=0.05),
    "forward": Kind(TAPE | {"restride": 0, "hook": 0.3, "flag": 0.3, "dual": 2.5, "tangent": 1, "custom": 1}, quiet=False),
    "func": Kind(CALM | {"transform": 12, "backward": 0.5, "grad": 0.5},
                 CALM | {"transform": 5, "custom": 1}),
}


@dataclass
class Step:
    lua: str
    py: str
    # "o": to be refused, not run in PyTorch; "?": may be refused; "r": not compared where PyTorch refuses
    mark: str = ""

    def smaller(self, _):
        for term in TERM.findall(self.lua):
            yield Step(self.lua.replace(term, "", 1), self.py.replace(term, "", 1), self.mark)


TERM = re.compile(r" \+ loss\(\w+\)|loss\(\w+\) \+ ")


def fewer(steps):
    """The steps without each one of them, and with each one made smaller."""
    for i, step in enumerate(steps):
        yield steps[:i] + steps[i + 1:]
        for less in step.smaller(fewer):
            yield steps[:i] + [less] + steps[i + 1:]


class Maker(Views, Functions, Blocks):
    """Draws steps for the tensors of `run` (a program_run.Run), and runs each at once. In the body of a
    function names begin with another letter than x."""

    def __init__(self, rng, run, kind, prefix="x"):
        self.rng, self.run, self.kind, self.prefix = rng, run, kind, prefix
        self.is_body = prefix != "x"
        self.depth = ord(prefix) - ord("a") + 1 if self.is_body else 0
        self.functions = [0]  # how many were drawn, bodies in bodies counted too
        self.forwards = 0  # how many levels of forward mode the body is in
        self.steps, self.count, self.hooks = [], 0, 0
        self.removed, self.replaced = set(), set()  # numbers of hooks; names with hooks that replace
        self.unwritten = []  # names whose memory is not written to

    # The tensors at hand.

    def names(self, test=lambda t: True):
        return [n for n, t in self.run.tensors() if not ambiguous(t) and test(t)]

    def get(self, name):
        return self.run.env[name]

    def pick(self, test=lambda t: True):
        """A name, more often a late one, or None."""
        names = [n for n in self.names(test) if n not in self.run.quiet]
        return self.pick_among(names) if names else None

    def pick_among(self, names):
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def new(self):
        name = f"{self.prefix}{self.count}"
        self.count += 1
        return name

    def chance(self, p):
        return self.rng.random() < p

    def ints(self, n):
        return [self.rng.randrange(n) for _ in range(self.rng.randint(1, 3))]

    # Adding a step.

    def add(self, lua, py, mark=""):
        if self.is_body:
            mark = ""
            if DECLARES.match(lua):
                lua = "local " + lua
        self.put(Step(lua, py, mark))

    def put(self, step):
        self.steps.append(step)
        self.run.step(step)
        # What PyTorch refuses and is not compared is seldom of use.
        if self.run.statuses[-1] == "r" and (self.is_body or self.chance(0.9)):
            self.steps.pop()
            self.run.statuses.pop()

    def make(self, lua, py, quiet=0.06):
        """A step with a new tensor as its result; sometimes under no_grad or hooks of saved tensors."""
        name = self.new()
        if self.kind.packed and not self.is_body and self.chance(self.kind.packed):
            self.add(f"packed(function() {name} = {lua} end)", f"with packed(): {name} = {py}")
        elif self.kind.quiet and not self.is_body and self.chance(quiet):
            self.add(f"ml.no_grad(function() {name} = {lua} end)",
                     f"with torch.no_grad(): {name} = {py}")
        else:
            self.add(f"{name} = {lua}", f"{name} = {py}")
        return name

    def change(self, lua, py, target, source=None):
        """A step that writes to `target`, a name or a tensor, and reads `source`, "@" in the texts."""
        mark, written = "", self.get(target) if isinstance(target, str) else target
        if overlaps_itself(written):
            if self.is_body or not self.chance(0.1):
                return
            mark = "o"
        elif source:
            shared = share(written, self.get(source))
            if shared and not self.chance(0.3):
                shared, lua = None, lua.replace("@", f"{source}:clone()")
                py = py.replace("@", f"{source}.clone()")
            py = py.replace("@", f"{source}.clone()" if shared else source)
            mark = "?" if shared == "part" else ""
            if mark and self.is_body:
                return
        if source:
            lua, py = lua.replace("@", source), py.replace("@", source)
        if self.kind.quiet and not self.is_body and self.chance(0.08):
            lua, py = f"ml.no_grad(function() {lua} end)", f"with torch.no_grad(): {py}"
        elif self.kind.packed and not self.is_body and self.chance(self.kind.packed):
            lua, py = f"packed(function() {lua} end)", f"with packed(): {py}"
        self.add(lua, py, mark)

    # Leaves and results.

    def leaf(self):
        rng = self.rng
        dtype = rng.choices(["float64", "float32", "complex128"], [0.82, 0.08, 0.1])[0]
        shape = rng.choice(SHAPES)
        wants = str(not self.chance(0.15))
        name = self.new()
        lua = f"{name} = leaf({table(shape)}, {self.count}, \"{dtype}\", {wants.lower()})"
        py = f"{name} = leaf({list(shape)}, {self.count}, \"{dtype}\", {wants})"
        if wants == "False" and self.chance(0.5):  # a leaf that is itself a view
            lua, py = f"{lua}:view(-1):requires_grad_()", f"{py}.view(-1).requires_grad_()"
            self.unwritten.append(name)
        self.add(lua, py)

    def unary(self):
        x = self.pick()
        if self.chance(0.3):
            op, number = self.rng.choice("+-*"), self.rng.choice(["2.0", "0.5", "-1.5"])
            if self.chance(0.2):
                self.make(f"{x} / 4.0", f"{x} / 4.0")
            else:
                self.make(f"{x} {op} {number}", f"{x} {op} {number}")
            return
        op = self.rng.choice(COMPLEX_UNARY if self.get(x).is_complex() else UNARY)
        if op == "exp":
            self.make(f"({x} * 0.25):exp()", f"({x} * 0.25).exp()")
        else:
            self.make(f"{x}:{op}()", f"{x}.{op}()")

    def binary(self):
        x = self.pick()
        shape = self.get(x).shape
        y = self.pick(lambda t: broadcasts(t.shape, shape))
        op = self.rng.choice("+-**")
        z = self.pick(lambda t: t.dim() == 2 and len(shape) == 2 and t.shape[0] == shape[1]
                      and t.dtype == self.get(x).dtype)
        if z and self.chance(0.4):
            self.make(f"{x}:matmul({z})", f"{x}.matmul({z})")
        elif self.chance(0.06):
            number = self.rng.choice(["2.0", "1.5"])
            self.make(f"{number} - {x} * {y}", f"{number} - {x} * {y}")
        else:
            self.make(f"{x} {op} {y}", f"{x} {op} {y}")

    def reshaping(self):
        """Results that are not views, or only sometimes."""
        rng, x = self.rng, self.pick()
        t = self.get(x)
        dims = t.dim()
        kinds = ["clone", "contiguous", "detach", "sum", "where", "masked_fill"]
        if dims:
            kinds += ["cumsum", "flip", "index_select", "cat", "sum_dim", "reshape", "softmax", "index"]
        if t.is_complex():
            kinds += ["conj", "conj"]
        kind = rng.choice(kinds)
        d = rng.randrange(dims) if dims else 0
        if kind == "contiguous" and t.is_contiguous():
            return
        if kind in ("clone", "contiguous", "detach", "sum"):
            self.make(f"{x}:{kind}()", f"{x}.{kind}()")
        elif kind == "conj":
            self.make(f"{x}:conj()", f"{x}.conj_physical()")
        elif kind == "where":
            self.make(f"ml.where(mask({x}), {x}, {x} * 2.0)", f"torch.where(mask({x}), {x}, {x} * 2.0)")
        elif kind == "masked_fill":
            self.make(f"{x}:masked_fill(mask({x}), 0.5)", f"{x}.masked_fill(mask({x}), 0.5)")
        elif kind == "reshape":
            self.make(f"{x}:reshape(-1)", f"{x}.reshape(-1)")
        elif kind == "cat":
            if t.numel() * 2 <= MOST_ELEMENTS:
                self.make(f"ml.cat({{{x}, {x}}}, {d + 1})", f"torch.cat([{x}, {x}], {d})")
        elif kind in ("index_select", "index"):
            if t.shape[d] == 0:
                return
            where = [rng.randrange(t.shape[d if kind == "index_select" else 0])
                     for _ in range(rng.randint(1, 3))] if t.shape[0] else [0]
            if kind == "index_select":
                self.make(f"{x}:index_select({d + 1}, ml.tensor {table(up(where))})",
                          f"{x}.index_select({d}, torch.tensor({where}))")
            elif t.shape[0]:
                self.make(f"{x}[ml.tensor {table(up(where))}]", f"{x}[torch.tensor({where})]")
        elif kind == "softmax" and t.is_complex():
            return
        else:
            name = kind.removesuffix("_dim")
            dim_lua, dim_py = (table([d + 1]), f"[{d}]") if kind == "flip" else (d + 1, d)
            self.make(f"{x}:{name}({dim_lua})", f"{x}.{name}({dim_py})")

    # Changes in place.

    def target(self):
        """Something to change: seldom what both sides refuse to have changed."""
        memory = {self.get(n).untyped_storage().data_ptr() for n in self.unwritten
                  if self.run.env.get(n) is not None}

        def may_change(t):
            return t.numel() > 0 and t.untyped_storage().data_ptr() not in memory

        quiet = [n for n in sorted(self.run.quiet) if may_change(self.get(n))]
        if quiet and self.chance(0.2):
            return self.rng.choice(quiet)
        if self.chance(0.08):
            return self.pick(may_change)
        return self.pick(lambda t: may_change(t) and not (t.requires_grad and is_leaf(t))
                         and not (t._base is not None and t._base.requires_grad and is_leaf(t._base)))

    def inplace(self):
        x = self.target()
        if not x:
            return
        kind = self.rng.choices(["unary", "number", "tensor", "copy", "fill", "key", "index", "scatter"],
                                [4, 4, 4, 2, 1, 3, 2, 2])[0]
        getattr(self, "change_" + kind)(x, self.get(x))

    def change_unary(self, x, t):
        op = self.rng.choice(COMPLEX_UNARY if t.is_complex() else UNARY)
        if op == "exp":
            self.change(f"{x}:mul_(0.25)", f"{x}.mul_(0.25)", x)
        self.change(f"{x}:{op}_()", f"{x}.{op}_()", x)

    def change_number(self, x, _):
        op, number = self.rng.choice(["mul", "mul", "add", "sub", "div"]), self.rng.choice(["2.0", "0.5"])
        self.change(f"{x}:{op}_({number})", f"{x}.{op}_({number})", x)

    def change_tensor(self, x, t):
        y = self.pick(lambda s: broadcasts(s.shape, t.shape))
        if y:
            op = self.rng.choice(["mul", "mul", "add", "sub"])
            self.change(f"{x}:{op}_(@)", f"{x}.{op}_(@)", x, y)

    def change_copy(self, x, t):
        # PyTorch refuses to copy the parts of complex numbers over them; Moonlet copies first.
        y = self.pick(lambda s: broadcasts(s.shape, t.shape) and s.is_complex() <= t.is_complex()
                      and (s.dtype == t.dtype or (self.kind.quiet and not share(s, t))))
        if y:
            self.change(f"{x}:copy_(@)", f"{x}.copy_(@)", x, y)

    def change_fill(self, x, _):
        text = self.rng.choice(["fill_(0.5)", "zero_()", "masked_fill_"])
        if text == "masked_fill_":
            text = f"masked_fill_(mask({x}), -0.5)"
        self.change(f"{x}:{text}", f"{x}.{text}", x)

    def change_key(self, x, t):
        if not t.dim():
            return
        lua, py = self.key(t, steps=True)
        if self.chance(0.3):
            lua, py = f"mask({x})", f"mask({x})"
            self.change(f"{x}[{lua}] = 0.75", f"{x}[{py}] = 0.75", x)
            return
        part = eval(f"t[{py}]", {"t": t.detach()})
        y = self.pick(lambda s: broadcasts(s.shape, part.shape) and s.dtype == t.dtype)
        if y and self.chance(0.8):
            self.change(f"{x}[{lua}] = @", f"{x}[{py}] = @", part, y)
        else:
            self.change(f"{x}[{lua}] = 0.25", f"{x}[{py}] = 0.25", part)

    def change_index(self, x, t):
        if not t.dim():
            return
        where = self.ints(t.shape[0])
        shape = (len(where),) + tuple(t.shape[1:])
        y = self.pick(lambda s: broadcasts(s.shape, shape) and s.dtype == t.dtype)
        if not y:
            return
        if self.chance(0.5):
            if len(set(where)) < len(where):
                where = where[:1]
                if not broadcasts(self.get(y).shape, (1,) + tuple(t.shape[1:])):
                    return
            self.change(f"{x}[ml.tensor {table(up(where))}] = @", f"{x}[torch.tensor({where})] = @", x, y)
        else:
            self.change(f"{x}:index_put_({{ml.tensor {table(up(where))}}}, @, true)",
                        f"{x}.index_put_([torch.tensor({where})], @, accumulate=True)", x, y)

    def change_scatter(self, x, t):
        if not t.dim():
            return
        kind = self.rng.choice(["scatter_", "scatter_add_", "index_add_"])
        y = self.pick(lambda s: s.dtype == t.dtype and s.dim() == t.dim() and s.numel() > 0
                      and s.shape[1:] == t.shape[1:])
        if not y:
            return
        n = self.get(y).shape[0]
        if kind == "scatter_" and n > t.shape[0]:
            return
        where = self.rng.sample(range(t.shape[0]), n) if kind == "scatter_" \
            else [self.rng.randrange(t.shape[0]) for _ in range(n)]
        if kind == "index_add_":
            self.change(f"{x}:index_add_(1, ml.tensor {table(up(where))}, @)",
                        f"{x}.index_add_(0, torch.tensor({where}), @)", x, y)
        else:
            self.change(f"{x}:{kind}(1, rows({table(up(where))}, {y}), @)",
                        f"{x}.{kind}(0, rows({where}, {y}), @)", x, y)

    # Hooks, flags and gradients.

    def hook(self):
        x = self.pick(lambda t: t.requires_grad)
        if not x or self.hooks > 5:
            return
        if self.hooks > len(self.removed) and self.chance(0.25):
            number = self.rng.choice([n for n in range(1, self.hooks + 1) if n not in self.removed])
            self.removed.add(number)
            self.add(f"unhook({number})", f"unhook({number})")
            return
        self.hooks += 1
        factor = self.rng.choice(["", "", ", 2.0", ", 0.5"])
        if factor:
            self.replaced.add(x)
        self.add(f"hook({self.hooks}, {x}{factor})", f"hook({self.hooks}, {x}{factor})")

    def flag(self):
        rng, x = self.rng, self.pick()
        kind = rng.choice(["retain_grad"] * 5 + ["clear", "set", "set", "detach_", "requires_grad_"])
        if kind == "retain_grad":
            x = self.pick(lambda t: t.requires_grad)
            if x:
                self.add(f"{x}:retain_grad()", f"{x}.retain_grad()")
        elif kind == "clear":
            self.add(f"{x}.grad = nil", f"{x}.grad = None")
        elif kind == "set":
            self.add(f"{x}.grad = weights({x})", f"{x}.grad = weights({x})")
        elif any(t._base is self.get(x) for _, t in self.run.tensors()):
            return
        elif is_leaf(self.get(x)) and self.get(x).requires_grad == (kind == "detach_"):
            self.add(f"{x}:{kind}()", f"{x}.{kind}()")
            if self.get(x)._base is not None:
                self.unwritten.append(x)

    def loss(self):
        names = [n for n in self.names(lambda t: t.requires_grad) if n not in self.run.quiet]
        if not names:
            return None
        chosen = self.rng.sample(names[-5:], min(len(names), self.rng.randint(1, 3)))
        text = " + ".join(f"loss({n})" for n in chosen)
        name = self.new()
        self.add(f"{name} = {text}", f"{name} = {text}")
        return name

    def backward(self, last=False):
        y = self.loss()
        if not y or self.run.env.get(y) is None or not self.get(y).requires_grad:
            return
        retain, create = not last and self.chance(0.8), self.chance(0.08)
        named = [("retain_graph", retain)] * retain + [("create_graph", create)] * create
        lua = ", ".join(f"{n} = true" for n, _ in named)
        py = "".join(f", {n}=True" for n, _ in named)
        seed_lua, seed_py = "nil", ""
        if self.chance(0.15):
            y = self.pick(lambda t: t.requires_grad)
            seed_lua, seed_py = f"weights({y})", f", weights({y})"
        lua = f"{seed_lua}, {{ {lua} }}" if lua else seed_lua.replace("nil", "")
        self.add(f"{y}:backward({lua})", f"backward({y}{seed_py}{py})")

    def grad(self):
        y = self.loss()
        if not y or self.run.env.get(y) is None:
            return
        names = [n for n in self.names(lambda t: t.requires_grad and t is not self.get(y))
                 if n not in self.run.quiet
                 and not any(self.run.env.get(r) is self.get(n) for r in self.replaced)]
        inputs = self.rng.sample(names, min(len(names), self.rng.randint(1, 2)))
        if not inputs:
            return
        outputs, seeds = [y], ""
        if self.chance(0.2):
            outputs += [n for n in names if n not in outputs][-1:]
            seeds = ", ".join(f"weights({n})" for n in outputs)
        create, unused, retain = self.chance(0.6), self.chance(0.85), self.chance(0.6)
        outs = [self.new() for _ in inputs]
        self.unwritten += outs
        lua = [f"{n} = true" for n, on in (("create_graph", create), ("allow_unused", unused),
                                           ("retain_graph", retain)) if on]
        py = [f", {text.replace(' = true', '=True')}" for text in lua]
        if seeds:
            lua.append(f"grad_outputs = {{{seeds}}}")
            py.append(f", grad_outputs=[{seeds}]")
        given = table(outputs) if len(outputs) > 1 else y
        self.add(f"{', '.join(outs)} = grad({given}, {table(inputs)}, {table(lua)})",
                 f"{', '.join(outs)}, = grad([{', '.join(outputs)}], [{', '.join(inputs)}]{''.join(py)})")

    # A program.

    def draw_step(self, weights):
        getattr(self, self.rng.choices(list(weights), list(weights.values()))[0])()

    def program(self):
        forward = "dual" in self.kind.steps
        if forward:
            self.enter()
        for _ in range(self.rng.randint(1, 2)):
            self.leaf()
        for x in self.names(lambda t: t.requires_grad):
            factor = self.rng.choice(["1.0", "2.0"])
            self.make(f"{x} * {factor}", f"{x} * {factor}", 0)
        if forward:
            self.dual()
        for _ in range(self.rng.randint(3, 12)):
            self.draw_step(self.kind.steps)
            if self.run.ended:
                return self.steps
        if self.chance(0.25):
            self.grad()
        if not self.run.ended:
            self.backward(last=True)
        return self.steps
