-- stdlib/onnx/graph.lua: the graph that is being written: nodes, constants, names, and sizes that
-- are read when the graph runs. Values that are positions are kept counted from 0 where ONNX's ops
-- want and give them so (`value.zero`), and counted from 1 where anything else is done with them.

local class = require "moonlet.class"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"
local fail = require("moonlet.options").fail

local Graph = class("onnx.Graph")

--- `opset` is the set of ops in which the nodes are, `latest` the last that may be asked for.
function Graph:init(run, parameters, opset, latest)
  self.run, self.parameters, self.opset, self.latest = run, parameters, opset, latest
  self.nodes, self.taken, self.cache, self.bytes = {}, {}, {}, 0
  self.named = {}  -- values that have names, in their order
  self.counters = {}
end

--- A name that nothing has yet.
function Graph:unique(stem)
  if not self.taken[stem] then
    self.taken[stem] = true
    return stem
  end
  repeat
    self.counters[stem] = (self.counters[stem] or 0) + 1
    local name = stem .. "_" .. self.counters[stem]
    if not self.taken[name] then
      self.taken[name] = true
      return name
    end
  until false
end

-- --- nodes ------------------------------------------------------------------------------------

local function attribute(name, value)
  if ml.is_tensor(value) then return { name = name, type = 4, t = dtypes.proto(value, "") } end
  if type(value) == "string" then return { name = name, type = 3, s = value } end
  if math.type(value) == "integer" then return { name = name, type = 2, i = value } end
  if type(value) == "number" then return { name = name, type = 1, f = value } end
  if type(value[1]) == "string" then return { name = name, type = 8, strings = value } end
  if math.type(value[1]) == "float" then return { name = name, type = 6, floats = value } end
  return { name = name, type = 7, ints = value }
end

--- Adds a node; the names of its `count` (1) results.
---@param op_type string
---@param inputs string[] "" stands for one that is left out
---@param attributes? table<string, any> floats as floats, integers as integers
---@param count? integer
---@return string ...
function Graph:node(op_type, inputs, attributes, count)
  local stem = (self.stem or op_type:lower())
  local node = { op_type = op_type, input = inputs, output = {}, attribute = {} }
  for i = 1, count or 1 do node.output[i] = self:unique(stem) end
  local names = {}
  for name in pairs(attributes or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do node.attribute[i] = attribute(name, attributes[name]) end
  node.name = ("%s/%s"):format(op_type, node.output[1])
  self.nodes[#self.nodes + 1] = node
  return table.unpack(node.output)
end

--- The name of a constant.
---@param tensor Tensor
---@param stem? string
---@return string
function Graph:tensor(tensor, stem)
  local name = self:unique(stem or "constant")
  self.bytes = self.bytes + tensor:numel() * tensor:element_size()
  table.insert(self.nodes, { op_type = "Constant", name = "Constant/" .. name, input = {},
    output = { name }, attribute = { attribute("value", tensor) } })
  return name
end

--- A constant of one number, or of a list of them in one dimension; the same one each time.
---@param value number|boolean|number[]
---@param dtype string
---@return string
function Graph:constant(value, dtype)
  local text = type(value) == "table" and "{" .. table.concat(value, ",") .. "}"
    or numbers.format(math.type(value) == "float" and "%.17g" or "%s", value)
  local key = dtype .. " " .. text
  if not self.cache[key] then
    local tensor
    if type(value) == "table" then
      tensor = #value > 0 and ml.tensor(value, { dtype = dtype })
        or ml.empty({ 0 }, { dtype = dtype })
    else
      tensor = ml.tensor(value, { dtype = dtype })
    end
    self.cache[key] = self:tensor(tensor)
  end
  return self.cache[key]
end

--- Names one kind of thing that was made of another once.
function Graph:cached(key, make)
  if not self.cache[key] then self.cache[key] = make() end
  return self.cache[key]
end

--- Says that what is written is of a later set of ops.
---@param opset integer
---@param what? string what is, for the message; else the op that is written
function Graph:needs(opset, what)
  if opset > self.latest then
    fail("onnx.export: %s is in ONNX from opset %d on, and 'opset_version' is %d%s",
      what or self.call.name, opset, self.latest, self.call.place)
  end
  self.opset = math.max(self.opset, opset)
end

local AXES = {}
for name in ("ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
  .. "ReduceProd"):gmatch "%S+" do
  AXES[name] = true
end

local GRID_MODES = { bilinear = "linear", bicubic = "cubic" }

-- An attribute of a node, which is taken away.
local function taken(node, name)
  for i, one in ipairs(node.attribute) do
    if one.name == name then return table.remove(node.attribute, i) end
  end
end

-- What a node of opset 17 is in a later one.
local function renewed(self, node, constant)
  if AXES[node.op_type] then
    local axes = taken(node, "axes")
    if axes then node.input[2] = constant(axes.ints) end
  elseif node.op_type == "Split" and not node.input[2] then
    table.insert(node.attribute, attribute("num_outputs", #node.output))
  elseif self.opset >= 20 and node.op_type == "DFT" then
    node.input[2], node.input[3] = node.input[2] or "", constant(taken(node, "axis").i)
  elseif self.opset >= 20 and node.op_type == "GridSample" then
    local mode = taken(node, "mode")
    mode.s = GRID_MODES[mode.s] or mode.s
    table.insert(node.attribute, mode)
  end
end

--- Brings the nodes, which are written as those of opset 17, to the set of ops of the graph.
function Graph:finish()
  if self.opset == 17 then return end
  local nodes, known = self.nodes, {}
  self.nodes = {}
  local function constant(value)
    local key = type(value) == "table" and "{" .. table.concat(value, ",") .. "}" or value
    known[key] = known[key] or self:tensor(ml.tensor(value, { dtype = "int64" }))
    return known[key]
  end
  for _, node in ipairs(nodes) do
    renewed(self, node, constant)
    self.nodes[#self.nodes + 1] = node
  end
end

-- --- values -----------------------------------------------------------------------------------

--- The names of the real and the imaginary part of a complex value.
---@param value table
---@return string[]
function Graph:parts(value)
  if not value.parts then
    local tensor = value.tensor
    if not value.parameter and not value.constant then
      fail("onnx.export: %s gets complex numbers that are given to the model, which ONNX's ops do "
        .. "not know; give view_as_real of them, and use view_as_complex%s", self.call.name,
        self.call.place)
    end
    value.parts = { self:tensor(ml.real(tensor):contiguous()),
      self:tensor(ml.imag(tensor):contiguous()) }
  end
  return value.parts
end

--- The name of a value as it is kept, counted from 0 where `value.zero`.
function Graph:raw(value)
  if value.parts then
    fail("onnx.export: %s %s complex numbers, which ONNX's ops do not know; use view_as_real%s",
      self.call.name, self.call.op and "is of" or "returns", self.call.place)
  end
  if not value.name then
    if value.constant == false then
      fail("onnx.export: %s uses a tensor of shape (%s) that the model makes anew in each run, by "
        .. "no op that a graph could hold%s", self.call.name,
        table.concat(value.tensor.shape, ", "),
        self.call.place)
    end
    local stem = value.parameter
    value.name = stem and self.parameters:use(self, value) or self:tensor(value.tensor)
    if not stem then value.kept = true end
  end
  return value.name
end

-- Positions moved by one, but for negative ones, which count from the end.
local function moved(self, name, op, compare, dtype)
  local counted = self:node(compare, { name, self:constant(0, dtype) })
  return self:node(op, { name, self:node("Cast", { counted }, { to = dtypes.codes[dtype] }) })
end

--- The name of a value that counts as it does in scripts, positions from 1.
function Graph:plain(value)
  local name = self:raw(value)
  if not value.zero then return name end
  return self:cached("plain " .. name, function()
    return moved(self, name, "Add", "GreaterOrEqual", value.dtype)
  end)
end

--- The name of positions counted from 0.
function Graph:index(value)
  if value.zero then return self:raw(value) end
  if value.constant then
    return self:cached("index " .. value.id, function()
      local t = value.tensor
      return self:tensor(t - t:gt(0):to(t.dtype))
    end)
  end
  local name = self:raw(value)
  return self:cached("index " .. name, function()
    return moved(self, name, "Sub", "Greater", value.dtype)
  end)
end

--- Gives the result of a call its name.
function Graph:bind(value, name, zero)
  value.name, value.zero = name, zero or nil
  self.named[#self.named + 1] = value
end

--- A name in another dtype.
function Graph:cast(name, from, to)
  if from == to then return name end
  return self:cached(("cast %s %s"):format(name, to), function()
    return self:node("Cast", { name }, { to = dtypes.codes[to] })
  end)
end

--- An operand, a value or a number, in a dtype.
function Graph:operand(thing, dtype)
  if trace.is_value(thing) then return self:cast(self:plain(thing), thing.dtype, dtype) end
  if sizes.is_size(thing) then return self:number(thing, dtype) end
  if type(thing) ~= "number" and type(thing) ~= "boolean" then
    fail("onnx.export: a %s is no operand of ONNX's%s", type(thing), self.call.place)
  end
  return self:constant(thing, dtype)
end

-- --- sizes ------------------------------------------------------------------------------------

--- An integer that must be known now.
function Graph:int(thing, what)
  if sizes.is_size(thing) then
    fail("onnx.export: %s: '%s' follows a dynamic axis, and ONNX wants it as a constant%s",
      self.call.name, what, self.call.place)
  end
  return thing
end

--- A list of such integers.
function Graph:known(list, what)
  for i, item in ipairs(list) do list[i] = self:int(item, what) end
  return list
end

local function dimension(self, value, d)
  local name = value.name
  return self:cached(("size %s %d"):format(name, d), function()
    local shape = self:cached("shape " .. name, function() return self:node("Shape", { name }) end)
    return self:node("Gather", { shape, self:constant({ d - 1 }, "int64") }, { axis = 0 })
  end)
end

-- size = a * of + c, with a an integer or one through an integer; nil where it is not.
local function linear(size, of, count)
  for i = 2, count do
    local step = sizes.at(of, i) - sizes.at(of, 1)
    if step ~= 0 then
      local gradient = (sizes.at(size, i) - sizes.at(size, 1)) / step
      if gradient == 0 then return nil end
      local up, down = math.floor(gradient + 0.5), math.floor(1 / gradient + 0.5)
      if up ~= gradient and (down == 0 or math.abs(1 / gradient - down) > 1e-9) then return nil end
      local a, b = up == gradient and up or 1, up == gradient and 1 or down
      local c = sizes.at(size, 1) - gradient * sizes.at(of, 1)
      for k = 1, count do
        if math.abs(sizes.at(of, k) * gradient + c - sizes.at(size, k)) > 1e-9 then return nil end
      end
      if math.abs(c - math.floor(c + 0.5)) > 1e-9 then return nil end
      return a, b, math.floor(c + 0.5)
    end
  end
end

-- (name * a / b + c) / d + e, of integers.
local function combine(self, name, a, b, c, d, e)
  local function with(op, number)
    name = self:node(op, { name, self:constant({ number }, "int64") })
  end
  if a ~= 1 then with("Mul", a) end
  if b ~= 1 then with("Div", b) end
  if c ~= 0 then with("Add", c) end
  if d then with("Div", d) end
  if e and e ~= 0 then with("Add", e) end
  return name
end

-- The dimensions that follow dynamic axes, of values that have names, inputs first.
local function dynamic_dimensions(self)
  local out = {}
  for _, value in ipairs(self.named) do
    for d, size in ipairs(value.shape) do
      if sizes.is_size(size) then out[#out + 1] = { value, d, size } end
    end
  end
  return out
end

-- Products of two different dimensions: rows of a batch and of a sequence in one.
local function product(self, size, found)
  local seen = {}
  for _, entry in ipairs(found) do
    local new = true
    for _, other in ipairs(seen) do new = new and not sizes.same(other[3], entry[3]) end
    if new then seen[#seen + 1] = entry end
  end
  for i, one in ipairs(seen) do
    for j = i, #seen do
      local two = seen[j]
      local both = sizes.map(self.run.count, function(k) return one[3][k] * two[3][k] end)
      local a, b, c = linear(size, both, self.run.count)
      if a then
        local name = self:node("Mul", { dimension(self, one[1], one[2]),
          dimension(self, two[1], two[2]) })
        return combine(self, name, a, b, c)
      end
    end
  end
end

-- Half of a dimension, rounded down or up, and a constant.
local function half(self, size, found)
  for _, entry in ipairs(found) do
    for more = 0, 1 do
      local rest = sizes.map(self.run.count, function(k)
        return sizes.at(size, k) - (sizes.at(entry[3], k) + more) // 2
      end)
      if math.type(rest) == "integer" then
        return combine(self, dimension(self, entry[1], entry[2]), 1, 1, more, 2, rest)
      end
    end
  end
end

local function find_size(self, size)
  local found = dynamic_dimensions(self)
  for _, entry in ipairs(found) do
    if sizes.same(entry[3], size) then return dimension(self, entry[1], entry[2]) end
  end
  for _, entry in ipairs(found) do
    local a, b, c = linear(size, entry[3], self.run.count)
    if a then return combine(self, dimension(self, entry[1], entry[2]), a, b, c) end
  end
  return product(self, size, found) or half(self, size, found)
end

--- The name of a size, in one dimension of one element.
function Graph:size(size)
  if not sizes.is_size(size) then return self:constant({ size }, "int64") end
  local key = "size " .. table.concat(size, " ")
  local name = self.cache[key] or find_size(self, size)
  if not name then
    fail("onnx.export: %s uses a size that follows the dynamic axes in a way that cannot be "
      .. "written down (%s in the runs)%s", self.call.name, table.concat(size, ", "),
      self.call.place)
  end
  self.cache[key] = name
  return name
end

--- The name of a number that follows sizes, without dimensions.
function Graph:number(size, dtype)
  local whole, inverse = true, true
  for i = 1, #size do
    whole = whole and size[i] == math.floor(size[i])
    inverse = inverse and math.abs(1 / size[i] - math.floor(1 / size[i] + 0.5)) < 1e-6
  end
  local name
  if whole then
    name = self:cast(self:size(size), "int64", dtype)
  elseif inverse then
    local of = sizes.map(#size, function(i) return math.floor(1 / size[i] + 0.5) end)
    name = self:node("Reciprocal", { self:cast(self:size(of), "int64", dtype) })
  else
    fail("onnx.export: %s uses a number that follows no size, and differs between runs (%s)%s",
      self.call.name, table.concat(size, ", "), self.call.place)
  end
  return self:node("Squeeze", { name, self:constant({ 0 }, "int64") })
end

--- The name of a list of integers, of which some may follow sizes.
---@param list any[]
---@return string
function Graph:ints(list)
  local parts, plain, dynamic = {}, {}, false
  local function flush()
    if #plain > 0 then parts[#parts + 1] = self:constant(plain, "int64") end
    plain = {}
  end
  for _, item in ipairs(list) do
    if sizes.is_size(item) then
      flush()
      parts[#parts + 1], dynamic = self:size(item), true
    else
      plain[#plain + 1] = item
    end
  end
  if not dynamic then return self:constant(list, "int64") end
  flush()
  if #parts == 1 then return parts[1] end
  return self:node("Concat", parts, { axis = 0 })
end

--- A name in another shape.
---@param name string
---@param shape any[] integers and sizes
---@return string
function Graph:reshape(name, shape)
  local dynamic, list, empty = 0, {}, false
  for i, size in ipairs(shape) do
    list[i] = size
    if sizes.is_size(size) then dynamic = dynamic + 1 end
    empty = empty or size == 0
  end
  if dynamic == 1 and not empty then
    for i, size in ipairs(list) do
      if sizes.is_size(size) then list[i] = -1 end
    end
  end
  return self:node("Reshape", { name, self:ints(list) }, empty and { allowzero = 1 } or nil)
end

--- A name with ones in front of its sizes or such ones taken away.
function Graph:unsqueeze(name, dims)
  return self:node("Unsqueeze", { name, self:constant(dims, "int64") })
end

function Graph:squeeze(name, dims)
  return self:node("Squeeze", { name, self:constant(dims, "int64") })
end

function Graph:transpose(name, perm) return self:node("Transpose", { name }, { perm = perm }) end

--- A constant of a value's floating dtype.
function Graph:float(number, dtype) return self:constant(number + 0.0, dtype) end

return Graph
