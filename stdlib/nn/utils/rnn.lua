-- stdlib/nn/utils/rnn.lua: nn.utils.rnn: sequences of several lengths, packed for recurrent layers
-- or padded to one length.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local rnn = {}

local ON_HOST = { dtype = "int64", device = "cpu" }

local read_invert = signature "nn.utils.rnn.invert_permutation(Tensor? permutation=nil)"

local function inverted(permutation)
  if permutation == nil then return nil end
  return permutation:argsort()
end

--- Inverse of a permutation of the indices from 1.
--- > ml.nn.utils.rnn.invert_permutation(ml.tensor { 3, 1, 2 })
---   {2, 3, 1}
---   Tensor (3,) int64
---@param permutation? moonlet.Tensor the permutation, or nil, whose inverse is nil
---@return moonlet.Tensor?
---@shape permutation (n) -> (n)
function rnn.invert_permutation(...) return inverted((read_invert(...))) end

--- Sequences of several lengths without padding, as recurrent layers take them.
--- `pack_padded_sequence` and `pack_sequence` make it; there is seldom a reason to do so by hand.
--- > ml.nn.utils.rnn.PackedSequence(ml.ones(3), ml.tensor { 2, 1 })
---   PackedSequence(data (3,), 2 sequences, 2 steps)
---@param data the first step of all sequences, then the second, and so on
---@param batch_sizes how many sequences each step has, int64 on the CPU
---@param sorted_indices which sequence stands at each position, from 1
---@param unsorted_indices at which position each sequence stands: the inverse of `sorted_indices`
---   unless given
---@shape data (rows, *), batch_sizes (steps), sorted_indices (n), unsorted_indices (n)
---@field data moonlet.Tensor (rows, *): the first step of all sequences, then the second, and so
---   on.
---@field batch_sizes moonlet.Tensor How many rows each step has, int64 on the CPU.
---@field sorted_indices moonlet.Tensor? Which sequence stands at each position, from 1.
---@field unsorted_indices moonlet.Tensor? At which position each sequence stands.
local PackedSequence = class "PackedSequence"
rnn.PackedSequence = PackedSequence

local read_packed = signature("nn.utils.rnn.PackedSequence(Tensor data, Tensor batch_sizes, "
  .. "Tensor? sorted_indices=nil, Tensor? unsorted_indices=nil)")

function PackedSequence:init(...)
  local data, batch_sizes, sorted, unsorted = read_packed(...)
  if batch_sizes.device ~= "cpu" then
    fail("nn.utils.rnn.PackedSequence: 'batch_sizes' must be on the CPU, got %s",
      tostring(batch_sizes.device))
  end
  self.data, self.batch_sizes = data, batch_sizes
  self.sorted_indices, self.unsorted_indices = sorted, unsorted or inverted(sorted)
end

function PackedSequence.__tostring(self)
  return ("PackedSequence(data %s, %d sequences, %d steps)"):format(tostring(self.data.shape),
    #self.batch_sizes > 0 and self.batch_sizes[1]:item() or 0, #self.batch_sizes)
end

--- The same sequences with the data on another device or of another dtype, as `data:to(...)` gives
--- it.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:to("float64").data.dtype
---   float64
---@param ... the arguments of a tensor's `to`
---@return table
function PackedSequence:to(...)
  local data = self.data:to(...)
  if data == self.data then return self end
  local function follow(indices) return indices and indices:to { device = data.device } end
  return PackedSequence(data, self.batch_sizes, follow(self.sorted_indices),
    follow(self.unsorted_indices))
end

--- The same sequences on a CUDA device.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:cuda().data.device  -- needs cuda
---   cuda:0
---@param device? string the device: "cuda" unless given
---@return table
function PackedSequence:cuda(device) return self:to { device = device or "cuda" } end

--- The same sequences on the CPU.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:cpu().data.device
---   cpu
---@return table
function PackedSequence:cpu() return self:to { device = "cpu" } end

--- The same sequences in float64.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:double().data.dtype
---   float64
---@return table
function PackedSequence:double() return self:to { dtype = "float64" } end

--- The same sequences in float32.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:float().data.dtype
---   float32
---@return table
function PackedSequence:float() return self:to { dtype = "float32" } end

--- The same sequences in float16.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:half().data.dtype
---   float16
---@return table
function PackedSequence:half() return self:to { dtype = "float16" } end

--- The same sequences in int64.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > packed:long().data.dtype
---   int64
---@return table
function PackedSequence:long() return self:to { dtype = "int64" } end

--- Whether a value is a PackedSequence.
---@param value any
---@return boolean
local function is_packed(value)
  return type(value) == "table" and class.is_instance(value, PackedSequence)
end

signature.add_type("Packed", "a PackedSequence", function(value)
  return is_packed(value) and value or nil
end)

-- The shape of `x` from dimension `first` on.
local function sizes_from(x, first) return { table.unpack(x.shape:totable(), first) } end

-- Lengths as an array of integers.
local function length_list(where, lengths, batch)
  local list = ml.is_tensor(lengths) and lengths:reshape(-1):tolist() or lengths
  if #list ~= batch then
    fail("%s: 'lengths' has %d numbers, there are %d sequences", where, #list, batch)
  end
  for i, length in ipairs(list) do
    list[i] = math.tointeger(length)
    if not list[i] or list[i] < 1 then
      fail("%s: lengths are integers of at least 1, got %s", where, tostring(length))
    end
  end
  return list
end

-- `x` (steps, n, ...) with lengths that do not grow, as rows and how many each step has.
local function pack(where, x, lengths)
  if lengths[1] > x.shape[1] then
    fail("%s: a sequence has length %d, the input has %d steps", where, lengths[1], x.shape[1])
  end
  local parts, sizes, done = {}, {}, 0
  for i = #lengths, 1, -1 do
    local length = lengths[i]
    if i > 1 and length > lengths[i - 1] then
      fail("%s: lengths must not grow with 'enforce_sorted'; set it to false", where)
    end
    if length > done then
      parts[#parts + 1] = x:narrow(1, done + 1, length - done):narrow(2, 1, i)
        :reshape(-1, table.unpack(sizes_from(x, 3)))
      for _ = done + 1, length do sizes[#sizes + 1] = i end
      done = length
    end
  end
  return ml.cat(parts), ml.tensor(sizes, ON_HOST)
end

local function pack_padded(where, x, lengths, batch_first, enforce_sorted)
  if x.ndim < 2 or x:numel() == 0 then
    fail("%s: 'input' has shape %s, a batch of sequences is expected", where, tostring(x.shape))
  end
  if batch_first then x = x:transpose(1, 2) end
  lengths = length_list(where, lengths, x.shape[2])
  local order
  if not enforce_sorted then
    local sorted, at = ml.tensor(lengths, ON_HOST):sort { descending = true }
    lengths, order = sorted:tolist(), at:to { device = x.device }
    x = x:index_select(2, order)
  end
  local data, sizes = pack(where, x, lengths)
  return PackedSequence(data, sizes, order)
end

local read_pack_padded = signature("nn.utils.rnn.pack_padded_sequence(Tensor input, "
  .. "Tensor|int[] lengths, bool batch_first=false, bool enforce_sorted=true)")

--- Packs a padded batch of sequences for a recurrent layer.
--- > ml.nn.utils.rnn.pack_padded_sequence(ml.ones(3, 2), { 3, 1 }).batch_sizes
---   {2, 1, 1}
---   Tensor (3,) int64
---@param input moonlet.Tensor the padded sequences
---@param lengths moonlet.Tensor|integer[] how many steps each sequence has
---@param batch_first? boolean whether the batch is the first dimension
---@param enforce_sorted? boolean whether the lengths must not grow; without, they may stand in any
---   order
---@return table
---@shape input (steps, n, *), or (n, steps, *) with batch_first, lengths (n) -> data (sum of
---   lengths, *)
---@error a length is below 1 or above the number of steps, or they grow with `enforce_sorted`
function rnn.pack_padded_sequence(...)
  return pack_padded("nn.utils.rnn.pack_padded_sequence", read_pack_padded(...))
end

-- How many steps each sequence has, in the packed order.
local function packed_lengths(sizes)
  local lengths, count = {}, sizes[1]
  for i = 1, count do lengths[i] = 0 end
  for _, size in ipairs(sizes) do
    for i = 1, size do lengths[i] = lengths[i] + 1 end
  end
  return lengths
end

-- (steps, n, ...) of rows, with `value` where there are none.
local function unpack_rows(data, sizes, steps, value)
  local batch, rest, parts = sizes[1], sizes_from(data, 2), {}
  local function blank(length, count)
    return ml.full({ length, count, table.unpack(rest) }, value,
      { dtype = data.dtype, device = data.device })
  end
  local row, step = 1, 1
  while step <= #sizes do
    local last = step
    while sizes[last + 1] == sizes[step] do last = last + 1 end
    local count, length = sizes[step], last - step + 1
    local part = data:narrow(1, row, count * length):reshape(length, count, table.unpack(rest))
    if count < batch then part = ml.cat({ part, blank(length, batch - count) }, 2) end
    parts[#parts + 1] = part
    row, step = row + count * length, last + 1
  end
  if steps > #sizes then parts[#parts + 1] = blank(steps - #sizes, batch) end
  return ml.cat(parts)
end

local function pad_packed(where, packed, batch_first, value, total)
  local sizes = packed.batch_sizes:tolist()
  if total and total < #sizes then
    fail("%s: 'total_length' %d is less than the longest sequence, %d", where, total, #sizes)
  end
  local x = unpack_rows(packed.data, sizes, total or #sizes, value)
  local lengths = ml.tensor(packed_lengths(sizes), ON_HOST)
  if packed.unsorted_indices then
    x = x:index_select(2, packed.unsorted_indices)
    lengths = lengths:index_select(1, packed.unsorted_indices:cpu())
  end
  return batch_first and x:transpose(1, 2) or x, lengths
end

local read_pad_packed = signature("nn.utils.rnn.pad_packed_sequence(Packed sequence, "
  .. "bool batch_first=false, number padding_value=0.0, int>=1? total_length=nil)")

--- Pads packed sequences to one length: the inverse of `pack_padded_sequence`. The sequences come
--- in their own order.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > ml.nn.utils.rnn.pad_packed_sequence(packed)
---   {{1., 1.},
---    {1., 0.}}
---   Tensor (2, 2) float32
---   {2, 1}
---   Tensor (2,) int64
---@param sequence table the packed sequences
---@param batch_first? boolean whether the batch is the first dimension of the result
---@param padding_value? number what stands behind the end of a sequence
---@param total_length? integer how many steps the result has: as many as the longest sequence
---   unless given
---@return moonlet.Tensor
---@return moonlet.Tensor lengths
---@shape -> (steps, n, *), or (n, steps, *) with batch_first, and lengths (n)
---@error `total_length` is below the length of the longest sequence
function rnn.pad_packed_sequence(...)
  return pad_packed("nn.utils.rnn.pad_packed_sequence", read_pad_packed(...))
end

local function check_sequences(where, sequences)
  if #sequences == 0 then fail("%s: 'sequences' is empty", where) end
  for i, x in ipairs(sequences) do
    if x.ndim == 0 then fail("%s: sequence %d is a single number", where, i) end
  end
end

signature.add_choice("Side", { "right", "left" })

local function pad(where, sequences, batch_first, value, side)
  check_sequences(where, sequences)
  local longest, padded = 0, {}
  for _, x in ipairs(sequences) do longest = math.max(longest, #x) end
  for i, x in ipairs(sequences) do
    local missing = longest - #x
    local border = {}
    for d = 1, 2 * x.ndim do border[d] = 0 end
    border[2 * x.ndim - (side == "left" and 1 or 0)] = missing
    padded[i] = missing > 0 and ml.pad(x, border, "constant", value) or x
  end
  return ml.stack(padded, batch_first and 1 or 2)
end

local read_pad = signature("nn.utils.rnn.pad_sequence(Tensor[] sequences, bool batch_first=false, "
  .. 'number padding_value=0.0, Side padding_side="right")')

--- Pads sequences of several lengths to one tensor.
--- > ml.nn.utils.rnn.pad_sequence { ml.ones(3), ml.ones(2) }
---   {{1., 1.},
---    {1., 1.},
---    {1., 0.}}
---   Tensor (3, 2) float32
---@param sequences moonlet.Tensor[] the sequences
---@param batch_first? boolean whether the batch is the first dimension of the result
---@param padding_value? number what the padding is
---@param padding_side? string "right" to pad after the end of a sequence, "left" before its start
---@return moonlet.Tensor
---@shape sequences (length_i, *) -> (steps, n, *), or (n, steps, *) with batch_first
function rnn.pad_sequence(...) return pad("nn.utils.rnn.pad_sequence", read_pad(...)) end

local function unpad(where, x, lengths, batch_first)
  if x.ndim < 2 then
    fail("%s: 'padded_sequences' has shape %s, a batch is expected", where, tostring(x.shape))
  end
  if not batch_first then x = x:transpose(1, 2) end
  local out = {}
  for i, length in ipairs(length_list(where, lengths, x.shape[1])) do
    if length > x.shape[2] then
      fail("%s: sequence %d has length %d, there are %d steps", where, i, length, x.shape[2])
    end
    out[i] = x[i]:narrow(1, 1, length)
  end
  return out
end

local read_unpad = signature("nn.utils.rnn.unpad_sequence(Tensor padded_sequences, "
  .. "Tensor|int[] lengths, bool batch_first=false)")

--- Cuts a padded tensor into its sequences: the inverse of `pad_sequence`.
--- > ml.nn.utils.rnn.unpad_sequence(ml.ones(3, 2), { 3, 2 })
---   {{1., 1., 1.}  Tensor (3,) float32, {1., 1.}  Tensor (2,) float32}
---@param padded_sequences moonlet.Tensor the padded sequences
---@param lengths moonlet.Tensor|integer[] how many steps each sequence has
---@param batch_first? boolean whether the batch is the first dimension
---@return moonlet.Tensor[]
---@shape padded_sequences (steps, n, *), or (n, steps, *) with batch_first -> n tensors (length_i,
---   *)
---@error a length is below 1 or above the number of steps
function rnn.unpad_sequence(...) return unpad("nn.utils.rnn.unpad_sequence", read_unpad(...)) end

local read_pack = signature(
  "nn.utils.rnn.pack_sequence(Tensor[] sequences, bool enforce_sorted=true)")

--- Packs sequences of several lengths for a recurrent layer.
--- > ml.nn.utils.rnn.pack_sequence({ ml.ones(2), ml.ones(1) }).batch_sizes
---   {2, 1}
---   Tensor (2,) int64
---@param sequences moonlet.Tensor[] the sequences
---@param enforce_sorted? boolean whether the lengths must not grow; without, they may stand in any
---   order
---@return table
---@shape sequences (length_i, *) -> data (sum of lengths, *)
function rnn.pack_sequence(...)
  local sequences, enforce_sorted = read_pack(...)
  local where, lengths = "nn.utils.rnn.pack_sequence", {}
  check_sequences(where, sequences)
  for i, x in ipairs(sequences) do lengths[i] = #x end
  return pack_padded(where, pad(where, sequences, false, 0), lengths, false, enforce_sorted)
end

local read_unpack = signature "nn.utils.rnn.unpack_sequence(Packed packed_sequences)"

--- The sequences of a packed sequence: the inverse of `pack_sequence`.
--- > packed = ml.nn.utils.rnn.pack_sequence { ml.ones(2), ml.ones(1) }
--- > ml.nn.utils.rnn.unpack_sequence(packed)
---   {{1., 1.}  Tensor (2,) float32, {1.}  Tensor (1,) float32}
---@param packed_sequences table the packed sequences
---@return moonlet.Tensor[]
---@shape -> n tensors (length_i, *)
function rnn.unpack_sequence(...)
  local where = "nn.utils.rnn.unpack_sequence"
  local padded, lengths = pad_packed(where, read_unpack(...), true, 0)
  return unpad(where, padded, lengths, true)
end

rnn._is_packed = is_packed

return options.namespace("nn.utils.rnn", rnn)
