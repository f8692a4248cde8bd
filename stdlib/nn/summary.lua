-- stdlib/nn/summary.lua: Module:summary: a table of what a network does with an input: shapes,
-- parameters, multiplications and memory of each layer.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local signature = require "moonlet.signature"

--- What `net:summary(x)` gives: an array of rows and their sums. It prints as a table.
---@class moonlet.Summary
---@field rows table[] { name, type, depth, output, parameters, multiplications, bytes }
---@field parameters integer of the whole network, each once
---@field trained integer those that are trained
---@field multiplications integer of convolutions, products and recurrent layers
---@field parameter_bytes integer
---@field output_bytes integer of what all layers give
local Summary = {}
Summary.__index = Summary
Summary.__name = "Summary"

local UNITS = { "", "K", "M", "G", "T" }

local function short(count, base)
  local unit = 1
  while count >= base and unit < #UNITS do count, unit = count / base, unit + 1 end
  return (unit == 1 and "%d %s" or "%.2f %s"):format(count, UNITS[unit])
end

local function in_bytes(count) return short(count, 1024) .. "B" end

local function grouped(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

local function elements(shape, first)
  local count = 1
  for i = first or 1, #shape do count = count * shape[i] end
  return count
end

-- Each element of the result of a product or convolution takes one multiplication for each element
-- of its slice of the weight; of a transposed convolution, each element of the input.
local function of_weight(module, input, output)
  local weight = module.weight
  if class.name(class.of(module)):find "ConvTranspose" then
    return input:numel() * elements(weight.shape, 2)
  end
  return output:numel() * elements(weight.shape, 2)
end

local function of_recurrent(module, input)
  local steps, per_step = input:numel() // module.input_size, 0
  for _, p in ipairs(module:parameters(false)) do
    if p.ndim == 2 then per_step = per_step + p:numel() end
  end
  return steps * per_step
end

-- The projections, and the products of queries with keys and of weights with values.
local function of_attention(module, query, _, key)
  local length = query.shape[query.ndim == 3 and module.batch_first and 2 or 1]
  local source = key.shape[key.ndim == 3 and module.batch_first and 2 or 1]
  local batch = query:numel() // (length * module.embed_dim)
  local e = module.embed_dim
  local projections = length * e * e + source * e * (module.kdim + module.vdim)
  return batch * (projections + 2 * length * source * e + length * e * e)
end

local KINDS = { Linear = of_weight, Conv1d = of_weight, Conv2d = of_weight, Conv3d = of_weight,
  ConvTranspose1d = of_weight, ConvTranspose2d = of_weight, ConvTranspose3d = of_weight,
  RNN = of_recurrent, LSTM = of_recurrent, GRU = of_recurrent, RNNCell = of_recurrent,
  LSTMCell = of_recurrent, GRUCell = of_recurrent, MultiheadAttention = of_attention }

local function multiplications(module, inputs, output)
  local cls = class.of(module)
  while cls do
    local count = KINDS[class.name(cls)]
    if count and ml.is_tensor(inputs[1]) and ml.is_tensor(output) then
      return count(module, inputs[1], output, inputs[2])
    end
    cls = cls.super
  end
  return 0
end

local function tensors_in(out, value, depth)
  if ml.is_tensor(value) then
    out[#out + 1] = value
  elseif type(value) == "table" and getmetatable(value) == nil and depth < 3 then
    for _, item in ipairs(value) do tensors_in(out, item, depth + 1) end
  end
  return out
end

local function shape_text(outputs)
  local parts = {}
  for i, x in ipairs(outputs) do parts[i] = tostring(x.shape) end
  return #parts > 0 and table.concat(parts, " ") or "-"
end

local function count(list)
  local all, bytes = 0, 0
  for _, x in ipairs(list) do
    all, bytes = all + x:numel(), bytes + x:numel() * x.element_size(x)
  end
  return all, bytes
end

-- The rows of all modules, in the order of the tree, without results as yet.
local function make_rows(self)
  local rows, by_module = {}, {}
  for name, module in self:named_modules() do
    local _, depth = name:gsub("%.", "")
    local row = { name = name == "" and "" or name:match "[^.]+$", depth = name == "" and 0
      or depth + 1, type = class.name(class.of(module)), output = "-", multiplications = 0,
      bytes = 0, leaf = #module:children() == 0 }
    row.parameters = count(module:parameters(false))
    rows[#rows + 1], by_module[module] = row, row
  end
  return rows, by_module
end

-- A hook that notes what the module of each row gives; attention's own products do not pass through
-- the layers below it.
local function note(by_module)
  return function(module, inputs, ...)
    local row = by_module[module]
    if not row then return end
    local outputs = tensors_in({}, { ... }, 1)
    row.output = shape_text(outputs)
    row.multiplications = row.multiplications + multiplications(module, inputs, outputs[1])
    if row.leaf or row.multiplications > 0 then
      local _, bytes = count(outputs)
      row.bytes = row.bytes + bytes
    end
  end
end

local function totals(self, rows)
  local out = { rows = rows, multiplications = 0, output_bytes = 0, trained = 0 }
  for _, row in ipairs(rows) do
    out.multiplications = out.multiplications + row.multiplications
    out.output_bytes = out.output_bytes + row.bytes
  end
  out.parameters, out.parameter_bytes = count(self:parameters())
  for _, p in ipairs(self:parameters()) do
    if p.requires_grad then out.trained = out.trained + p:numel() end
  end
  return out
end

local read = signature "Module:summary(any... inputs)"

--- Table of the layers with the sizes of what they give, their parameters, multiplications and
--- memory. The network is called once with the inputs, in eval mode and off the tape. A
--- multiplication counts with its addition. The table prints in the terminal.
--- > ml.nn.Sequential(ml.nn.Linear(4, 8), ml.nn.ReLU()):summary(ml.ones(2, 4))
---   layer        output  parameters  mult-adds  memory
---   --------------------------------------------------
---   Sequential   (2, 8)
---     0: Linear  (2, 8)          40        64     64 B
---     1: ReLU    (2, 8)                           64 B
---   --------------------------------------------------
---   40 parameters (160 B), 40 of them trained
---   64 mult-adds, 128 B of results
---@param ... any the arguments of forward
---@return moonlet.Summary
function Module:summary(...)
  read(...)
  local inputs = table.pack(...)
  local rows, by_module = make_rows(self)
  local handles, modes = {}, {}
  local hook = note(by_module)
  for module in pairs(by_module) do
    modes[module] = module.training
    handles[#handles + 1] = module:register_forward_hook(hook)
  end
  local restore <close> = setmetatable({}, { __close = function()
    for _, handle in ipairs(handles) do handle:remove() end
    for module, training in pairs(modes) do rawset(module, "training", training) end
  end })
  assert(restore)
  self:eval()
  do
    local _ <close> = ml.no_grad()
    self(table.unpack(inputs, 1, inputs.n))
  end
  return setmetatable(totals(self, rows), Summary)
end

-- The cells of the printed table, each row an array of texts.
local function cells(self)
  local out = { { "layer", "output", "parameters", "mult-adds", "memory" } }
  for _, row in ipairs(self.rows) do
    local label = ("  "):rep(row.depth) .. (row.name == "" and "" or row.name .. ": ") .. row.type
    out[#out + 1] = { label, row.output, row.parameters > 0 and grouped(row.parameters) or "",
      row.multiplications > 0 and short(row.multiplications, 1000) or "",
      row.bytes > 0 and in_bytes(row.bytes) or "" }
  end
  return out
end

function Summary:__tostring()
  local rows, widths, lines = cells(self), {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, utf8.len(cell) or #cell) end
  end
  for n, row in ipairs(rows) do
    local parts = {}
    for i, cell in ipairs(row) do
      local gap = (" "):rep(widths[i] - (utf8.len(cell) or #cell))
      parts[i] = i <= 2 and cell .. gap or gap .. cell
    end
    lines[#lines + 1] = (table.concat(parts, "  "):gsub("%s+$", ""))
    if n == 1 then lines[2] = ("-"):rep(#table.concat(parts, "  ")) end
  end
  lines[#lines + 1] = lines[2]
  lines[#lines + 1] = ("%s parameters (%s), %s of them trained"):format(grouped(self.parameters),
    in_bytes(self.parameter_bytes), grouped(self.trained))
  lines[#lines + 1] = ("%s mult-adds, %s of results"):format(
    (short(self.multiplications, 1000):gsub("%s+$", "")), in_bytes(self.output_bytes))
  return table.concat(lines, "\n")
end

Summary.__tostring = numbers.wrap(Summary.__tostring)

return Module
