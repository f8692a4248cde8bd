-- tensor/ops/gen/compute_kinds.lua: the compute dtypes a pointwise row needs loops for, by letter:
-- F(loat), I(nt), C(omplex), in that order.

return function(row)
  local has = {}
  for _, set in ipairs(row.dtypes) do
    if set == "all" or set == "real" or set == "floating" then has.F = true end
    if set == "all" or set == "real" or set == "integral" or set == "boolean" then has.I = true end
    if set == "all" or set == "complex" then has.C = true end
  end
  return (has.F and "F" or "") .. (has.I and "I" or "") .. (has.C and "C" or "")
end
