-- stdlib/torch7/compare.lua: whether two values are equal within a tolerance, and why not, for
-- torch.Tester. Each function gives success and a message, which says what is wrong where it is not
-- what was hoped; with `negate` equal values are the failure.

local class = require "moonlet.torch7.class"
local namespace = require "moonlet.torch7.namespace"

local compare = {}

local function verdict(equal, negate, difference, tolerance, what)
  if equal ~= negate then return true end
  return false, ("%s%s violation: max diff=%s, tolerance=%s"):format(what,
    negate and "NE(==)" or "EQ(==)", tostring(difference), tostring(tolerance))
end

-- Tensors of as many elements and one type.
local function elements(a, b, tolerance, negate, what)
  local difference = (a:double() - b:double()):abs():max()
  return verdict(difference <= tolerance, negate, difference, tolerance, what)
end

--- Tensors; with `any_shape` only the number of elements counts, not the sizes.
function compare.tensors(a, b, tolerance, negate, any_shape)
  if not any_shape and a:dim() ~= b:dim() then
    return negate, "The tensors have different dimensions"
  elseif a:type() ~= b:type() then
    return negate, "The tensors have different types"
  elseif a:nElement() == 0 and b:nElement() == 0 then
    return not negate, "Both tensors are empty"
  elseif a:nElement() ~= b:nElement() or not any_shape and not a:isSameSizeAs(b) then
    return negate, "The tensors have different sizes"
  end
  return elements(a, b, tolerance, negate, "Tensor")
end

function compare.storages(a, b, tolerance, negate)
  if #a ~= #b then return negate, "The storages have different sizes" end
  if class.typename(a) ~= class.typename(b) then
    return negate, "The storages have different types"
  end
  if #a == 0 then return not negate, "Both storages are empty" end
  local type_of = namespace[class.typename(a):match "(%w+)Storage$" .. "Tensor"]
  return elements(type_of(a), type_of(b), tolerance, negate, "Storage")
end

local function plain(a, b, negate, format, suffix)
  local equal = a == b
  if equal ~= negate then return true end
  return false, format:format(negate and "NE" or "EQ", a, negate and "==" or "~=", b) .. suffix
end

local function numbers(a, b, tolerance, negate)
  local equal = a == b or math.abs(a - b) <= tolerance
  if equal ~= negate then return true end
  local message = ("%s failed: %s %s %s"):format(negate and "NE" or "EQ", a,
    negate and "==" or "~=", b)
  if tolerance > 0 then message = message .. " with tolerance=" .. tolerance end
  return false, message
end

-- The first position, level by level, where two tables differ, and what differs there.
local function difference(a, b, tolerance)
  local queue, head = { { a, b, nil } }, 1
  while queue[head] do
    local left, right, at = table.unpack(queue[head], 1, 3)
    head = head + 1
    for key, value in pairs(left) do
      local at_key = (at and at .. "." or "") .. tostring(key)
      local other = right[key]
      if other == nil then
        return ("Entry %s missing in second table (is %s in first)"):format(at_key,
          tostring(value))
      elseif type(value) == "table" and type(other) == "table" then
        queue[#queue + 1] = { value, other, at_key }
      else
        local ok, message = compare.values(value, other, tolerance, false)
        if not ok then return ("At table location %s: %s"):format(at_key, message) end
      end
    end
    for key, value in pairs(right) do
      if left[key] == nil then
        return ("Entry %s missing in first table (is %s in second)"):format(
          (at and at .. "." or "") .. tostring(key), tostring(value))
      end
    end
  end
  return nil
end

function compare.tables(a, b, tolerance, negate)
  local message = difference(a, b, tolerance)
  if message then return negate, message end
  return not negate, "The tables are equal"
end

--- Values of any kind, tables with all they hold.
function compare.values(a, b, tolerance, negate)
  if type(a) ~= type(b) then
    return negate, not negate and ("EQ failed: values have different types (first: %s, second: %s)")
      :format(type(a), type(b)) or nil
  end
  if type(a) == "number" then return numbers(a, b, tolerance, negate) end
  if type(a) == "table" then return compare.tables(a, b, tolerance, negate) end
  local is_tensor, is_storage = namespace.isTensor(a), namespace.isStorage(a)
  if is_tensor and namespace.isTensor(b) then return compare.tensors(a, b, tolerance, negate) end
  if is_storage and namespace.isStorage(b) then
    return compare.storages(a, b, tolerance, negate)
  end
  local kind = (" (%s)"):format(type(a))
  if a == b == not negate then return true end
  return plain(tostring(a) .. kind, tostring(b) .. kind, negate, "%s failed: %s %s %s", "")
end

return compare
