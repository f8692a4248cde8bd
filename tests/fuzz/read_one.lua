-- tests/fuzz/read_one.lua: reads a file that may hold anything with the reader of its kind, and says
-- what is wrong with how that went. For readers.lua and for the target of libFuzzer, read_one.cpp.

local inputs_of = require "onnx_inputs"
local ml = require "moonlet"

local MOST_ELEMENTS = 1 << 20  -- of a tensor that is looked at: an expanded one may have any number
local MOST_VALUES = 10000

-- The readers by the ending of a file's name.
local function load(path) return (ml.load(path)) end
local function map(path) return (ml.load(path, { mmap = true })) end

-- A model is also run: on ones of the shapes that it asks for, where they are small.
local function run(path)
  local model = ml.onnx.load(path)
  inputs_of.shorten(model._model.nodes)
  local inputs, room = {}, 1 << 16
  for _, value in ipairs(model._model.inputs) do
    local sizes = {}
    for d, size in ipairs(value.dims or {}) do
      sizes[d] = size or 2
      if sizes[d] < 0 or sizes[d] > room then return nil end
      room = room // math.max(sizes[d], 1)
    end
    inputs[value.name] = inputs_of.example(value, sizes)
  end
  if #model._model.inputs == 0 then return model() end
  return table.pack(model(inputs))
end
-- A CSV file is also read as a table, without a few of the usual rules.
local function read_both(path)
  local loose = { header = false, sep = "auto", on_bad_lines = "skip", escapechar = "\\", skipfooter = 1,
    na_values = { 1 }, parse_dates = { 1 }, index_col = false }
  local fine, t = pcall(ml.data.read_table, path, loose)
  if not fine then
    loose.parse_dates = nil
    fine, t = pcall(ml.data.read_table, path, loose)
  end
  local plain = ml.data.read_table(path)
  return { fine and t.columns, plain.columns, (ml.data.read_csv(path)) }
end
-- A tokenizer is also used, on a text that its file may have no tokens for.
local function tokenize(path)
  local tokenizer = ml.data.read_tokenizer(path)
  local ok, problem = pcall(function() return tokenizer:decode(tokenizer:encode "  The tape, don't 漢字 ½🙂\xff\r\n") end)
  if not ok and (problem:find "attempt to " or problem:find "bad argument") then error(problem, 0) end
  return tokenizer
end
local function frames(path)
  return ml.data.read_image(path, { all_frames = true, apply_exif_orientation = true })
end
-- The gradients of what a program with a backward pass gives.
local function differentiate(results)
  for _, y in ipairs(results) do
    if y.requires_grad then y:sum():backward() end
  end
end
-- A program is also run, on ones of the shapes that it takes, where they are small; twice, as it may have state.
local function run_program(path)
  local program = ml.load(path)
  local inputs, room = {}, 1 << 16
  for i, input in ipairs(program:inputs()) do
    local sizes = {}
    for d, size in ipairs(input.sizes) do
      sizes[d] = size < 0 and 2 or size
      if sizes[d] > room then return nil end
      room = room // math.max(sizes[d], 1)
    end
    inputs[i] = ml.ones(sizes, { dtype = input.dtype })
  end
  local ok, results = pcall(function()
    ml.no_grad(program._handle.run, program._handle, table.unpack(inputs))
    program:reset()
    local made = { program._handle:run(table.unpack(inputs)) }
    differentiate(made)
    return made
  end)
  if ok then return results end
  if results:find "attempt to " or results:find "bad argument" then error(results, 0) end
  return nil
end
local readers = { mlp = run_program, pt = load, npy = load, npz = load, safetensors = load, t7 = load,
  gguf = load, onnx = run,
  png = ml.data.read_image, jpg = ml.data.read_image, bmp = ml.data.read_image, gif = frames, webp = frames,
  wav = ml.data.read_wav, w64 = ml.data.read_wav, flac = ml.data.audio.load, ogg = ml.data.audio.load,
  csv = read_both, idx = ml.data.read_idx, gz = ml.data.read_table, json = tokenize }
local also_mapped = { pt = true, npy = true, npz = true, safetensors = true, gguf = true }

-- Reads the elements of all tensors in a value.
local function look_at(value, seen)
  if value == nil or value ~= value or seen[value] or seen.count > MOST_VALUES then return end
  seen[value], seen.count = true, seen.count + 1
  if ml.is_tensor(value) then
    if value:numel() <= MOST_ELEMENTS then value:ne(0):sum():item() end
  elseif type(value) == "table" then
    for key, item in pairs(value) do
      look_at(key, seen)
      look_at(item, seen)
    end
  end
end

-- What is wrong with an error, or nil: it names the function, and is none of Lua's own.
local function complaint(problem)
  if type(problem) ~= "string" then return "an error that is a " .. type(problem) end
  if problem:find "onnx model: " then
    return (problem:find "attempt to " or problem:find "bad argument") and problem or nil
  end
  if not problem:find "load: " and not problem:find "read_%w+: " then return problem end
  -- Right behind the name of the file or, first of all, of a thing in it: what a message tells of a
  -- file's content may have such words itself.
  local rest = problem:match "[lr][oe]ad[%w_]*: '[^']*': (.*)"
  if not rest then return nil end
  for _, text in ipairs { "attempt to ", "bad argument #", "stack overflow", "%S*stdlib/files/[%w_]+%.lua:%d+: " } do
    if rest:find("^" .. text) or rest:find("^[%w ]*'[^']*': " .. text) then return problem end
  end
  return nil
end

--- Nothing where reading gave a value or an error that says so, or else what is wrong.
---@param path string
---@param kind string
---@return string?
local function read_one(path, kind)
  for _, read in ipairs { readers[kind], also_mapped[kind] and map or nil } do
    local ok, value = pcall(read, path)
    if ok then
      local fine, problem = pcall(look_at, value, { count = 0 })
      if not fine then return "the value cannot be looked at: " .. tostring(problem) end
    else
      local wrong = complaint(value)
      if wrong then return wrong end
    end
  end
  return nil
end

return read_one
