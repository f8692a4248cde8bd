-- tests/reference/onnx_backend.lua: runs onnx's own backend tests, which are not part of this project:
--   moonlet onnx_backend.lua FOLDER [PATTERN] [--opset N]
-- FOLDER is onnx/backend/test/data of an installed package of Python (onnx 1.22 or older has all of
-- them there) or a folder in it; PATTERN is Lua's, of names; N leaves out graphs of newer sets of
-- ops. A line for each test that fails, and how many there are. CONTRIBUTING.md says more.

local Source = require "moonlet.files.source"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local proto = require "moonlet.onnx.proto"
local system = require "moonlet.system"
warn "@off"

-- --- values of the files ----------------------------------------------------------------------

local function tensor_of(message, what)
  local value = (dtypes.value or dtypes.tensor)(message, what)
  return ml.is_tensor(value) and value or value:nested()
end

local function sequence_of(message)
  local out = {}
  for i, one in ipairs(message.tensor_values or {}) do out[i] = tensor_of(one, "an element") end
  for i, one in ipairs(message.sequence_values or {}) do out[i] = sequence_of(one) end
  return out
end

-- A value of the type that the graph declares.
local function read_value(path, type)
  local file = Source.open(path, false, "value", 1 << 32)
  if type.sequence_type then return sequence_of(proto.read(file, "Sequence")) end
  if type.optional_type then
    local message = proto.read(file, "Optional")
    if message.tensor_value then return tensor_of(message.tensor_value, path) end
    return message.sequence_value and sequence_of(message.sequence_value) or nil
  end
  return tensor_of(proto.read(file, "Tensor"), path)
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

local function values_of(folder, what, list)
  local out = { n = 0 }
  for i, value in ipairs(list or {}) do
    local path = ("%s/%s_%d.pb"):format(folder, what, i - 1)
    if not exists(path) then break end
    out[i], out.n = read_value(path, value.type or {}), i
  end
  return out
end

-- --- comparing --------------------------------------------------------------------------------

local function differ(what, format, ...) error(what .. ": " .. format:format(...), 0) end

local function compare_tensors(got, want, tolerance, what)
  if got.dtype ~= want.dtype then differ(what, "dtype %s, not %s", got.dtype, want.dtype) end
  if tostring(got.shape) ~= tostring(want.shape) then
    differ(what, "shape %s, not %s", got.shape, want.shape)
  end
  if got:is_complex() then got, want = ml.view_as_real(got), ml.view_as_real(want) end
  if got.dtype == ml.int64 or got.dtype == ml.bool then
    if not got:equal(want) then differ(what, "other integers") end
    return
  end
  got, want = got:detach():to "float64", want:to "float64"
  if not ml.allclose(got, want, { rtol = tolerance.rtol, atol = tolerance.atol, equal_nan = true }) then
    differ(what, "differs by %g", (got - want):abs():max():item())
  end
end

local function compare(got, want, tolerance, what)
  if ml.is_tensor(want) then
    if not ml.is_tensor(got) then differ(what, "%s, not a tensor", type(got)) end
    compare_tensors(got, want, tolerance, what)
  elseif type(want) == "table" then
    if type(got) ~= "table" or #got ~= #want then differ(what, "another list") end
    for i = 1, #want do compare(got[i], want[i], tolerance, ("%s[%d]"):format(what, i)) end
  elseif got ~= want then
    differ(what, "%s, not %s", tostring(got), tostring(want))
  end
end

-- --- running ----------------------------------------------------------------------------------

local function tolerance_of(folder)
  local file = io.open(folder .. "/data.json")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return { rtol = tonumber(text:match '"rtol":%s*([%w.+-]+)') or 1e-3,
    atol = tonumber(text:match '"atol":%s*([%w.+-]+)') or 1e-7 }
end

local function run(folder, graph)
  local model = ml.onnx.load(folder .. "/model.onnx", { index_inputs = {}, index_outputs = {} })
  local tolerance, given, sets = tolerance_of(folder), {}, 0
  for _, value in ipairs(graph.initializer or {}) do given[value.name] = true end
  local inputs = {}
  for _, value in ipairs(graph.input or {}) do
    if not given[value.name] then inputs[#inputs + 1] = value end
  end
  for _, name in ipairs(system.list(folder)) do
    if name:find "^test_data_set_" then
      sets = sets + 1
      local here = folder .. "/" .. name:gsub("/$", "")
      local values = values_of(here, "input", #inputs > 0 and inputs or graph.input)
      local got = table.pack(model(table.unpack(values, 1, values.n)))
      local want = values_of(here, "output", graph.output)
      for i = 1, want.n do compare(got[i], want[i], tolerance, "output " .. i) end
    end
  end
  if sets == 0 then error("there are no data", 0) end
end

-- Folders with a model.onnx, at most two levels below.
local function find_tests(folder, out, depth)
  if exists(folder .. "/model.onnx") then
    out[#out + 1] = folder
  elseif depth < 3 then
    for _, name in ipairs(system.list(folder)) do
      local path = folder .. "/" .. name:gsub("/$", "")
      if name:find "/$" then find_tests(path, out, depth + 1) end
    end
  end
  return out
end

local function newest_opset(model)
  local version = 0
  for _, import in ipairs(model.opset_import or {}) do
    if (import.domain or "") == "" then version = math.max(version, import.version or 0) end
  end
  return version
end

local function main()
  local folder, pattern, opset = nil, "", math.huge
  local i = 1
  while arg[i] do
    if arg[i] == "--opset" then
      i, opset = i + 1, tonumber(arg[i + 1])
    elseif not folder then
      folder = arg[i]
    else
      pattern = arg[i]
    end
    i = i + 1
  end
  local tests = find_tests(folder or error "onnx_backend.lua FOLDER [PATTERN] [--opset N]", {}, 0)
  table.sort(tests)
  local passed, count = 0, 0
  for _, path in ipairs(tests) do
    local name = path:match "[^/]+$"
    if name:find(pattern) then
      local model = proto.read(Source.open(path .. "/model.onnx"))
      if newest_opset(model) <= opset then
        count = count + 1
        local ok, problem = pcall(run, path, model.graph)
        passed = passed + (ok and 1 or 0)
        if not ok then
          print(("FAIL %s: %s"):format(name, (tostring(problem):gsub("\n.*", ""):gsub("^%S*onnx_backend.lua:%d+: ", ""))))
        end
      end
    end
  end
  print(("%d of %d pass"):format(passed, count))
  os.exit(passed == count)
end

main()
