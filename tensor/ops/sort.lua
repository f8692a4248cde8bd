-- tensor/ops/sort.lua: sorting and the largest or smallest elements. NaN counts as the largest.

op { [[sort(Tensor x, Dim dim=-1, bool descending=false,
            bool stable=false) -> (Tensor values, Tensor indices)]],
     kind = "structured", dtypes = "boolean+real",
     nodiff = { "indices" },
     grad = { x = "scatter_add(zeros(sizes_of(x), Options{g_values.dtype(), g_values.device()}), dim, indices, g_values)" },
     doc = [[The elements along `dim` in order, and the position (from 1) each came from. Equal
elements keep their order, with or without `stable`. NaN counts as the largest.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "positions(torch.sort(args[0], dim=args[1] if len(args) > 1 else -1, descending=args[2] if len(args) > 2 else False, stable=True))" }

op { "argsort(Tensor x, Dim dim=-1, bool descending=false, bool stable=false) -> Tensor",
     kind = "composite", dtypes = "boolean+real",
     doc = [[The positions (from 1) that put the elements along `dim` in order.]],
     sample = { "randn(3, 4)", "randn(3, 4), 1, true" },
     torch = "torch.argsort(*args) + 1" }

op { [[topk(Tensor x, int k, Dim dim=-1, bool largest=true,
            bool sorted=true) -> (Tensor values, Tensor indices)]],
     kind = "structured", dtypes = "boolean+real",
     nodiff = { "indices" },
     grad = { x = "scatter_add(zeros(sizes_of(x), Options{g_values.dtype(), g_values.device()}), dim, indices, g_values)" },
     doc = [[The `k` largest (or smallest) elements along `dim` and their positions (from 1), in order;
of equal elements those that come first. NaN counts as the largest.]],
     sample = { "randn(3, 6), 2", "randn(4, 3), 2, 1, false" },
     torch = "positions(torch.topk(*args))" }
