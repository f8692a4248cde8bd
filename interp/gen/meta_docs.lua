-- interp/gen/meta_docs.lua: reads interp/meta/*.lua, the LuaLS descriptions of what C++ gives to
-- scripts beside the ops, into entries of the reference.

local doc_comments = require "interp.gen.doc_comments"
local signatures = require "interp.gen.signatures"

local meta_docs = {}

-- `Tensor:backward` in a description is the method Tensor.backward; `ml.save` is save.
local function public(name) return (name:gsub("^ml%.", ""):gsub(":", ".")) end

local function owner_of(name) return name:match "^(.*)%.[^.]+$" end

local function function_entry(target, arguments, doc)
  local method = target:find(":", 1, true) ~= nil
  local names = {}
  for name in arguments:gmatch "[%w_%.]+" do names[#names + 1] = name end
  return doc_comments.describe({
    name = public(target), kind = method and "method" or "function", owner = owner_of(public(target)),
    calls = { signatures.call(target, names, doc) }, results = signatures.results(doc),
  }, doc)
end

local function field_entries(out, class, doc)
  for _, field in ipairs(doc.fields) do
    out[#out + 1] = doc_comments.describe({ name = class .. "." .. field.name, kind = "field",
      owner = class, results = field.type .. (field.optional and "?" or ""), calls = {} },
      doc_comments.new(field.text))
  end
end

local function class_entry(out, target, doc)
  local name = target and public(target) or doc.class:gsub("^moonlet%.", "")
  if target == "ml" or (doc.class == "moonlet") then return end
  local kind = name:find "^%l" and "namespace" or "class"
  out[#out + 1] = doc_comments.describe({ name = name, kind = kind, calls = {} }, doc)
  field_entries(out, name, doc)
end

local function read(out, path)
  local lines = doc_comments.lines_of(path)
  for number, line in ipairs(lines) do
    local doc = not line:find "^%-%-%-" and doc_comments.above(lines, number)
    local target, arguments = line:match "^function ([%w_%.:]+)%((.-)%) end"
    local value = line:match "^local ([%w_]+) = " or line:match "^([%w_%.]+) = "
    if target then
      if not doc then error(path .. ":" .. number .. ": no description", 0) end
      out[#out + 1] = function_entry(target, arguments, doc)
    elseif doc and doc.class then
      class_entry(out, value, doc)
    elseif doc and value then
      out[#out + 1] = doc_comments.describe({ name = public(value),
        kind = line:find "= {}" and "namespace" or "constant", owner = owner_of(public(value)),
        calls = {}, results = "" }, doc)
    end
  end
end

--- The entries of the files, in their order.
---@param paths string[]
---@return table[]
function meta_docs.entries(paths)
  local out = {}
  for _, path in ipairs(paths) do read(out, path) end
  return out
end

return meta_docs
