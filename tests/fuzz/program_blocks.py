"""tests/fuzz/program_blocks.py: steps of random programs that give a function, whose body is drawn too,
to a transform of ml.func or to a checkpoint. Bodies may hold such steps in their turn.

Where the two sides differ on purpose:
- PyTorch refuses much inside of transforms that Moonlet does: what it refuses is not compared (mark "r").
- Bodies change in place only what they have made: PyTorch's transforms give aliases of arguments.
- Whether a result that does not depend on an input has a history of it differs: results are tied to
  all inputs, by adding zeros. How results lie in memory differs: they are made contiguous.
- as_strided under vmap counts from where a sample begins in PyTorch: it is not drawn in bodies.
"""
import re
from dataclasses import dataclass, field, replace

from program_run import Draft
from program_views import MOST_ELEMENTS, table

MOST_DEPTH = 3


@dataclass
class Block:
    """A step that defines a function and calls something with it."""
    name: str
    params: list
    results: list
    steps: list = field(default_factory=list)
    lua_call: str = ""
    py_call: str = ""
    mark: str = "r"

    @property
    def lua(self):
        lines = [line for step in self.steps for line in step.lua.split("\n")]
        lines.append(f"return {', '.join(self.results)}")
        body = "".join(f"  {line}\n" for line in lines)
        return f"local function {self.name}({', '.join(self.params)})\n{body}end\n{self.lua_call}"

    @property
    def py(self):
        lines = [line for step in self.steps for line in step.py.split("\n")]
        lines.append(f"return {', '.join(self.results)}")
        body = "".join(f"    {line}\n" for line in lines)
        return f"def {self.name}({', '.join(self.params)}):\n{body}{self.py_call}"

    def smaller(self, fewer):
        for less in fewer(self.steps):
            yield replace(self, steps=less)


def elements(shape):
    n = 1
    for size in shape:
        n *= size
    return n


class Blocks:
    """The part of program_steps.Maker that draws functions and what is done with them."""

    def body(self, samples, scalar=False, results=1, forward=False):
        """A function of what looks like `samples`, and its results for these; `forward`: in forward mode."""
        kept = self.rng.sample(self.names(), min(2, len(self.names())))
        run = Draft()
        run.env |= {name: self.get(name) for name in kept if name not in self.run.quiet}
        inner = type(self)(self.rng, run, self.kind, chr(ord(self.prefix) + 1) if self.is_body else "a")
        inner.unwritten = list(kept)
        inner.functions = self.functions
        inner.forwards = self.forwards + forward
        params = []
        for sample in samples:
            params.append(inner.new())
            run.env[params[-1]] = sample.detach().clone()
        inner.unwritten += params
        for _ in range(self.rng.randint(1, 5)):
            inner.draw_step(self.kind.body if len(inner.prefix) and inner.depth < MOST_DEPTH
                            else self.kind.innermost)
        own = [n for n in inner.names() if n[0] == inner.prefix]
        found = [inner.pick_among(own) for _ in range(results)]
        self.functions[0] += 1
        block = Block(f"f{self.functions[0]}", params, found, inner.steps)
        values = [inner.get(n) for n in found]
        if scalar:
            block.results = [" + ".join(f"loss({n})" for n in dict.fromkeys(found))]
        return block, values

    def arguments(self, test=lambda t: True, most=2):
        fits = lambda t: (t.is_floating_point() or t.is_complex()) and t.numel() > 0 and test(t)
        names = [self.pick(fits) for _ in range(self.rng.randint(1, most))]
        return [] if None in names else names

    def finish(self, block, outs, lua, py):
        """Adds the step; `outs` are names of results."""
        local = "local " if self.is_body else ""
        if block.mark == "r":
            lua, py = self.tied(block, lua, py)
        block.lua_call = f"{local}{', '.join(outs)} = {lua}"
        block.py_call = f"{', '.join(outs)}{',' if len(outs) > 1 else ''} = {py}"
        self.unwritten += outs
        self.put(block)

    def tied(self, block, lua, py):
        """The call with its results made to depend on all that the function takes from outside."""
        used = dict.fromkeys(re.findall(r"\bx\d+\b", block.lua + lua))
        names = [n for n in used if n in self.run.env and self.get(n).requires_grad and not self.is_body]
        return f"tied({table(names)}, {lua})", f"tied([{', '.join(names)}], {py})"

    def transform(self):
        kinds = ["grad"] * 3 + ["pull", "jvp", "jvp", "jacobian", "jacobian", "hessian"] + ["vmap"] * 5
        getattr(self, "transform_" + self.rng.choice(kinds))()

    def positions(self, names):
        """argnums: as options of Lua and of Python, and how many."""
        if len(names) == 1 and self.chance(0.5):
            return "", "", 1
        if len(names) == 2 and self.chance(0.4):
            return ", { argnums = {1, 2} }", ", argnums=(0, 1)", 2
        at = self.rng.randrange(len(names))
        return f", {{ argnums = {at + 1} }}", f", argnums={at}", 1

    def transform_grad(self):
        names = self.arguments(lambda t: not t.is_complex())
        if not names:
            return
        block, _ = self.body([self.get(n) for n in names], scalar=True, results=self.rng.randint(1, 2))
        lua, py, count = self.positions(names)
        kind = self.rng.choice(["grad", "grad", "grad_and_value"])
        outs = [self.new() for _ in range(count)]
        call = f"({', '.join(names)})"
        lua_text, py_text = f"ml.func.{kind}({block.name}{lua}){call}", f"torch.func.{kind}({block.name}{py}){call}"
        if kind == "grad_and_value":
            lua_text, py_text = f"(({lua_text}))", f"{py_text}[0]"
        self.finish(block, outs, f"table.unpack({lua_text})" if count > 1 else lua_text, py_text)

    def transform_pull(self):
        names = self.arguments()
        if names:
            block, _ = self.body([self.get(n) for n in names])
            outs = [self.new() for _ in range(len(names) + 1)]
            call = f"pull({block.name}, {', '.join(names)})"
            self.finish(block, outs, call, call)

    def transform_jvp(self):
        names = self.arguments()
        if not names:
            return
        block, _ = self.body([self.get(n) for n in names], forward=True)
        along = []
        for n in names:
            t = self.get(n)
            y = self.pick(lambda s: s.shape == t.shape and s.dtype == t.dtype)
            along.append(y if y and self.chance(0.4) else f"weights({n})")
        outs = [self.new(), self.new()]
        self.finish(block, outs, f"ml.func.jvp({block.name}, {table(names)}, {table(along)})",
                    f"torch.func.jvp({block.name}, ({', '.join(names)},), ({', '.join(along)},))")

    def transform_jacobian(self):
        names = self.arguments(lambda t: not t.is_complex() and t.numel() <= 8)
        if not names:
            return
        kind = self.rng.choice(["jacrev", "jacfwd"])
        block, [value] = self.body([self.get(n) for n in names], forward=kind == "jacfwd")
        if max(self.get(n).numel() for n in names) * value.numel() > 2 * MOST_ELEMENTS \
                or max(self.get(n).dim() for n in names) + value.dim() > 5:
            return
        lua, py, count = self.positions(names)
        outs = [self.new() for _ in range(count)]
        call = f"({', '.join(names)})"
        lua = f"ml.func.{kind}({block.name}{lua}){call}"
        self.finish(block, outs, f"table.unpack({lua})" if count > 1 else lua,
                    f"torch.func.{kind}({block.name}{py}){call}")

    def transform_hessian(self):
        names = self.arguments(lambda t: not t.is_complex() and t.numel() <= 6 and t.dim() <= 2, 1)
        if names:
            block, _ = self.body([self.get(names[0])], scalar=True, forward=True)
            self.finish(block, [self.new()], f"ml.func.hessian({block.name})({names[0]})",
                        f"torch.func.hessian({block.name})({names[0]})")

    def transform_vmap(self):
        x = self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        if not x:
            return
        t = self.get(x)
        dims = [self.rng.randrange(t.dim())]
        names, samples, size = [x], [t.select(dims[0], 0)], t.shape[dims[0]]
        if self.chance(0.5):
            y = self.pick(lambda s: s.numel() > 0)
            s = self.get(y)
            fits = [d for d in range(s.dim()) if s.shape[d] == size]
            names.append(y)
            dims.append(self.rng.choice(fits) if fits and self.chance(0.8) else None)
            samples.append(s if dims[1] is None else s.select(dims[1], 0))
        block, values = self.body(samples, results=self.rng.choice([1, 1, 2]))
        if size * max(v.numel() for v in values) > 2 * MOST_ELEMENTS or max(v.dim() for v in values) > 4:
            return
        lua = [f"in_dims = {table(['false' if d is None else d + 1 for d in dims])}"]
        py = [f"in_dims=({', '.join(map(str, dims))},)"]
        out = self.rng.randint(0, min(v.dim() for v in values))
        if out and self.chance(0.5):
            lua.append(f"out_dims = {out + 1}"), py.append(f"out_dims={out}")
        if self.chance(0.15):
            lua.append("chunk_size = 2"), py.append("chunk_size=2")
        call = f"({', '.join(names)})"
        self.finish(block, [self.new() for _ in values],
                    f"ml.func.vmap({block.name}, {table(lua)}){call}".replace("{in", "{ in").replace("}){", "} )"),
                    f"torch.func.vmap({block.name}, {', '.join(py)}){call}")

    def checkpoint(self):
        names = self.arguments()
        if not names:
            return
        block, values = self.body([self.get(n) for n in names], results=self.rng.choice([1, 1, 2]))
        call, late = ", ".join([block.name] + names), self.chance(0.2)
        block.mark = "r" if self.is_body or "func." in block.lua else ""
        self.finish(block, [self.new() for _ in values],
                    f"ml.utils.checkpoint({'{ early_stop = false }, ' if late else ''}{call})",
                    f"checkpoint({call}{', early_stop=False' if late else ''})")
