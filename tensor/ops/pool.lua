-- tensor/ops/pool.lua: pooling over windows of images, and its gradients.

op { [[max_pool2d_with_indices(Tensor x, int[2] kernel_size, int[] stride={},
                               int[2] padding={0, 0}, int[2] dilation={1, 1},
                               bool ceil_mode=false) -> (Tensor values, Tensor indices)]],
     vmap = "merge", kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "max_pool2d_1based(*args)",
     doc = [[The largest element of each window of `x` (..., h, w), and its 1-based position in the
flattened plane of h * w elements. An empty `stride` means `kernel_size`. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2",
                "randperm(50):to(float32):reshape(1, 2, 5, 5), 3, {2}, 1" } }

op { [[max_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  int[2] dilation={1, 1}, bool ceil_mode=false) -> Tensor]],
     kind = "composite", dtypes = "real",
     torch = "F.max_pool2d(*args)",
     doc = [[The largest element of each window of `x` (..., h, w). An empty `stride` means `kernel_size`;
`padding` counts as minus infinity. NaN wins.]],
     sample = { "randperm(2 * 2 * 6 * 6):to(float32):reshape(2, 2, 6, 6), 2" } }

op { "max_pool2d_grad_x(Tensor grad, Positions indices, int[] size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x_grad_grad(g, indices)" },
     torch = "max_pool2d_grad_x_ref(*args)",
     doc = [[Adds each element of `grad` (..., h2, w2) to the position `indices` names in its plane of a tensor
of zeros of sizes `size` (..., h, w).]],
     sample = { "randn(1, 1, 2, 2), tensor({{{{1, 4}, {11, 16}}}}), {1, 1, 4, 4}" } }

op { "max_pool2d_grad_x_grad_grad(Tensor grad, Positions indices) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "real", internal = true,
     grad = { grad = "max_pool2d_grad_x(g, indices, sizes_of(grad))" },
     torch = "max_pool2d_grad_x_grad_grad_ref(*args)",
     doc = [[The gradient of `max_pool2d_grad_x` with respect to its `grad`: the elements of each plane of `grad`
(..., h, w) at the flat positions `indices` (..., h2, w2).]],
     sample = { "randn(1, 1, 4, 4), tensor({{{{1, 4}, {11, 16}}}})" } }

op { [[avg_pool2d(Tensor x, int[2] kernel_size, int[] stride={}, int[2] padding={0, 0},
                  bool ceil_mode=false, bool count_include_pad=true, int? divisor_override=nil) -> Tensor]],
     vmap = "merge", kind = "structured", dtypes = "real",
     grad = { x = [[avg_pool2d_grad_x(g, sizes_of(x), kernel_size, stride, padding, ceil_mode, count_include_pad,
                                      divisor_override)]] },
     torch = "F.avg_pool2d(*args)",
     doc = [[The mean of each window of `x` (..., h, w). An empty `stride` means `kernel_size`. Padding counts
as zeros, or not at all without `count_include_pad`. With `divisor_override` the sums are divided by it. Means of
integers are rounded toward 0.]],
     sample = { "randn(2, 2, 4, 6), 2", "randn(1, 2, 5, 5), 3, {2}, 1, false, false",
                "randn(2, 5, 6), {3, 2}, {2, 2}, {1, 0}, true, true, 4", "randn(1, 1, 5, 6), 2, {3}, 1, true, false" } }

op { [[avg_pool2d_grad_x(Tensor grad, int[] size, int[2] kernel_size, int[] stride={},
                         int[2] padding={0, 0}, bool ceil_mode=false,
                         bool count_include_pad=true, int? divisor_override=nil) -> Tensor]],
     vmap = "merge", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "avg_pool2d(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)" },
     torch = "avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 4, 6}, 2", "randn(1, 2, 2), {1, 4, 4}, 2, {2}, 0, false, true, 3" } }

op { "adaptive_avg_pool2d(Tensor x, int[2] output_size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "floating",
     grad = { x = "adaptive_avg_pool2d_grad_x(g, sizes_of(x))" },
     torch = "F.adaptive_avg_pool2d(*args)",
     doc = [[The means of windows chosen so that `x` (..., h, w) becomes (..., output_size).]],
     sample = { "randn(2, 3, 5, 7), {1, 1}", "randn(1, 2, 5, 7), {2, 3}" } }

op { "adaptive_avg_pool2d_grad_x(Tensor grad, int[] size) -> Tensor",
     vmap = "merge", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "adaptive_avg_pool2d(g, plane_of(sizes_of(grad)))" },
     torch = "adaptive_avg_pool2d_grad_x_ref(*args)",
     doc = [[The gradient of `adaptive_avg_pool2d` with respect to its input of sizes `size`.]],
     sample = { "randn(1, 2, 2, 3), {1, 2, 5, 7}" } }

op { "adaptive_max_pool2d(Tensor x, int[2] output_size) -> (Tensor values, Tensor indices)",
     vmap = "merge", kind = "structured", dtypes = "real",
     nodiff = { "indices" },
     grad = { x = "max_pool2d_grad_x(g_values, indices, sizes_of(x))" },
     torch = "positions(F.adaptive_max_pool2d(*args, return_indices=True))",
     doc = [[The largest elements of windows chosen so that `x` (..., h, w) becomes (..., output_size), and
their 1-based positions in the flattened plane. NaN wins.]],
     sample = { "randn(2, 3, 5, 7), {2, 3}", "randn(2, 4, 3), {1, 3}" } }

-- Pooling in one and three dimensions, by the ops in two.
local AXES = { "`x` (..., l)", nil, "`x` (..., d, h, w)" }
local PLANE = { "in the line", nil, "in the flattened body" }
local function in_dims(d, text) return (text:gsub("NAME", ("%dd"):format(d)):gsub("%[N%]", ("[%d]"):format(d))
  :gsub("ONES", d == 1 and "{1}" or "{1, 1, 1}"):gsub("ZEROS", d == 1 and "{0}" or "{0, 0, 0}")) end
local shuffled = "randperm(%s):to(float32):reshape(%s)"

for _, d in ipairs { 1, 3 } do
  local function row(signature, fields)
    fields[1] = in_dims(d, signature)
    fields.kind = "composite"
    if d == 3 and not signature:find "_with_indices" then fields.autocast = { host = "float32" } end
    op(fields)
  end
  local input = shuffled:format(d == 1 and "2 * 3 * 8" or "2 * 2 * 3 * 5 * 4",
    d == 1 and "2, 3, 8" or "2, 2, 3, 5, 4")
  local single = shuffled:format(d == 1 and "3 * 7" or "2 * 4 * 4 * 3", d == 1 and "3, 7" or "2, 4, 4, 3")
  local window = d == 1 and "3, {2}, 1, 2, true" or "{2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 2}, true"
  local function torch(name) return ("F.%s%dd(*args)"):format(name, d) end

  row([[max_poolNAME_with_indices(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS,
                                  int[N] dilation=ONES, bool ceil_mode=false) -> (Tensor values, Tensor indices)]],
    { dtypes = "real",
      torch = ("positions(F.max_pool%dd(*args, return_indices=True))"):format(d),
      doc = ([[The largest element of each window of %s, and its 1-based position %s. An empty
`stride` means `kernel_size`. NaN wins.]]):format(AXES[d], PLANE[d]),
      sample = { input .. ", 2", single .. ", " .. window } })
  row([[max_poolNAME(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS,
                     int[N] dilation=ONES, bool ceil_mode=false) -> Tensor]],
    { dtypes = "real", torch = torch "max_pool",
      doc = ([[The largest element of each window of %s. An empty `stride` means `kernel_size`; `padding`
counts as minus infinity. NaN wins.]]):format(AXES[d]),
      sample = { input .. ", 2", single .. ", " .. window } })
  row([[avg_poolNAME(Tensor x, int[N] kernel_size, int[] stride={}, int[N] padding=ZEROS, bool ceil_mode=false,
                     bool count_include_pad=true]] .. (d == 3 and ", int? divisor_override=nil" or "") .. ") -> Tensor",
    { dtypes = "real", torch = torch "avg_pool",
      doc = ([[The mean of each window of %s. An empty `stride` means `kernel_size`. Padding counts as zeros,
or not at all without `count_include_pad`. Means of integers are rounded toward 0.]]):format(AXES[d]) .. (d == 3 and " With `divisor_override` the sums are "
        .. "divided by it." or ""),
      sample = d == 1 and { "randn(2, 3, 8), 3", "randn(3, 7), 3, {2}, 1, true", "randn(3, 7), 3, {2}, 1, true, false" }
        or { "randn(1, 2, 3, 4, 5), 2", "randn(2, 3, 4, 3), {2, 3, 2}, {2, 1, 1}, {1, 1, 0}, true, false",
             "randn(1, 3, 4, 3), 2, {2}, 1, true, true, 5" } })
  row("adaptive_avg_poolNAME(Tensor x, int[N] output_size) -> Tensor",
    { dtypes = "floating", torch = torch "adaptive_avg_pool",
      doc = ([[The means of windows chosen so that %s becomes (..., output_size).]]):format(AXES[d]),
      sample = d == 1 and { "randn(2, 3, 7), 3", "randn(3, 4), 6" }
        or { "randn(2, 2, 3, 4, 5), {2, 3, 1}", "randn(2, 3, 4, 2), 2" } })
  row("adaptive_max_poolNAME(Tensor x, int[N] output_size) -> (Tensor values, Tensor indices)",
    { dtypes = "real", torch = ("positions(F.adaptive_max_pool%dd(*args, return_indices=True))"):format(d),
      doc = ([[The largest elements of windows chosen so that %s becomes (..., output_size), and their
1-based positions %s. NaN wins.]]):format(AXES[d], PLANE[d]),
      sample = { input .. (d == 1 and ", 3" or ", {2, 3, 1}"), single .. ", 2" } })
end

for d = 1, 3 do
  local text = d == 2 and "`x` (..., h, w)" or AXES[d]
  local spatial = ({ "7", "5, 6", "3, 4, 5" })[d]
  op { in_dims(d, ([[lp_poolNAME(Tensor x, float norm_type, int[N] kernel_size, int[] stride={},
                                 bool ceil_mode=false) -> Tensor]])),
       kind = "composite", dtypes = "floating", torch = ("F.lp_pool%dd(*args)"):format(d),
       doc = ([[The `norm_type`-norm of each window of %s: the root of the sum of powers. An empty `stride`
means `kernel_size`.]]):format(text),
       sample = { ("rand(2, 3, %s) + 0.1, 2, 2"):format(spatial), ("rand(1, 2, %s) + 0.1, 3, 3, {1}"):format(spatial) } }

  local plane = ({ "4", "2, 2", "1, 2, 2" })[d]
  op { ("max_unpool%dd(Tensor x, Positions indices, int[%d] output_size) -> Tensor"):format(d, d),
       kind = "composite", autocast = d > 1 and { host = "float32" } or nil, dtypes = "real",
       torch = ("max_unpool_ref(*args)"),
       doc = ([[Zeros of sizes (..., output_size) with the elements of %s at `indices`: what undoes a pooling
by maxima, whose positions they are.]]):format(text),
       sample = { ("randn(2, 1, %s), tensor({ 1, 4, 6, 7, 8, 3, 5, 2 }):reshape(2, 1, %s), %s"):format(plane, plane,
         ({ "9", "{3, 3}", "{2, 2, 3}" })[d]) },
       check = { empty = "the positions must fit" } }
end

op { [[native_fractional_max_pool(Tensor x, Tensor random_samples, int[] kernel_size, int[] output_size)
     -> (Tensor values, Tensor indices)]],
     vmap = "entries", kind = "structured", dtypes = "real", mixed = true, internal = true,
     cpu_only = "the windows are gathered there",
     torch = "[r.squeeze(0) for r in positions(getattr(F, f'fractional_max_pool{args[0].dim() - 1}d')("
       .. "args[0].unsqueeze(0), args[2], args[3], return_indices=True, _random_samples=args[1].unsqueeze(0)))]",
     doc = [[`fractional_max_pool2d` and `3d` of planes or volumes (n, ...), with `random_samples` (n, dims).]],
     sample = { shuffled:format("2 * 7 * 6", "2, 7, 6") .. ", rand(2, 2), {2, 3}, {3, 2}",
                shuffled:format("3 * 5 * 6 * 4", "3, 5, 6, 4") .. ", rand(3, 3), {2, 3, 1}, {3, 2, 3}" },
     check = { empty = "the windows must fit", dtypes = "random_samples are floating" } }

for d = 2, 3 do
  op { ([[fractional_max_pool%dd(Tensor x, int[%d] kernel_size, int[%d] output_size, Tensor random_samples)
          -> (Tensor values, Tensor indices)]]):format(d, d, d),
       kind = "composite", autocast = { host = "float32" }, dtypes = "floating", constant = { "random_samples" },
       torch = ("positions(F.fractional_max_pool%dd(args[0], args[1], args[2], return_indices=True, "
         .. "_random_samples=args[3]))"):format(d),
       doc = [[The largest elements of windows that lie so that `x` becomes (..., output_size), and their 1-based
positions in the flattened plane. `random_samples` (n, c, dims), from 0 to 1, say how the windows of each plane
are shifted (Graham, Fractional Max-Pooling, 2014).]],
       sample = d == 2 and { shuffled:format("2 * 3 * 7 * 6", "2, 3, 7, 6") .. ", {2, 3}, {3, 2}, rand(2, 3, 2)",
                             shuffled:format("2 * 5 * 6", "2, 5, 6") .. ", 2, {1, 4}, rand(1, 2, 2)" }
         or { shuffled:format("2 * 2 * 5 * 6 * 4", "2, 2, 5, 6, 4") .. " / 20, {2, 3, 1}, {3, 2, 3}, rand(2, 2, 3)" },
       check = { empty = "the windows must fit" } }
end
