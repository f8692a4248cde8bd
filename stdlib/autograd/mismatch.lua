-- stdlib/autograd/mismatch.lua: where two sets of Jacobians differ, in words.

local ml = require "moonlet"
local numbers = require "moonlet.numbers"

local mismatch = {}

-- Matrices of at most so many elements are shown.
local SHOWN = 64

-- The element of that number, from 1 in row order, as scripts index it.
local function element_name(shape, number)
  local out, rest = {}, number - 1
  for d = #shape, 1, -1 do
    out[d] = rest % shape[d] + 1
    rest = rest // shape[d]
  end
  return #out > 0 and "element [" .. table.concat(out, ", ") .. "]" or "the only element"
end

local function number_text(value)
  if type(value) == "number" then return numbers.format("%.6g", value) end
  return numbers.format("%.6g%+.6gi", value.real, value.imag)
end

-- The most that numbers of two matrices are apart beyond what the tolerances allow, and where; what
-- is not a number is infinitely far.
local function worst(numerical, computed, atol, rtol)
  if numerical:numel() == 0 then return -math.huge end
  local off = (computed - numerical):abs()
  local over = off - (numerical:abs() * rtol + atol)
  over = over:nan_to_num { nan = math.huge, posinf = math.huge, neginf = -math.huge }
  local at = over:argmax():item()
  return over:reshape(-1)[at]:item(), at, off, over
end

local function description(found, atol, rtol)
  local part, x = found.part, found.input
  local row, column = (found.at - 1) // found.width + 1, (found.at - 1) % found.width + 1
  local size = found.numerical:abs()
  local relative = (found.off / size):masked_fill(found.off:eq(0), 0)
  local lines = {
    ("the Jacobian of output %d%s by input %d differs most at %s of the input and %s of the output")
      :format(part.output, part.what and " (its " .. part.what .. " part)" or "", found.position,
        element_name(x.shape, row), element_name(part.shape, column)),
    ("%s %s, %s %s"):format(found.names[1], number_text(found.numerical[row][column]:item()),
      found.names[2], number_text(found.computed[row][column]:item())),
    ("largest absolute difference %s, largest relative difference %s"):format(
      number_text(found.off:max():item()), number_text(relative:max():item())),
    ("%d of %d elements differ by more than %s + %s * |%s|"):format(
      found.over:gt(0):sum():item(), found.off:numel(), number_text(atol), number_text(rtol),
      found.names[1]),
  }
  if found.off:numel() <= SHOWN then
    for i, matrix in ipairs { found.numerical, found.computed } do
      lines[#lines + 1] = ("%s Jacobian (a row for each element of the input):\n%s")
        :format(found.names[i], tostring(matrix))
    end
  end
  return table.concat(lines, "\n  ")
end

--- What is wrong with `computed` beside `numerical`, both `[input][part]`, or nil.
---@param case table
---@param parts table[]
---@param numerical Tensor[][]
---@param computed Tensor[][]
---@param names string[] what the two are called
---@param given {atol: number, rtol: number}
---@return string?
function mismatch.find(case, parts, numerical, computed, names, given)
  local most, found = 0, nil
  for k, position in ipairs(case.checked) do
    for p, part in ipairs(parts) do
      local a, b = numerical[k][p], computed[k][p]
      local over, at, off, all = worst(a, b, given.atol, given.rtol)
      if over > most then
        most = over
        found = { part = part, input = case.inputs[position], position = position, at = at,
          off = off, over = all, width = part.shape:numel(), numerical = a, computed = b,
          names = names }
      end
    end
  end
  return found and description(found, given.atol, given.rtol)
end

--- Whether two tensors are the same within the tolerances.
---@param a Tensor
---@param b Tensor
---@param given {atol: number, rtol: number}
---@return boolean
function mismatch.close(a, b, given)
  return ml.allclose(a:detach(), b:detach(), { rtol = given.rtol, atol = given.atol })
end

return mismatch
