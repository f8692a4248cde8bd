-- interp/gen/argument_texts.lua: what an argument is, in words: what its row or comment says, or else
-- the text that arguments of its name share.

local common_args = require "tensor.ops.gen.common_args"

local argument_texts = {}

-- The narrowest table that has the name wins.
local function shared(row, arg)
  for _, texts in ipairs { common_args.of_family[row.family] or {}, common_args.of_kind[row.kind] or {},
    common_args.of_type[arg.type] or {}, common_args.everywhere } do
    if texts[arg.name] then return texts[arg.name] end
  end
end

--- The text of an op's argument, or "". An overload shares those of its first form.
---@param row table
---@param arg table
---@return string
function argument_texts.of_op(row, arg)
  local first = row.first
  return row.meanings[arg.name] or first and first.meanings[arg.name] or shared(row, arg) or ""
end

--- The text of an op's argument `out`.
---@param row table
---@return string
function argument_texts.of_out(row)
  if #row.results <= 1 then return row.meanings.out or common_args.everywhere.out end
  local names = {}
  for i, result in ipairs(row.results) do names[i] = result.name end
  return ("the tensors that the results are written to: {%s}"):format(table.concat(names, ", "))
end

--- Gives the parameters of a function that says nothing of them the texts that they share with
--- `original`, the op that it calls, or with all of their name.
---@param params table[]
---@param original? table an entry of the reference
---@param is_layer boolean
function argument_texts.complete(params, original, is_layer)
  local texts = {}
  for _, param in ipairs(original and original.params or {}) do texts[param.name] = param.text end
  for _, param in ipairs(params) do
    if param.text == "" then
      local same = texts[param.name] or param.name == "input" and texts.x
      param.text = is_layer and common_args.of_layer[param.name] or same ~= "" and same
        or common_args.everywhere[param.name] or ""
    end
  end
end

return argument_texts
