-- tensor/ops/gen/emit_uses.lua: the header that declares the public ops which one C++ file names, and
-- no others, so that a changed row makes only the files that use its op.

local declarations = require "tensor.ops.gen.declarations"

-- The words of C++ text that may call ops: before a bracket, outside comments and strings, no members,
-- nothing of std.
local function words_of(text)
  text = text:gsub("//[^\n]*", ""):gsub('"[^"\n]*"', '""'):gsub("std::[%w_]+", "")
  text = text:gsub("%->%s*[%a_][%w_]*", "->"):gsub("%.%s*[%a_][%w_]*", ".")
  local words = {}
  for word in text:gmatch "([%a_][%w_]*)%s*%(" do words[word] = true end
  return words
end

-- `source` is the file's path without its ending.
return function(_, source, all, root)
  local path = source .. ".cpp"
  local file = assert(io.open(("%s/%s"):format(root, path)))
  local words = words_of(file:read "a")
  file:close()
  local out = {}
  for _, row in ipairs(all) do
    local names, texts = declarations.forms(row)
    for _, name in ipairs(names) do
      if words[name] then out[#out + 1] = texts[name] end
    end
  end
  return declarations.header(("// Generated: the public ops that %s uses."):format(path), out)
end
