-- tests/bench/sweep_samples.lua: what tests/bench/sweep.lua measures of ops whose samples do not
-- make sense with every size multiplied: by name the arguments as text, in which `n` is the number of
-- elements wanted and `side(k)` the whole size of a k-dimensional tensor of about so many.

-- Lines, images and volumes of at most so many elements.
local LINES = "randn(math.max(n // 1024, 1), math.min(n, 1024))"
local IMAGES = "randn(math.max(n // 1024, 1), math.min(side(2), 32), math.min(side(2), 32))"
local BODIES = "randn(math.max(n // 4096, 1), " .. ("math.min(side(3), 16), "):rep(2) .. "math.min(side(3), 16))"
-- Pooled pieces, of whose elements each comes from a position of its own, and the size they are to have.
local UNPOOLED = [[(function()
  local x = randn(%s, 2, %s)
  return x, (arange(x[1][1]:numel()) * 2):reshape(x[1][1].shape):expand(x.shape):contiguous(), %s
end)()]]
-- The input of a convolution with so many inner dimensions, then the channels of it.
local CHANNELS = "(n < 1000 and 2 or 16)"
local function inputs(rank, most)
  local side = ("math.max(3, math.min(%d, math.floor((n / %s) ^ (1 / %d))))"):format(most, CHANNELS, rank)
  return ("randn(math.max(n // (%s * %d), 1), %s%s)"):format(CHANNELS, most ^ rank, CHANNELS, (", " .. side):rep(rank))
end
local function convolution(rank, most, options)
  return ("%s, randn(%s, %s%s), randn(%s)%s"):format(
    inputs(rank, most), CHANNELS, CHANNELS, (", 3"):rep(rank), CHANNELS, options or "")
end
-- The ops behind them, of images: `arguments` in x, f filters, and the sizes of images larger by a window.
local WINDOW = "{ 1, 1 }, { 0, 0 }, { 1, 1 }, 1"
local function images(arguments)
  return ([[(function()
    local x = %s
    local f, s = x.shape[2], x.shape:totable()
    s[3], s[4] = s[3] + 2, s[4] + 2
    return %s, %s
  end)()]]):format(inputs(2, 32), arguments, WINDOW)
end
local NUMBERS = "view_as_complex(randn(side(2), side(2) // 2, 2))"
-- A recurrent layer over a sequence, and a cell: so many gates, and one state or two.
local WIDTHS = [[local f = n < 1000 and 4 or n < 100000 and 32 or 256
  local b = n < 1000 and 2 or n < 100000 and 4 or 64]]
local function layer(gates, states)
  return ([[(function()
    %s
    local function state() return randn(1, b, f) end
    return randn(math.max(1, n // (b * f)), b, f), %s,
      { randn(%d * f, f), randn(%d * f, f), randn(%d * f), randn(%d * f) }, true, 1, 0, true, false, false
  end)()]]):format(WIDTHS, states, gates, gates, gates, gates)
end
local function cell(gates, states)
  return ([[(function()
    local f = n < 1000 and 2 or n < 100000 and 32 or 256
    local b = math.max(1, n // f)
    local function state() return randn(b, f) end
    return randn(b, f), %s, randn(%d * f, f), randn(%d * f, f), randn(%d * f), randn(%d * f)
  end)()]]):format(states, gates, gates, gates, gates)
end
-- Batches of small matrices: any, those far from singular, positive ones.
local COUNT = "math.max(n // 64, 1)"
local SMALL = "randn(" .. COUNT .. ", 8, 8)"
local REGULAR = SMALL .. " * 0.4 + eye(8) * 4"
local POSITIVE = ("baddbmm(eye(8), ones(COUNT, 8, 8), ones(COUNT, 8, 8), 4, 0.1)"):gsub("COUNT", COUNT)

return {
  -- arithmetic, complex
  conj_physical = "view_as_complex(randn(n // 2, 2))",
  real = "view_as_complex(randn(n // 2, 2))",
  angle = "view_as_complex(randn(n // 2, 2))",

  -- create
  diag_embed = "randn(side(2))",
  diag = "randn(side(2))",
  diagflat = "randn(side(2))",
  vander = "randn(side(2))",
  one_hot = "randint(1, side(2), { side(2) }), side(2)",

  -- gather, index
  gather = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2), side(2) })",
  scatter = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2), side(2) }), randn(side(2), side(2))",
  scatter_value = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2), side(2) }), 2",
  scatter_add = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2), side(2) }), randn(side(2), side(2))",
  index_select = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2) })",
  index_add = "randn(side(2), side(2)), 1, randint(1, side(2), { side(2) }), randn(side(2), side(2))",
  index_add_scaled = "randn(side(2), side(2)), 1, randint(1, side(2), { side(2) }), randn(side(2), side(2)), { alpha = 2 }",
  index_reduce = "randn(side(2), side(2)), 1, randint(1, side(2), { side(2) }), randn(side(2), side(2)), 'prod'",
  index_copy = "randn(side(2), side(2)), 1, randint(1, side(2), { side(2) }), randn(side(2), side(2))",
  index_fill = "randn(side(2), side(2)), 2, randint(1, side(2), { side(2) }), 2",
  take = "randn(side(2), side(2)), randint(1, side(2) * side(2), { side(2), side(2) })",
  put = "randn(side(2), side(2)), randint(1, side(2) * side(2), { side(2), side(2) }), randn(side(2), side(2))",
  take_along_dim = "randn(side(2), side(2)), randint(1, side(2), { side(2), side(2) }), 1",
  embedding = "randn(n // 64 + 1, 64), randint(1, n // 64 + 1, { n // 64 + 1 })",
  bincount = "randint(1, 1000, { n })",
  unravel_index = "randint(1, n, { n }), { n }",

  -- shape
  view = "randn(side(2), side(2)), { side(2) * side(2) }",
  view_as_complex = "randn(n // 2, 2)",
  view_as_real = "view_as_complex(randn(n // 2, 2))",
  reshape = "randn(side(2), side(2)), { -1 }",
  unflatten = "randn(side(2), n // side(2) // 2 * 2), -1, { -1, 2 }",
  view_as = "randn(side(2), side(2)), randn(side(2) * side(2))",
  reshape_as = "randn(side(2), side(2)), randn(side(2) * side(2))",
  as_strided = "randn(side(2), side(2)), { side(2) // 2, side(2) // 2 }, { side(2), 1 }, 1",
  hsplit = "randn(2, n // 2 // 2 * 2), 2",
  vsplit = "randn(n // 2 // 2 * 2, 2), 2",
  dsplit = "randn(2, 2, n // 4 // 2 * 2), 2",
  meshgrid = "{ randn(side(2)), randn(side(2)) }",
  cartesian_prod = "{ randn(side(2)), randn(side(2)) }",
  combinations = "randn(side(2))",
  column_stack = "{ randn(n // 2), randn(n // 2) }",
  block_diag = "{ randn(side(2) // 2, side(2) // 2), randn(side(2) // 2, side(2) // 2) }",
  repeat_interleave = "randn(n // 2), 2",
  pad = "randn(side(2), side(2)), { 1, 2 }",

  -- linalg
  addmv = "randn(side(2)), randn(side(2), side(2)), randn(side(2))",
  cross = "randn(n // 3, 3), randn(n // 3, 3)",
  linalg_cross = "randn(n // 3, 3), randn(n // 3, 3)",

  -- conv
  conv1d = convolution(1, 1024), conv1d_padding = convolution(1, 1024, [[, 1, "same"]]),
  conv_transpose1d = convolution(1, 1024, ", 2, 1, 1"),
  native_conv = images "x, randn(f, f, 3, 3), randn(f)",
  native_conv_relu = images "x, randn(f, f, 3, 3), randn(f)",
  native_conv_transpose = images "x, randn(f, f, 3, 3), randn(f), s",
  conv2d = convolution(2, 32),
  conv2d_padding = convolution(2, 32, [[, 1, "same"]]), conv_transpose2d = convolution(2, 32, ", 2, 1, 1"),
  conv3d = convolution(3, 16), conv3d_padding = convolution(3, 16, [[, 1, "same"]]),
  conv_transpose3d = convolution(3, 16, ", 2, 1, 1"),
  conv_tbc = "randn(n // 512 + 3, n < 1000 and 2 or 16, 32), randn(3, 32, 32), randn(32)",

  -- recurrent
  lstm = layer(4, "{ state(), state() }"), gru = layer(3, "state()"), rnn_tanh = layer(1, "state()"),
  rnn_relu = layer(1, "state()"), lstm_cell = cell(4, "{ state(), state() }"), gru_cell = cell(3, "state()"),

  -- scan, nn
  gradient_at = "randn(n), { ml.arange(n):float() }",
  glu = "randn(side(2), side(2) // 2 * 2)",

  -- pool
  max_pool1d = LINES .. ", 2", max_pool1d_with_indices = LINES .. ", 2", adaptive_max_pool1d = LINES .. ", 2",
  max_pool2d = IMAGES .. ", 2", max_pool2d_with_indices = IMAGES .. ", 2", adaptive_max_pool2d = IMAGES .. ", 2",
  max_pool3d = BODIES .. ", 2", max_pool3d_with_indices = BODIES .. ", 2", adaptive_max_pool3d = BODIES .. ", 2",

  max_unpool1d = UNPOOLED:format("math.max(n // 512, 1)", "512", "1024"),
  max_unpool2d = UNPOOLED:format("math.max(n // 256, 1)", "16, 16", "{ 32, 32 }"),
  max_unpool3d = UNPOOLED:format("math.max(n // 512, 1)", "8, 8, 8", "{ 16, 16, 16 }"),
  fractional_max_pool2d = "randn(2, math.max(n // 2048, 1), 32, 32), 2, 16, rand(2, math.max(n // 2048, 1), 2)",
  fractional_max_pool3d = "randn(2, math.max(n // 8192, 1), 16, 16, 16), 2, 8, rand(2, math.max(n // 8192, 1), 3)",

  -- image
  affine_grid = "randn(math.max(n // 1024, 1), 2, 3), { math.max(n // 1024, 1), 1, 16, 32 }",
  grid_sample = [[randn(4, math.max(n // 4096, 1), math.min(side(2), 32), math.min(side(2), 32)),
    rand(4, math.min(side(2), 32), math.min(side(2), 32), 2) * 2.2 - 1.1]],

  -- fft
  fft_ifft = NUMBERS, fft_irfft = NUMBERS, fft_hfft = NUMBERS, fft_ifft2 = NUMBERS,
  fft_irfft2 = NUMBERS, fft_hfft2 = NUMBERS, fft_ifftn = NUMBERS, fft_irfftn = NUMBERS,
  fft_fft2 = NUMBERS, fft_fftn = NUMBERS, fft_hfftn = NUMBERS,

  -- linalg
  addbmm = "randn(side(3), side(3)), randn(side(3), side(3), side(3)), randn(side(3), side(3), side(3))",

  -- decomposition
  det = REGULAR, logdet = REGULAR, slogdet = REGULAR, inverse = REGULAR, linalg_inv_ex = REGULAR,
  linalg_lu = REGULAR, linalg_lu_factor = REGULAR, linalg_lu_factor_ex = REGULAR,
  linalg_solve = REGULAR .. ", " .. SMALL, linalg_solve_ex = REGULAR .. ", " .. SMALL,
  linalg_solve_triangular = REGULAR .. ", " .. SMALL .. ", true, true, false",
  cholesky = POSITIVE, linalg_cholesky_ex = POSITIVE, cholesky_inverse = POSITIVE,
  lu_unpack = REGULAR .. ", ml.arange(8):to('int32'):expand(" .. COUNT .. ", 8):contiguous()",
  linalg_ldl_solve = POSITIVE .. ", ml.arange(8):to('int32'):expand(" .. COUNT .. ", 8):contiguous(), " .. SMALL,
  linalg_ldl_factor = POSITIVE, linalg_ldl_factor_ex = POSITIVE, linalg_eigh = POSITIVE,
  linalg_eigvalsh = POSITIVE, cholesky_solve = SMALL .. ", " .. REGULAR,
  linalg_svd = SMALL, linalg_svdvals = SMALL, linalg_qr = SMALL, linalg_pinv = SMALL,
  linalg_eig = SMALL, linalg_eigvals = SMALL, geqrf = SMALL, matrix_exp = SMALL,

  -- loss
  nll_loss = "randn(side(2), side(2)):log_softmax(2), randint(1, side(2), { side(2) })",
  cross_entropy = "randn(side(2), side(2)), randint(1, side(2), { side(2) })",
  linear_cross_entropy = "randn(side(2), side(2)), randn(side(2), side(2)), randint(1, side(2), { side(2) })",
  cosine_embedding_loss = "randn(side(2), side(2)), randn(side(2), side(2)), randn(side(2)):sign()",
  multi_margin_loss = "randn(side(2), side(2)), randint(1, side(2), { side(2) })",
  multilabel_margin_loss = [[randn(side(2), side(2)),
    cat({ randint(1, side(2), { side(2), 4 }), zeros(side(2), side(2) - 4):to("int64") }, 2)]],
  ctc_loss = [[(function()
    local count, inputs, targets = math.max(1, n // 1000), {}, {}
    for i = 1, count do inputs[i], targets[i] = 50, 10 end
    return randn(50, count, 20):log_softmax(3), randint(2, 20, { count, 10 }), inputs, targets
  end)()]],

  -- normalization
  native_layer_norm = "randn(side(2), side(2)), { side(2) }, randn(side(2)), randn(side(2))",
  layer_norm = "randn(side(2), side(2)), { side(2) }, randn(side(2)), randn(side(2))",
  rms_norm = "randn(side(2), side(2)), { side(2) }, randn(side(2))",
  group_norm = "randn(side(2), 6, math.max(2, side(2) // 6)), 3, randn(6), randn(6)",
}
