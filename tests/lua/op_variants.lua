-- tests/lua/op_variants.lua: arguments of ops changed into what a caller may give by mistake.

local variants = {}

--- A packed list of arguments with another value at position `i`.
function variants.replaced(args, i, value)
  local out = table.move(args, 1, args.n, 1, { n = args.n })
  out[i] = value
  return out
end

--- Other lists of integers: none, one fewer, one more, and each integer changed by each of `changes`.
function variants.of_list(list, changes)
  local out = { {}, table.move(list, 1, #list - 1, 1, {}) }
  for i = 1, #list do
    for _, change in ipairs(changes) do
      local other = table.move(list, 1, #list, 1, {})
      other[i] = other[i] + change
      out[#out + 1] = other
    end
  end
  local longer = table.move(list, 1, #list, 1, {})
  longer[#longer + 1] = 1
  out[#out + 1] = longer
  return out
end

--- Lists of tensors in which one at a time gives way to what `others(t)` lists for it.
function variants.of_tensors(list, others)
  local out = {}
  for k = 1, #list do
    for _, other in ipairs(others(list[k])) do
      local changed = table.move(list, 1, #list, 1, {})
      changed[k] = other
      out[#out + 1] = changed
    end
  end
  return out
end

return variants
