"""tests/fuzz/program_views.py: steps of random programs that make views, and where tensors lie in memory.
program_steps.py draws the other steps.
"""
import itertools

MOST_ELEMENTS, MOST_DIMS = 48, 5


def table(values):
    return "{" + ", ".join(str(v) for v in values) + "}"


def up(values):
    """Positions as Lua counts them."""
    return [v + 1 if v >= 0 else v for v in values]


def cells(t):
    """The positions in memory of the elements of t, in units of 4 bytes: as many for each element as it takes."""
    unit = t.element_size() // 4
    axes = [[i * s * unit for i in range(n)] for n, s in zip(t.shape, t.stride())]
    start = t.storage_offset() * unit
    return [start + sum(steps) for steps in itertools.product(*axes, range(unit))]


def overlaps_itself(t):
    positions = cells(t)
    return len(set(positions)) < len(positions)


def share(a, b):
    """None, "same" when both are the same elements, or "part"."""
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return None
    if a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset() \
            and a.dtype == b.dtype:
        return "same"
    return "part" if set(cells(a)) & set(cells(b)) else None


def broadcasts(shape, wanted):
    """Whether `shape` stretches to exactly `wanted`."""
    if len(shape) > len(wanted):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(wanted)))


def ambiguous(t):
    """A view made under no_grad, or by a function with a derivative of its own, whose base was then
    changed: PyTorch raises when it is looked at."""
    try:
        return t.is_leaf and False
    except RuntimeError:
        return True


def is_leaf(t):
    return not ambiguous(t) and t.is_leaf


class Views:
    """The part of program_steps.Maker that makes views."""

    def view(self):
        x = self.pick(lambda t: t.dim() <= MOST_DIMS and t.numel() > 0)
        if self.run.quiet and self.chance(0.1):
            x = self.rng.choice(sorted(self.run.quiet))
            if ambiguous(self.get(x)):
                return
        if not x:
            return
        t = self.get(x)
        kinds = [k for k, fits in VIEWS.items() if fits(t) and not (k == "as_strided" and self.is_body)]
        getattr(self, "view_" + self.rng.choice(kinds))(x, t)

    def quiet_view(self, lua, py):
        self.make(lua, py, 0.08)

    def view_alias(self, x, _):
        """A view with the same elements, or a handle without history."""
        kind = self.rng.choice(["view_as", "view_as", "detach"])
        self.quiet_view(f"{x}:{kind}({x if kind == 'view_as' else ''})",
                        f"{x}.{kind}({x if kind == 'view_as' else ''})")

    def view_view(self, x, t):
        n = t.numel()
        sizes = self.rng.choice([[n], [1, n], [-1, 1]] + ([[2, n // 2], [n // 2, 2]] if n % 2 == 0 else []))
        # Not reshape: whether it copies depends on how gradients lie in memory.
        self.quiet_view(f"{x}:view({table(sizes)})", f"{x}.view({sizes})")

    def view_select(self, x, t):
        d = self.rng.randrange(t.dim())
        i = self.rng.randrange(t.shape[d])
        if d == 0 and self.chance(0.5):
            self.quiet_view(f"{x}[{i + 1}]", f"{x}[{i}]")
        else:
            self.quiet_view(f"{x}:select({d + 1}, {i + 1})", f"{x}.select({d}, {i})")

    def view_narrow(self, x, t):
        d = self.rng.randrange(t.dim())
        i = self.rng.randrange(t.shape[d])
        n = self.rng.randint(1, t.shape[d] - i)
        self.quiet_view(f"{x}:narrow({d + 1}, {i + 1}, {n})", f"{x}.narrow({d}, {i}, {n})")

    def view_slice(self, x, t):
        lua, py = self.key(t, steps=True)
        self.quiet_view(f"{x}[{lua}]", f"{x}[{py}]")

    def key(self, t, steps=False):
        """A key of ranges and positions: for Lua and for Python."""
        lua, py = [], []
        for n in t.shape[:self.rng.randint(1, t.dim())]:
            i = self.rng.randrange(n)
            if self.chance(0.3):
                lua.append(str(i + 1)), py.append(str(i))
                continue
            end = self.rng.randint(i + 1, n)
            step = self.rng.choice([1, 1, 2]) if steps else 1
            lua.append(f"{{{i + 1}, {end}, {step}}}" if step > 1 else f"{{{i + 1}, {end}}}")
            py.append(f"{i}:{end}:{step}")
        return "{ " + ", ".join(lua) + " }", ", ".join(py)

    def view_transpose(self, x, t):
        a, b = self.rng.randrange(t.dim()), self.rng.randrange(t.dim())
        self.quiet_view(f"{x}:transpose({a + 1}, {b + 1})", f"{x}.transpose({a}, {b})")

    def view_permute(self, x, t):
        dims = self.rng.sample(range(t.dim()), t.dim())
        self.quiet_view(f"{x}:permute({table(up(dims))})", f"{x}.permute({dims})")

    def view_unsqueeze(self, x, t):
        d = self.rng.randint(0, t.dim())
        self.quiet_view(f"{x}:unsqueeze({d + 1})", f"{x}.unsqueeze({d})")

    def view_squeeze(self, x, _):
        self.quiet_view(f"{x}:squeeze()", f"{x}.squeeze()")

    def view_expand(self, x, t):
        sizes = [n if n != 1 else self.rng.randint(1, 3) for n in t.shape]
        if self.chance(0.6) and t.numel() * 2 <= MOST_ELEMENTS:
            sizes = [2] + sizes
        self.quiet_view(f"{x}:expand({table(sizes)})", f"{x}.expand({sizes})")

    def view_diagonal(self, x, t):
        offset = self.rng.choice([0, 0, 1, -1])
        if max(offset, -offset) >= (t.shape[1] if offset > 0 else t.shape[0]):
            offset = 0
        self.quiet_view(f"{x}:diagonal({offset})", f"{x}.diagonal({offset})")

    def view_unfold(self, x, t):
        d = self.rng.randrange(t.dim())
        size, step = self.rng.randint(1, t.shape[d]), self.rng.randint(1, 2)
        self.quiet_view(f"{x}:unfold({d + 1}, {size}, {step})", f"{x}.unfold({d}, {size}, {step})")

    def view_as_strided(self, x, t):
        lua, py = self.positions(t)
        self.quiet_view(f"{x}:as_strided({lua})", f"{x}.as_strided({py})")

    def positions(self, t):
        """Positions among those of t, counted from the start of the storage: arguments of as_strided."""
        n, start = t.numel(), t.storage_offset()
        rows, step = self.rng.randint(1, n), 1
        cols = self.rng.randint(1, n - rows + 1)
        if self.chance(0.5):
            cols, step = max(1, min(2, n // rows)), rows
        sizes, strides = [rows, cols], [1, step]
        return f"{table(sizes)}, {table(strides)}, {start}", f"{sizes}, {strides}, {start}"

    def view_real(self, x, _):
        self.quiet_view(f"ml.view_as_real({x})", f"torch.view_as_real({x})")

    def view_complex(self, x, _):
        self.quiet_view(f"ml.view_as_complex({x})", f"torch.view_as_complex({x})")

    def view_part(self, x, _):
        part = self.rng.choice(["real", "imag"])
        self.quiet_view(f"{x}.{part}", f"{x}.{part}")

    def view_pieces(self, x, t):
        """split, chunk and unbind; narrow and select in PyTorch."""
        d, kind = self.rng.randrange(t.dim()), self.rng.choice(["split", "chunk", "unbind"])
        n = t.shape[d]
        if kind == "unbind":
            pieces, argument = [f"{x}.select({d}, {i})" for i in range(n)], ""
        else:
            size = self.rng.randint(max(1, n // 3), n)
            argument = f"{size}, "
            if kind == "chunk":
                argument = f"{self.rng.randint(1, 3)}, "
                size = -(-n // int(argument[:-2]))
            pieces = [f"{x}.narrow({d}, {i}, {min(size, n - i)})" for i in range(0, n, size)]
        names = ", ".join(self.new() for _ in pieces)
        self.add(f"{names} = table.unpack({x}:{kind}({argument}{d + 1}))",
                 f"{names}, = {', '.join(pieces)},")

    def restride(self):
        """A view op in place."""
        x = self.target()
        if not x or not may_restride(self.get(x), self.run.tensors()):
            return
        rng, t = self.rng, self.get(x)
        n = t.dim()
        kinds = ["unsqueeze_"] * (n < MOST_DIMS) + ["squeeze_"] + ["t_"] * (n <= 2)
        kinds += ["transpose_", "swapaxes_", "swapdims_"] * (n > 1)
        if t.is_contiguous() and not any(s._base is t for _, s in self.run.tensors()):
            kinds.append("as_strided_")
        kind = rng.choice(kinds)
        if kind == "as_strided_":
            lua, py = self.positions(t)
            if t._base is None and overlaps_itself(eval(f"t.as_strided({py})", {"t": t.detach()})):
                return
        elif kind == "t_":
            lua = py = ""
        elif kind == "unsqueeze_":
            py = rng.randint(0, n)
            lua = py + 1
        elif kind == "squeeze_":
            dims = rng.sample(range(n), rng.randint(0, n))
            lua, py = table(up(dims)), f"{tuple(dims)}"
            if rng.random() < 0.4:
                lua = py = ""
        else:
            a, b = rng.randrange(n), rng.randrange(n)
            lua, py = f"{a + 1}, {b + 1}", f"{a}, {b}"
        self.add(f"{x}:{kind}({lua})", f"{x}.{kind}({py})")


def may_restride(t, tensors):
    """Whether PyTorch keeps the histories of t and its views right when t is given other strides. (It
    does not for changes of a base that overlaps itself either; see restride.)"""
    if t.is_complex() or t.retains_grad or t._backward_hooks or ambiguous(t):
        return False
    memory = t.untyped_storage().data_ptr()
    return all(s.dtype == t.dtype for _, s in tensors if s.untyped_storage().data_ptr() == memory)


VIEWS = {
    "alias": lambda t: True,
    "view": lambda t: t.is_contiguous(),
    "select": lambda t: t.dim() > 0, "narrow": lambda t: t.dim() > 0, "slice": lambda t: t.dim() > 0,
    "transpose": lambda t: t.dim() > 1, "permute": lambda t: t.dim() > 1,
    "unsqueeze": lambda t: t.dim() < MOST_DIMS, "squeeze": lambda t: 1 in t.shape,
    "expand": lambda t: t.dim() < MOST_DIMS and t.numel() * 3 <= MOST_ELEMENTS,
    "diagonal": lambda t: t.dim() > 1,
    "unfold": lambda t: 0 < t.dim() < MOST_DIMS and t.numel() <= 12,
    "as_strided": lambda t: t.is_contiguous(),
    "real": lambda t: t.is_complex(), "part": lambda t: t.is_complex(),
    "complex": lambda t: not t.is_complex() and t.dim() > 0 and t.shape[-1] == 2 and t.stride(-1) == 1
    and t.storage_offset() % 2 == 0 and all(s % 2 == 0 for s in t.stride()[:-1]),
    "pieces": lambda t: t.dim() > 0,
}
