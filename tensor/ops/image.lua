-- tensor/ops/image.lua: windows of images as columns, resizing, sampling at any point, and channels that
-- become pixels.

op { [[im2col(Tensor x, int[2] kernel_size, int[2] dilation={1, 1}, int[2] padding={0, 0},
              int[2] stride={1, 1}) -> Tensor]],
     vmap = "merge", linear = true, kind = "structured", dtypes = "floating+complex",
     grad = { x = "col2im(g, plane_of(sizes_of(x)), kernel_size, dilation, padding, stride)" },
     torch = "F.unfold(*args)",
     doc = [[Sliding windows of images as columns, the elements of each channel one after another
(`unfold` in PyTorch's `nn.functional`).]],
     args = { x = "a batch of images, or one without `n`",
              kernel_size = "the size of a window: one number, or height and width",
              dilation = "the spacing between the elements of a window",
              padding = "how many zeros are added at each side",
              stride = "the step of the window" },
     shapes = "x (n, c, h, w) -> (n, c * kh * kw, windows)",
     example = "ml.im2col(ml.tensor {{{1.0, 2, 3}, {4, 5, 6}}}, 2)",
     gives = [[
{{1., 2.},
 {2., 3.},
 {4., 5.},
 {5., 6.}}
Tensor (4, 2) float32]],
     sample = { "randn(2, 3, 4, 5), {2, 3}", "randn(2, 5, 6), {3, 2}, {1, 2}, {1, 2}, {2, 1}" } }

op { [[col2im(Tensor x, int[2] output_size, int[2] kernel_size, int[2] dilation={1, 1}, int[2] padding={0, 0},
              int[2] stride={1, 1}) -> Tensor]],
     vmap = "merge_columns", linear = true, kind = "structured", dtypes = "floating+complex",
     grad = { x = "im2col(g, kernel_size, dilation, padding, stride)" },
     torch = "F.fold(*args)",
     doc = [[Images made of the sums of their windows, which are columns (`fold` in PyTorch's
`nn.functional`): the adjoint of `im2col`.]],
     args = { x = "the columns of a batch, or of one image without `n`",
              output_size = "the height and width of the images",
              kernel_size = "the size of a window: one number, or height and width",
              dilation = "the spacing between the elements of a window",
              padding = "how many zeros were added at each side",
              stride = "the step of the window" },
     shapes = "x (n, c * kh * kw, windows) -> (n, c, h, w)",
     example = "ml.col2im(ml.ones(4, 2), {2, 3}, 2)",
     gives = [[
{{{1., 2., 1.},
  {1., 2., 1.}}}
Tensor (1, 2, 3) float32]],
     sample = { "randn(2, 12, 9), {4, 4}, 2", "randn(6, 24), {5, 6}, {3, 2}, {1, 2}, {1, 2}, {2, 1}" },
     check = { empty = "the columns must be those of the windows" } }

op { [[resample(Tensor x, int[] size, Dim dim, string filter, bool align_corners=false, bool antialias=false,
                float? scale=nil) -> Tensor]],
     vmap = "sized", kind = "structured", dtypes = "floating", internal = true,
     grad = { x = "resample_grad_x(g, sizes_of(x), dim, filter, align_corners, antialias, scale)" },
     torch = "resample_ref(*args)",
     doc = [[`x` resized along `dim` to `size`, which differs from its sizes there only, by the "linear", "cubic" or
"lanczos" filter. `scale` is the distance of two results in elements of `x`, unless corners are aligned.]],
     sample = { 'randn(2, 5, 3), {2, 7, 3}, 2, "linear"', 'randn(3, 7), {3, 4}, 2, "linear", true',
                'randn(2, 5, 3), {2, 8, 3}, 2, "cubic"', 'randn(3, 9), {3, 4}, 2, "cubic", false, true',
                'randn(3, 9), {3, 4}, 2, "linear", false, true', 'randn(3, 12), {3, 5}, 2, "lanczos", false, true' } }

op { [[resample_grad_x(Tensor grad, int[] size, Dim dim, string filter, bool align_corners=false,
                       bool antialias=false, float? scale=nil) -> Tensor]],
     vmap = "sized", kind = "structured", dtypes = "floating", internal = true,
     grad = { grad = "resample(g, sizes_of(grad), dim, filter, align_corners, antialias, scale)" },
     torch = "resample_grad_x_ref(*args)",
     doc = [[The gradient of `resample` with respect to its input of sizes `size`.]],
     sample = { 'randn(2, 7, 3), {2, 5, 3}, 2, "linear"', 'randn(3, 4), {3, 9}, 2, "cubic", false, true',
                'randn(3, 8), {3, 5}, 2, "cubic", true' },
     check = { empty = "the other sizes must be equal" } }

op { [[interpolate(Tensor x, int[*] size, string mode="nearest", bool align_corners=false, bool antialias=false,
                   float? scale_d=nil, float? scale_h=nil, float? scale_w=nil) -> Tensor]],
     kind = "composite", autocast = { device = "float32" }, dtypes = "boolean+real",
     torch = "F.interpolate(args[0], args[1], None, args[2], *([args[3]] if args[3] else [None]), None, *args[4:])",
     doc = "Resizing of signals, images or volumes by interpolation.",
     args = { x = "the inputs: one, two or three dimensions after the batch and the channels",
              size = "the sizes of all dimensions but the first two",
              mode = '"nearest", "nearest-exact" (which rounds to the nearest centre), "linear", "bilinear" or "trilinear" (for 1, 2 and 3 dimensions), "bicubic" or "lanczos" (for 2), or "area" (means)',
              align_corners = "whether the centres of the corner elements stay where they are, else their edges",
              antialias = 'whether the filter of "bilinear", "bicubic" and "lanczos" widens when an image shrinks',
              scale_d = "by how much the depth grows, where that is not the ratio of the sizes",
              scale_h = "the same of the height",
              scale_w = "the same of the width, or of the length of a signal" },
     shapes = "x (n, c, h, w) -> (n, c, size)",
     example = 'ml.interpolate(ml.tensor {{{1.0, 3}}}, {4}, "linear")',
     gives = [[
{{{1.0000, 1.5000, 2.5000, 3.0000}}}
Tensor (1, 1, 4) float32]],
     sample = { 'randn(2, 3, 4), {7}, "nearest", false, false', 'randn(1, 2, 5, 4), {3, 7}, "nearest", false, false',
                'randn(1, 2, 5, 4), {3, 7}, "nearest-exact", false, false',
                'randn(1, 1, 2, 3, 2), {3, 2, 4}, "nearest", false, false',
                'randn(2, 3, 4), {7}, "linear", false, false', 'randn(1, 2, 5, 4), {3, 7}, "bilinear", false, false',
                'randn(1, 2, 5, 4), {8, 3}, "bilinear", true, false', 'randn(1, 2, 6, 9), {3, 4}, "bilinear", false, true',
                'randn(1, 2, 5, 4), {3, 7}, "bicubic", false, false', 'randn(1, 2, 5, 4), {8, 3}, "bicubic", true, false',
                'randn(1, 2, 6, 9), {3, 4}, "bicubic", false, true', 'randn(1, 2, 9, 6), {4, 8}, "lanczos", false, true',
                'randn(1, 2, 3, 2, 4), {4, 3, 5}, "trilinear", false, false',
                'randn(1, 2, 3, 2, 4), {4, 3, 2}, "trilinear", true, false',
                'randn(1, 2, 5, 7), {2, 3}, "area", false, false' },
     check = { empty = "the images must have elements", dtypes = "modes but the nearest ones take floats" } }

op { [[grid_sample(Tensor x, Tensor grid, string mode="bilinear", string padding_mode="zeros",
                   bool align_corners=false) -> Tensor]],
     kind = "composite", autocast = { host = "float32", device = "promote" }, dtypes = "floating",
     torch = "F.grid_sample(*args)",
     doc = [[Sampling of images or volumes at the points of a grid, as a spatial transformer does it. A
point is (x, y) or (x, y, z), the width first, from -1 to 1: the outer edges of the image, or with
`align_corners` the centres of its corner elements. NaN counts as -1.]],
     args = { x = "the images or volumes",
              grid = "the points",
              mode = '"bilinear", "nearest" or "bicubic", also for volumes',
              padding_mode = 'what lies outside: "zeros", "border" (the nearest element) or "reflection"',
              align_corners = "whether -1 and 1 are the centres of the corner elements, else the edges" },
     shapes = "x (n, c, h, w), grid (n, h2, w2, 2) -> (n, c, h2, w2)\nx (n, c, d, h, w), grid (n, d2, h2, w2, 3) " ..
       "-> (n, c, d2, h2, w2)",
     source = 'Jaderberg et al. 2015, "Spatial Transformer Networks"',
     example = "ml.grid_sample(ml.tensor {{{{1.0, 2}, {3, 4}}}}, ml.tensor {{{{0.0, 0}}}})",
     gives = [[
{{{{2.5000}}}}
Tensor (1, 1, 1, 1) float32]],
     sample = { 'randn(2, 3, 4, 5), rand(2, 3, 2, 2) * 2.4 - 1.2', 'randn(1, 2, 4, 5), rand(1, 3, 2, 2) * 2.4 - 1.2, "bilinear", "border", true',
                'randn(1, 2, 4, 5), rand(1, 3, 2, 2) * 4 - 2, "bilinear", "reflection", false',
                'randn(1, 2, 4, 3), rand(1, 2, 2, 2) * 2.4 - 1.2, "nearest", "zeros", true',
                'randn(1, 2, 4, 5), rand(1, 2, 2, 2) * 2.4 - 1.2, "bicubic", "zeros", false',
                'randn(1, 2, 4, 5), rand(1, 2, 2, 2) * 2.4 - 1.2, "bicubic", "reflection", true',
                'randn(1, 2, 3, 4, 2), rand(1, 2, 2, 1, 3) * 2.4 - 1.2',
                'randn(1, 2, 3, 4, 2), rand(1, 2, 2, 1, 3) * 4 - 2, "bilinear", "reflection", true',
                'randn(1, 1, 3, 4, 2), rand(1, 2, 1, 1, 3) * 4 - 2, "bicubic", "border", false' },
     check = { empty = "the grid's last size says the dimensions" } }

-- Indices of grid_sample's neighbours in each plane, with their weights.
local at = "randint(1, 7, {2, 3, 4})"
local cpu_only = "grid_sample is made of index_select there"
local names = 'rand(2, 5, 2) * 2.4 - 1.2, {4, 5}, "%s", "%s", %s'
local named = {
  names:format("bilinear", "zeros", "false"), names:format("bilinear", "reflection", "true"),
  names:format("bicubic", "border", "false"), 'rand(1, 3, 3) * 4 - 2, {3, 4, 2}, "bilinear", "border", false' }
local gradients = {}
for i, taps in ipairs { "2, 4, 5", "2, 4, 5", "2, 16, 5", "1, 8, 3" } do
  gradients[i] = ("randn(%s), %s"):format(taps, named[i])
end

op { [[grid_neighbours(Tensor grid, int[] size, string mode, string padding_mode, bool align_corners)
     -> (Tensor at, Tensor weight)]],
     vmap = "entries", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only, nodiff = { "at" },
     grad = { grid = "grid_neighbours_grad_grid(g_weight, grid, size, mode, padding_mode, align_corners)" },
     check = { value = "grid_sample is compared", empty = "the last size says the dimensions" },
     doc = [[What `grid_sample` sums at the points `grid` (n, p, dims) of images of sizes `size`: the indices of the k
neighbours (n, k, p), in row-major order and from 1, of which the one beyond the last stands for a 0, and their weights.]],
     sample = named }

op { [[grid_neighbours_grad_grid(Tensor grad, Tensor grid, int[] size, string mode, string padding_mode,
                                 bool align_corners) -> Tensor]],
     kind = "composite", dtypes = "floating", mixed = true, internal = true, cpu_only = cpu_only,
     check = { value = "grid_sample is compared", empty = "the last size says the dimensions" },
     doc = [[The gradient of the weights of `grid_neighbours`, which are `grad`'s, with respect to `grid`.]],
     sample = gradients }

op { [[grid_neighbours_grads(Tensor grad, Tensor grid, int[] size, string mode, string padding_mode,
                              bool align_corners) -> Tensor]],
     vmap = "entries", kind = "structured", dtypes = "floating", mixed = true, internal = true, cpu_only = cpu_only,
     check = { value = "grid_sample is compared", empty = "the last size says the dimensions" },
     doc = [[The same where it need not be differentiated again.]],
     sample = gradients }

op { "sample_planes(Tensor x, Positions at, Tensor weight) -> Tensor",
     vmap = "entries", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     grad = { x = "sample_planes_grad_x(g, at, weight, sizes_of(x)[2])", weight = "sample_planes_grad_weight(g, x, at)" },
     check = { value = "grid_sample is compared", empty = "planes have elements" },
     doc = [[The sums over k of `weight` (n, k, p) times the elements of `x` (n, c, size) at the 1-based indices `at`
(n, k, p) of each plane: (n, c, p). The index `size + 1` stands for a 0.]],
     sample = { ("randn(2, 3, 6), %s, randn(2, 3, 4)"):format(at) } }

op { "sample_planes_grad_x(Tensor grad, Positions at, Tensor weight, int size) -> Tensor",
     vmap = "entries", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     grad = { grad = "sample_planes(g, at, weight)", weight = "sample_planes_grad_weight(grad, g, at)" },
     check = { value = "grid_sample is compared", empty = "planes have elements" },
     doc = [[The gradient of `sample_planes` with respect to `x`, planes of `size` elements.]],
     sample = { ("randn(2, 3, 4), %s, randn(2, 3, 4), 6"):format(at) } }

op { "sample_planes_grad_weight(Tensor grad, Tensor x, Positions at) -> Tensor",
     vmap = "entries", kind = "structured", dtypes = "floating", internal = true, cpu_only = cpu_only,
     grad = { grad = "sample_planes(x, at, g)", x = "sample_planes_grad_x(grad, at, g, sizes_of(x)[2])" },
     check = { value = "grid_sample is compared", empty = "planes have elements" },
     doc = [[The gradient of `sample_planes` with respect to `weight`.]],
     sample = { ("randn(2, 3, 4), randn(2, 3, 6), %s"):format(at) } }

op { "affine_grid(Tensor theta, int[*] size, bool align_corners=false) -> Tensor",
     kind = "composite", dtypes = "floating", alias = { "affine_grid_generator" },
     doc = [[Grid for `grid_sample` of an affine map: each point of the result is the image of a pixel's
coordinates, from -1 to 1, under `theta`.]],
     args = { theta = "a matrix for each image or volume",
              size = "the sizes of the images, (n, c, h, w), or of volumes, (n, c, d, h, w)",
              align_corners = "whether -1 and 1 are the centres of the corner elements, else the edges" },
     shapes = "theta (n, 2, 3) -> (n, h, w, 2)\ntheta (n, 3, 4) -> (n, d, h, w, 3)",
     formula = "p = theta (x, y, 1)^T",
     source = 'Jaderberg et al. 2015, "Spatial Transformer Networks"',
     example = "ml.affine_grid(ml.tensor {{{1.0, 0, 0}, {0, 1, 0}}}, {1, 1, 1, 2})",
     gives = [[
{{{{-0.5000,  0.0000},
   { 0.5000,  0.0000}}}}
Tensor (1, 1, 2, 2) float32]],
     torch = "F.affine_grid(*args)",
     sample = { "randn(2, 2, 3), {2, 1, 3, 4}", "randn(1, 2, 3), {1, 1, 1, 3}, true", "randn(2, 3, 4), {2, 1, 2, 3, 2}, true" },
     check = { empty = "the sizes are those of the matrices" } }

op { "pixel_shuffle(Tensor x, int upscale_factor) -> Tensor",
     kind = "composite",
     doc = [[Rearranges channels into pixels: each `r * r` channels become a block of `r` by `r` pixels,
for `r = upscale_factor`.]],
     args = { upscale_factor = "by how much height and width grow" },
     shapes = "x (*, c * r^2, h, w) -> (*, c, h * r, w * r)",
     source = 'Shi et al. 2016, "Real-Time Single Image and Video Super-Resolution"',
     example = "ml.pixel_shuffle(ml.arange(4):reshape(4, 1, 1), 2)",
     gives = [[
{{{1, 2},
  {3, 4}}}
Tensor (1, 2, 2) int64]],
     sample = { "randn(2, 8, 2, 3), 2", "randn(9, 1, 2), 3" },
     check = { empty = "the channels must divide" } }

op { "pixel_unshuffle(Tensor x, int downscale_factor) -> Tensor",
     kind = "composite",
     doc = "Rearranges pixels into channels: the inverse of `pixel_shuffle`, with `r = downscale_factor`.",
     args = { downscale_factor = "by how much height and width shrink" },
     shapes = "x (*, c, h * r, w * r) -> (*, c * r^2, h, w)",
     example = "ml.pixel_unshuffle(ml.tensor {{{1, 2}, {3, 4}}}, 2).shape", gives = "(4, 1, 1)",
     sample = { "randn(2, 2, 4, 6), 2", "randn(1, 3, 6), 3" },
     check = { empty = "the positions must divide" } }

op { "channel_shuffle(Tensor x, int groups) -> Tensor",
     kind = "composite", alias = { "native_channel_shuffle" },
     doc = "Interleaves the channels of groups: one of each group in turn.",
     args = { groups = "the number of groups, which divides that of the channels" },
     shapes = "x (n, c, *) -> (n, c, *)",
     source = 'Zhang et al. 2018, "ShuffleNet"',
     example = "ml.channel_shuffle(ml.arange(4):reshape(1, 4, 1), 2):flatten()",
     gives = [[
{1, 3, 2, 4}
Tensor (4,) int64]],
     sample = { "randn(2, 6, 2, 2), 3", "randn(1, 4, 3), 2" },
     check = { empty = "the channels must divide" } }
