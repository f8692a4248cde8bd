-- interp/gen/areas.lua: the areas of the reference, each with a page that leads to its pages: what a
-- reader who does not know a name yet chooses from.

local areas = {}

--- { name, title, text, pages }, in the order of the front page. Pages of no area are in the last.
areas.list = {
  { name = "area-tensors", title = "Tensors", text = "Make them, convert them, look into them.",
    pages = { "tensor", "ops_create", "ops_convert", "ops_clone", "ops_copy", "storage", "numbers" } },
  { name = "area-elements", title = "Elementwise mathematics",
    text = "Arithmetic, comparison, elementary and special functions of each element.",
    pages = { "ops_arithmetic", "ops_math", "ops_special", "ops_complex", "ops_logic", "ops_compare" } },
  { name = "area-reductions", title = "Reductions and statistics",
    text = "Sums, extremes, sorting, cumulative ops, histograms.",
    pages = { "ops_reduce", "ops_scan", "ops_statistics", "ops_sort" } },
  { name = "area-shapes", title = "Shapes and indexing",
    text = "Views, joining and splitting, gathering and scattering.",
    pages = { "ops_shape", "ops_gather", "ops_index" } },
  { name = "area-linalg", title = "Linear algebra and signals",
    text = "Products, factorizations, solvers, Fourier transforms, windows.",
    pages = { "ops_linalg", "ops_decomposition", "ops_fft", "ops_window" } },
  { name = "area-random", title = "Random numbers and distributions",
    text = "Draws, densities, divergences, transforms.",
    pages = { "ops_random", "random", "distributions", "distributions.constraints",
      "distributions.transforms" } },
  { name = "area-networks", title = "Neural networks",
    text = "Layers, activations, losses, initialisation, and their functional forms.",
    pages = { "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrize",
      "nn.utils.parametrizations", "nn.utils.prune", "nn.utils.stateless", "ops_activation",
      "ops_conv", "ops_pool", "ops_image", "ops_softmax", "ops_normalization", "ops_nn", "ops_loss",
      "ops_recurrent" } },
  { name = "area-gradients", title = "Gradients",
    text = "The tape, functions with a derivative of their own, transforms, mixed precision.",
    pages = { "autograd", "autograd.functional", "autograd.profiler", "func", "amp", "ops" } },
  { name = "area-training", title = "Training",
    text = "Optimisers, schedules, metrics, a training loop, progress.",
    pages = { "optim", "optim.lr_scheduler", "optim.swa_utils", "ops_optim", "metrics", "train",
      "progress", "utils.tensorboard", "distributed", "distributed.functional",
      "distributed.tensor", "distributed.pipelining" } },
  { name = "area-data", title = "Data and files",
    text = "Data sets, loaders, pictures, sound, tables, tokenizers, ONNX, JSON.",
    pages = { "data", "onnx", "json" } },
  { name = "area-system", title = "The module, devices, plots, C++",
    text = "What is in `ml` itself, CUDA and its libraries, command lines, charts, the C++ interface.",
    pages = { "moonlet", "cuda", "backends", "backends.cuda", "backends.cudnn", "plot", "args", "class",
      "help", "ext", "cpp" } },
}

--- The areas with the pages that there are, and each page's area by its name.
---@param pages table[] of reference.pages
---@return table[] areas { name, title, text, pages }
---@return table<string, table> of_page
function areas.of(pages)
  local by_name, out, of_page = {}, {}, {}
  for _, page in ipairs(pages) do by_name[page.name] = page end
  for i, area in ipairs(areas.list) do
    out[i] = { name = area.name, title = area.title, text = area.text, pages = {} }
    for _, name in ipairs(area.pages) do
      if by_name[name] then
        table.insert(out[i].pages, by_name[name])
        of_page[name] = out[i]
      end
    end
  end
  for _, page in ipairs(pages) do
    if not of_page[page.name] then
      table.insert(out[#out].pages, page)
      of_page[page.name] = out[#out]
    end
  end
  return out, of_page
end

return areas
