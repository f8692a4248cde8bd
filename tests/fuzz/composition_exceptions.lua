-- tests/fuzz/composition_exceptions.lua: where compositions of derivatives are not compared, and why; and the
-- errors by which a derivative is refused. The sweep prints how often each reason was met.

local exceptions = {}

-- Parts of the errors that say that there is no such derivative.
local REFUSALS = { "has no derivative", "cannot be differentiated again", "inside vmap", "clone it for each sample",
  "has no gradient", "holds infinities or NaN" }

--- The part of the message that says that the derivative is refused, or nil.
function exceptions.refusal(message)
  for _, text in ipairs(REFUSALS) do
    if message:find(text, 1, true) then return text end
  end
end

local function set(names)
  local out = {}
  for name in names:gmatch "%S+" do out[name] = true end
  return out
end

local function is_finite(a) return a - a == 0 end
local function is_regular(at)
  return at.point == "generic" and at.layout ~= "expanded" and at.layout ~= "shared"
end

local REGULAR = set [[det det_grad_A matrix_exp]]  -- decompositions that are smooth everywhere
local OF_VALUES = set [[norm_named linalg_norm linalg_norm_named]]  -- norms made of singular values

-- { reason, whether it holds of a comparison or an error }. `at` is { point, layout }, `what` the
-- comparison; got and want are numbers, or nil for an error.
local ENTRIES = {
  { "of an infinite argument NaN is given, as by PyTorch, where the limit is finite",
    function(_, at, _, got, want)
      return at.point:find "infinit" and got and not (is_finite(got) and is_finite(want))
    end },
  { "matrices that are singular, or of repeated values: their factors have no derivative, as in PyTorch",
    function(case, at)
      return (case.family == "decomposition" and not REGULAR[case.name] or OF_VALUES[case.name])
        and not is_regular(at)
    end },
  { "its row says why differences are not its derivative",
    function(case, _, what) return case.check_grad and what:find "differences" end },
  { "gradients of norms, whose statistics are arguments that do not move with x",
    function(case) return tostring(case.check_grad):find "statistics" end },
  { "a power of 0 with an exponent from 0 to 1, whose first derivative is infinite there",
    function(case, at, _, got, want)
      return (case.name == "pow" or case.name == "float_power") and at.point:find "zero"
        and got and not (is_finite(got) and is_finite(want))
    end },
  { "pinv of a matrix whose rank the tolerance decides: the formula is that of a fixed rank, as PyTorch's",
    function(case) return case.name:find "pinv" end },
  { "nextafter: a difference of the rounding error", function(case) return case.name:find "^nextafter" end },
  { "det_grad_A of a singular matrix: the third derivative of det would need that of singular vectors",
    function(case, at) return case.name == "det_grad_A" and not is_regular(at) end },
  { "binary_cross_entropy_each_grad_x at 0 and 1: its own clamp, whose derivatives cross entropy has no use for",
    function(case, at) return case.name == "binary_cross_entropy_each_grad_x" and at.point ~= "generic" end },
  { "gaussian_nll_loss: variances below eps have the gradient at eps, as PyTorch's",
    function(case, at, what)
      return case.label:lower():find "gaussian_?nll" and at.point ~= "generic" and what:find "differences"
    end },
  { "max_norm writes to the weight",
    function(case) return case.limits_weight end },
  { "the row at padding_idx has no gradient",
    function(case, _, what) return case.name:lower():find "embedding" and what:find "differences" end },
  { "as_strided reads the memory of the leaf, whatever its layout",
    function(case, at) return case.name == "as_strided" and at.layout ~= "plain" end },
  { "of equal greatest distances PyTorch gives each the whole gradient",
    function(case) return case.name:find "[cp]dist" and case.label:find "math.huge" end },
}

--- The reason why a comparison does not count, or nil.
function exceptions.find(case, at, what, got, want)
  for _, entry in ipairs(ENTRIES) do
    if entry[2](case, at, what, got, want) then return entry[1] end
  end
end

--- Prints counts by what was counted, sorted.
function exceptions.print(title, counts)
  local names = {}
  for name in pairs(counts) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do print(("%s: %s: %d"):format(title, name, counts[name])) end
end

return exceptions
