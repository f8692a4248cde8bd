-- interp/gen/reference.lua: the one description of all that scripts and hosts can name: a list of
-- entries and the pages they are on. help(), the editor stubs and the reference pages are made of
-- it. The texts come from the op rows, the doc comments of stdlib/ and interp/meta/, and the
-- comments of the installed headers.
--
-- An entry has: name ("softmax", "Tensor.grad", "nn.Linear"), kind (op, function, class, method,
-- field, constant, namespace, C++ ...), calls (usage lines), results, doc, params ({ name, type,
-- default, optional, text }), shapes (lines), formula, errors (texts), source, examples ({ code,
-- gives }), see, page; classes have parent, members owner, ops notes and more (their other forms),
-- and a second name of something has same_as.

local argument_texts = require "interp.gen.argument_texts"
local cpp_docs = require "interp.gen.cpp_docs"
local dtypes = require "tensor.ops.gen.dtypes"
local meta_docs = require "interp.gen.meta_docs"
local op_docs = require "interp.gen.op_docs"
local stdlib_docs = require "interp.gen.stdlib_docs"

local reference = {}

local meta_files = { "moonlet", "runtime", "tensor", "sparse", "autograd", "storage", "json",
  "numbers" }

local titles = {
  { "moonlet", "Module moonlet" }, { "tensor", "Tensors" },
  { "storage", "Storages, generators, complex numbers" },
  { "ops_create", "Creation" }, { "ops_random", "Random numbers" },
  { "ops_arithmetic", "Arithmetic" }, { "ops_math", "Exponentials, logarithms, trigonometry" },
  { "ops_special", "Special functions" },
  { "ops_complex", "Complex numbers" }, { "ops_logic", "Bits and truth values" },
  { "ops_compare", "Comparison and selection" },
  { "ops_reduce", "Reductions" }, { "ops_scan", "Running sums, differences, integrals" },
  { "ops_statistics", "Statistics" }, { "ops_shape", "Shapes and views" },
  { "ops_gather", "Gathering and scattering" },
  { "ops_index", "Indexing by tensors" }, { "ops_sort", "Sorting" },
  { "ops_copy", "Writing over elements" },
  { "ops_clone", "Copies" }, { "ops_convert", "Dtypes and devices" }, { "ops_linalg", "Products of matrices and vectors" },
  { "ops_decomposition", "Linear algebra: factorizations, solvers, norms" },
  { "ops_activation", "Activations" }, { "ops_conv", "Convolution" }, { "ops_pool", "Pooling" }, { "ops_image", "Images" },
  { "ops_softmax", "Softmax" }, { "ops_normalization", "Normalisation" },
  { "ops_nn", "Attention, dropout, gates" }, { "ops_loss", "Losses" },
  { "ops_fft", "Fourier transforms" }, { "ops_window", "Windows and short-time transforms" },
  { "ops_recurrent", "Recurrent networks" },
  { "ops_optim", "Optimiser steps" },
  { "nn", "nn: layers" }, { "nn.functional", "nn.functional" }, { "nn.init", "nn.init" },
  { "nn.utils", "nn.utils" }, { "nn.utils.rnn", "nn.utils.rnn: sequences" },
  { "nn.utils.parametrize", "nn.utils.parametrize" },
  { "nn.utils.parametrizations", "nn.utils.parametrizations" },
  { "nn.utils.prune", "nn.utils.prune" }, { "nn.utils.stateless", "nn.utils.stateless" },
  { "autograd", "autograd: checks and derivatives of functions" },
  { "autograd.functional", "autograd.functional" },
  { "autograd.profiler", "autograd.profiler" }, { "amp", "amp: mixed precision" },
  { "optim", "optim: optimisers" },
  { "optim.lr_scheduler", "optim.lr_scheduler" }, { "optim.swa_utils", "optim.swa_utils" },
  { "data", "data: data sets and loaders" },
  { "distributions", "distributions: probability" },
  { "distributions.constraints", "distributions.constraints" },
  { "distributions.transforms", "distributions.transforms" },
  { "utils.tensorboard", "utils.tensorboard" },
  { "random", "random: the default generator" },
  { "metrics", "metrics: how good predictions are" },
  { "train", "train: a training loop and its parts" },
  { "distributed", "distributed: several processes" },
  { "distributed.functional", "distributed.functional" },
  { "distributed.tensor", "distributed.tensor: layers that ranks share" },
  { "distributed.pipelining", "distributed.pipelining" },
  { "onnx", "onnx: models as ONNX files" },
  { "backends", "backends: libraries that ops go to" }, { "backends.cuda", "backends.cuda" },
  { "backends.cudnn", "backends.cudnn" },
  { "args", "args: command lines" }, { "plot", "plot: charts" }, { "progress", "progress bars" },
  { "ext", "ext: extensions in C++ and CUDA" },
  { "class", "class" }, { "json", "json" }, { "numbers", "numbers" }, { "help", "help" },
  { "cpp", "The C++ interface" },
}

local special_pages = { Tensor = "tensor", Shape = "tensor", Storage = "storage", Generator = "storage",
  Complex = "storage",
  StorageOptions = "storage" }

local function page_of(name, known)
  local prefix = name
  while prefix do
    if known[prefix] and not prefix:find "^ops" then return prefix end
    if special_pages[prefix] then return special_pages[prefix] end
    prefix = prefix:match "^(.*)%.[^.]+$"
  end
  return "moonlet"
end

local words = { int = "Signed integers of %d bits.", uint = "Unsigned integers of %d bits.",
  float = "Floating point numbers of %d bits.",
  complex = "Complex numbers of %d bits, half of them for each part." }
local own_words = { bool = "True and false.",
  bfloat16 = "Floating point numbers of 16 bits with the range of float32 and 8 bits of precision.",
  float8_e4m3fn = [[Floating point numbers of 8 bits: 4 of exponent, 3 of mantissa, to 448, without
infinities.]],
  float8_e5m2 = "Floating point numbers of 8 bits: 5 of exponent, 2 of mantissa, to 57344." }
-- Of dtypes that kernels do not compute in.
local storage_words = [[ Made for storage: it is copied, indexed, converted and compared for equality,
and few other ops take it; `x:to(dtype)` makes one that all do.]]

local function dtype_entries(out)
  for _, dtype in ipairs(dtypes) do
    local word, bits = dtype.name:match "^(%a+)(%d+)$"
    local text = own_words[dtype.name] or words[word] and words[word]:format(tonumber(bits))
    out[#out + 1] = { name = dtype.name, kind = "constant", calls = {}, results = "dtype",
      see = {}, examples = {},
      doc = "A dtype. " .. assert(text, "no words for the dtype " .. dtype.name)
        .. (dtype.use == "Storage" and storage_words or "") }
  end
end

-- A class without a comment that is an op as a layer: nn.LogSoftmax, nn.MSELoss.
local function plain(name) return name:lower():gsub("_", "") end

local function op_of_class(name, ops)
  local short = plain(name:match "[^.]+$")
  return ops[short] or ops[short:gsub("loss$", "")]
end

-- A text about `x` as one about `input`, where the function calls it so.
local function with_input(entry, text)
  for _, param in ipairs(entry.params) do
    if param.name == "x" then return text end
  end
  return (text:gsub("%f[%w_]x%f[^%w_]", "input"))
end

-- What is left unsaid of a function or layer, which the op that it calls says.
local function complete(entry, op)
  argument_texts.complete(entry.params, op, entry.kind == "class" and entry.name:find "^nn%." ~= nil)
  if not op then return end
  if #entry.shapes == 0 and entry.kind ~= "class" then
    for i, line in ipairs(op.shapes) do entry.shapes[i] = with_input(entry, line) end
  end
  if entry.formula == "" and op.formula then entry.formula = with_input(entry, op.formula) end
  if entry.source == "" then entry.source = op.source end
end

local function describe_layers(entries)
  local ops = {}
  for _, entry in ipairs(entries) do
    if entry.kind == "op" then ops[plain(entry.name)] = entry.name end
  end
  local by_name = reference.by_name(entries)
  for _, entry in ipairs(entries) do
    local same = entry.name:match "^nn%.functional%.(.*)$"
    same = same and not entry.same_as and by_name[same] and same
    if same then table.insert(entry.see, same) end
    local op = entry.kind == "class" and entry.name:find "^nn%." and op_of_class(entry.name, ops)
    if op then
      if entry.doc == "" then
        entry.doc = ("The op `%s` as a module: %s"):format(op, by_name[op].doc)
      end
      table.insert(entry.see, op)
      table.insert(by_name[op].see, entry.name)
    end
    if entry.origin == "stdlib" and entry.params and not entry.same_as then
      local original = by_name[op or same]
      complete(entry, original and original.same_as and by_name[original.same_as] or original)
    end
  end
end

-- A constructor and the class of what it makes are one entry.
local function add(out, by_name, entry)
  local old = by_name[entry.name]
  if not old then
    out[#out + 1], by_name[entry.name] = entry, entry
  elseif old.kind == "function" and entry.kind == "class" then
    old.kind = "class"
  else
    error(("the reference has two texts for %s"):format(entry.name), 0)
  end
end

--- The entries by name.
---@param entries table[]
---@return table<string, table>
function reference.by_name(entries)
  local out = {}
  for _, entry in ipairs(entries) do out[entry.name] = entry end
  return out
end

local function position(entries)
  local known = {}
  for _, title in ipairs(titles) do known[title[1]] = true end
  for _, entry in ipairs(entries) do entry.page = entry.page or page_of(entry.name, known) end
end

-- Ops that are also something with a text of its own, as x.real is a field.
local function check_links(entries)
  local by_name = reference.by_name(entries)
  for _, entry in ipairs(entries) do
    for _, name in ipairs(entry.see or {}) do
      if not by_name[name] then
        error(("the reference has no '%s', which '%s' refers to"):format(name, entry.name), 0)
      end
    end
    if entry.same_as and not by_name[entry.same_as] then
      error(("'%s' is another name of '%s', which has no text"):format(entry.name, entry.same_as), 0)
    end
  end
end

--- The files of interp/meta/, in their order.
---@param root string
---@return string[]
function reference.meta_paths(root)
  local paths = {}
  for i, name in ipairs(meta_files) do paths[i] = ("%s/interp/meta/%s.lua"):format(root, name) end
  return paths
end

local built

--- All entries, made once.
---@param rows table[] the op rows
---@param root string the source folder
---@return table[]
function reference.entries(rows, root)
  if built then return built end
  local out, by_name, ops = {}, {}, {}
  for _, entry in ipairs(op_docs.entries(rows)) do
    ops[#ops + 1] = entry.name
    add(out, by_name, entry)
  end
  for _, entry in ipairs(meta_docs.entries(reference.meta_paths(root))) do add(out, by_name, entry) end
  dtype_entries(out)
  for _, entry in ipairs(stdlib_docs.entries(root, ops)) do add(out, by_name, entry) end
  local headers = cpp_docs.headers(root .. "/interp/embed", "moonlet.h")
  for _, entry in ipairs(cpp_docs.entries(headers)) do add(out, by_name, entry) end
  describe_layers(out)
  position(out)
  check_links(out)
  built = out
  return out
end

-- A family without a title has its own name for one.
local function new_page(name, title)
  return { name = name, title = title or name:gsub("^ops_", ""):gsub("_", " "), entries = {} }
end

--- The pages that have entries, in their order: { name, title, entries }.
---@param entries table[]
---@return table[]
function reference.pages(entries)
  local all, by_name, out = {}, {}, {}
  for i, title in ipairs(titles) do
    all[i] = new_page(title[1], title[2])
    by_name[title[1]] = all[i]
  end
  for _, entry in ipairs(entries) do
    local page = by_name[entry.page]
    if not page then
      page = new_page(entry.page)
      all[#all + 1], by_name[entry.page] = page, page
    end
    table.insert(page.entries, entry)
  end
  for _, page in ipairs(all) do if #page.entries > 0 then out[#out + 1] = page end end
  return out
end

return reference
