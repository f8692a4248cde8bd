-- interp/gen/signatures.lua: how a function is called, as one line, from its doc comment.

local signatures = {}

-- "{ dtype?: string, device?: string }" as "{dtype, device}".
local function names_in(kind)
  local names = {}
  for name in kind:gsub("%b()", ""):gmatch "([%w_]+)%??%s*:" do names[#names + 1] = name end
  return "{" .. table.concat(names, ", ") .. "}"
end

local function argument(name, param)
  if not param then return name end
  if param.type:find "^{" and not param.type:find "^{ *%[" then return names_in(param.type) end
  return param.optional and name .. "=nil" or name
end

--- What a script writes before the brackets: "x:backward", "ml.save".
---@param target string the function as its definition names it
---@return string
function signatures.receiver(target)
  local where = target:gsub("^Tensor:", "x:"):gsub("^Storage:", "s:"):gsub("^Generator:", "g:")
  if not where:find "^%l+:" and not where:find "^ml%." then where = "ml." .. where end
  return where
end

--- "ml.save(path, value, {metadata})". `target` is the function as its definition names it.
---@param target string
---@param names string[]
---@param doc? table
---@return string
function signatures.call(target, names, doc)
  local by_name = {}
  for _, param in ipairs(doc and doc.params or {}) do
    if not param.field_of then by_name[param.name] = param end
  end
  local parts = {}
  for i, name in ipairs(names) do parts[i] = argument(name, by_name[name]) end
  return ("%s(%s)"):format(signatures.receiver(target), table.concat(parts, ", "))
end

--- "Tensor values, Tensor indices"; "" where nothing is said of results.
---@param doc? table
---@return string
function signatures.results(doc)
  local out = {}
  for i, result in ipairs(doc and doc.returns or {}) do
    local kind = result.type:gsub("moonlet%.", "")
    out[i] = result.name and kind ~= result.name and kind .. " " .. result.name or kind
  end
  return table.concat(out, ", ")
end

return signatures
