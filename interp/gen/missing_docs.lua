-- interp/gen/missing_docs.lua: what the texts of public names lack: a summary, the meaning of an
-- argument, shapes where tensors go in or out, an example with its result.
-- usage: lua interp/gen/missing_docs.lua ROOT [FAMILY | MODULE | FILE]...

local missing_docs = {}

local function has_sentence(text) return text and text:find "%a%a+%A+%a" ~= nil end

local function is_tensor_type(kind) return kind:find "%f[%w]Tensor%f[^%w]" ~= nil end

-- Whether tensors go through a function: by its arguments' types, or its results'.
local function takes_tensors(entry)
  for _, param in ipairs(entry.params or {}) do
    if is_tensor_type(param.type) then return true end
  end
  return is_tensor_type(entry.results or "")
end

-- Whether a class is a layer, or another one that is called with tensors.
local function is_layer(entry, by_name)
  while entry do
    if entry.name == "nn.Module" or entry.name == "metrics.Metric" then return true end
    entry = entry.parent and by_name[entry.parent]
  end
  return false
end

local function add_arguments(out, entry)
  local fields = {}
  for _, param in ipairs(entry.params or {}) do fields[param.field_of or ""] = true end
  for _, param in ipairs(entry.params or {}) do
    if (param.text or "") == "" and not fields[param.name] then
      out[#out + 1] = ("argument %s"):format(param.name)
    end
  end
end

local function has_result(examples)
  for _, example in ipairs(examples or {}) do
    if example.gives or example.code:find "%-%- needs %a" or example.code:find "%-%- varies" then return true end
  end
  return false
end

-- What one form of a name lacks.
local function add_form(out, entry, by_name)
  if not has_sentence(entry.doc) then out[#out + 1] = "summary" end
  add_arguments(out, entry)
  local passes = entry.kind == "class" and is_layer(entry, by_name)
    or entry.kind ~= "class" and entry.kind ~= "method" and takes_tensors(entry)
  if passes and #(entry.shapes or {}) == 0 then out[#out + 1] = "shapes" end
end

local kinds = { op = true, ["function"] = true, class = true, method = true }

--- What the text of an entry lacks, in words; an empty list where it is whole.
---@param entry table of the reference
---@param by_name table<string, table>
---@return string[]
function missing_docs.of(entry, by_name)
  local out = {}
  if not kinds[entry.kind] or entry.same_as then return out end
  add_form(out, entry, by_name)
  for _, form in ipairs(entry.more or {}) do add_form(out, form, by_name) end
  if entry.kind ~= "method" and entry.calls and entry.calls[1] and not has_result(entry.examples) then
    out[#out + 1] = "example with its result"
  end
  return out
end

local function is_wanted(entry, wanted)
  for _, word in ipairs(wanted) do
    local inside = entry.name == word or entry.name:sub(1, #word + 1) == word .. "."
    if inside or entry.page == "ops_" .. word or entry.file == word then return true end
  end
  return #wanted == 0
end

local function main(root, wanted)
  package.path = root .. "/?.lua;" .. package.path
  local parse = require "tensor.ops.gen.parse"
  local reference = require "interp.gen.reference"
  local entries = reference.entries(parse.rows(root, parse.families(root)), root)
  local by_name, count = reference.by_name(entries), 0
  for _, entry in ipairs(entries) do
    local lacks = is_wanted(entry, wanted) and missing_docs.of(entry, by_name) or {}
    if #lacks > 0 then
      print(("%s: %s"):format(entry.name, table.concat(lacks, ", ")))
      count = count + 1
    end
  end
  print(("%d texts are not whole"):format(count))
end

if arg and arg[0] and arg[0]:find "missing_docs%.lua$" then
  main(arg[1] or ".", table.move(arg, 2, #arg, 1, {}))
end

return missing_docs
