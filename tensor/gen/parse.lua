-- tensor/gen/parse.lua: reads the op rows of tensor/ops/*.lua into checked tables.
-- A parsed row has: name, family, kind, args {type, name, default, info, written}, results {type,
-- name}, dtypes (list of set names), grads {args, expression}, and the other fields of the row as written.

local cpptext = require "cpptext"
local types = require "types"

local parse = {}

local kinds = {}
for name in ("pointwise structured update allocating view composite"):gmatch "%a+" do
  kinds[name] = true
end

local known_fields = {}
for name in ([[kind dtypes grad doc sample torch check nodiff random inplace meta method func
    no_cuda draws overload_of int_to_float result clone mixed functor constant chooses dtype_of
    keeps_dtype autocast gather out row_major internal]]):gmatch "[%a_]+" do
  known_fields[name] = true
end

local function trim(s) return (s:gsub("^%s+", ""):gsub("%s+$", "")) end

-- Splits at commas that are outside brackets.
local function split(s)
  local parts, depth, start = {}, 0, 1
  for i = 1, #s do
    local c = s:sub(i, i)
    if c:find "[%(%[{<]" then depth = depth + 1
    elseif c:find "[%)%]}>]" then depth = depth - 1
    elseif c == "," and depth == 0 then
      parts[#parts + 1] = trim(s:sub(start, i - 1))
      start = i + 1
    end
  end
  local last = trim(s:sub(start))
  if last ~= "" then parts[#parts + 1] = last end
  return parts
end

local function parse_argument(text, row)
  local declaration, default = text:match "^([^=]-)%s*=%s*(.+)$"
  local type, name = (declaration or text):match "^(%S+)%s+([%a_][%w_]*)$"
  if not type then error(("op %s: cannot read argument '%s'"):format(row.name, text), 0) end
  local plain, marks = type:gsub("!", "")
  local info = types.argument(plain, row.name)
  if marks > 0 and (not info.tensor or info.list or info.operand) then
    error(("op %s: argument '%s' is marked as written, but is no tensor"):format(row.name, name), 0)
  end
  return { type = plain, name = name, default = default, info = info, written = marks > 0 }
end

local function parse_results(text, row)
  local inside = text:match "^%((.*)%)$"
  if not inside then
    local name = row.arg.y and "result" or "y"
    return { { type = text, name = name, cpp = types.result(text, row.name) } }
  end
  local results = {}
  for _, part in ipairs(split(inside)) do
    local type, name = part:match "^(%S+)%s+([%a_][%w_]*)$"
    if not type then error(("op %s: cannot read result '%s'"):format(row.name, part), 0) end
    results[#results + 1] = { type = type, name = name, cpp = types.result(type, row.name) }
  end
  return results
end

local function parse_grads(row)
  local grads = {}
  for key, expression in pairs(row.grad or {}) do
    local names = split(key)
    for _, name in ipairs(names) do
      if not row.arg[name] then
        error(("op %s: gradient for '%s', which is no argument"):format(row.name, name), 0)
      end
    end
    grads[#grads + 1] = { args = names, expression = expression }
  end
  table.sort(grads, function(a, b) return row.arg[a.args[1]].position < row.arg[b.args[1]].position end)
  return grads
end

-- An internal op has no name that scripts call, so it is neither a function nor a method.
local function hide_internal(row)
  if row.internal == nil then return end
  if row.internal ~= true then
    error(("op %s: 'internal' is true or left out, not %s"):format(row.name, tostring(row.internal)), 0)
  end
  for _, field in ipairs { "method", "func", "meta", "overload_of" } do
    if row[field] ~= nil then
      error(("op %s: an internal op has no '%s'"):format(row.name, field), 0)
    end
  end
  row.method, row.func = false, false
end

local function words(text)
  local out = {}
  for word in text:gmatch "[^%s+]+" do out[#out + 1] = word end
  return out
end

local function camel(name)
  return (("_" .. name):gsub("_+(%w)", string.upper))
end

local function parse_row(raw, family)
  local signature = raw[1] or error("a row without a signature in " .. family, 0)
  local name, args, results = signature:match "^([%a_][%w_]*)%((.*)%)%s*%->%s*(.+)$"
  if not name then error("cannot read signature '" .. signature .. "'", 0) end
  for key in pairs(raw) do
    if key ~= 1 and not known_fields[key] then
      error(("op %s: unknown field '%s'"):format(name, key), 0)
    end
  end
  local row = {}
  for key, value in pairs(raw) do row[key] = value end
  row.name, row.family, row.signature, row.camel = name, family, signature, camel(name)
  if not kinds[row.kind] then error(("op %s: unknown kind '%s'"):format(name, row.kind), 0) end
  if not row.doc then error(("op %s has no doc"):format(name), 0) end
  row.args, row.arg = {}, {}
  for i, part in ipairs(split(args)) do
    local arg = parse_argument(part, row)
    arg.position = i
    row.args[i], row.arg[arg.name] = arg, arg
  end
  if row.kind == "update" and not (row.args[1] and row.args[1].written) then
    error(("op %s: an update writes its first argument, so it is a 'Tensor!'"):format(name), 0)
  end
  if (row.draws ~= nil) ~= (row.random == true and row.kind ~= "composite") then
    error(("op %s: 'draws' and 'random' go together for an op with a kernel"):format(name), 0)
  end
  if row.draws and not cpptext.generator(row) then
    error(("op %s draws random numbers, but takes no 'Generator?'"):format(name), 0)
  end
  hide_internal(row)
  row.results = parse_results(trim(results), row)
  row.dtypes = words(row.dtypes or "all")
  row.grads = parse_grads(row)
  row.nodiff_set = {}
  for _, result in ipairs(row.nodiff or {}) do row.nodiff_set[result] = true end
  return row
end

-- Which extra forms a row has.
local function derive_forms(row)
  local first = row.args[1]
  local tensor_first = first and (first.type == "Tensor" or first.type == "Operand")
  -- The raw forms are those of ops without the tape: an in-place or out form that has none stores the
  -- result of the plain one.
  row.raw_inplace_form = tensor_first and ((row.kind == "pointwise" and row.inplace ~= false
    and row.inplace ~= "stored") or row.kind == "update")
  row.inplace_form = row.raw_inplace_form or row.inplace == true or row.inplace == "stored" or row.inplace == "view"
  row.plain_form = not (row.kind == "update" and row.clone == false)
  row.raw_out_form = row.plain_form
    and (row.kind == "pointwise" or row.kind == "structured" or row.kind == "allocating")
  for _, result in ipairs(row.results) do
    row.raw_out_form = row.raw_out_form and result.type == "Tensor"
  end
  row.out_form = row.raw_out_form or row.out == true
end

-- Reads every family's rows from `root`/tensor/ops; returns the list of rows in order.
function parse.rows(root, families)
  local rows, seen = {}, {}
  for _, family in ipairs(families) do
    local path = ("%s/tensor/ops/%s.lua"):format(root, family)
    local env = setmetatable({}, { __index = _G })
    env.op = function(raw)
      local row = parse_row(raw, family)
      if seen[row.name] then error("op " .. row.name .. " has two rows", 0) end
      seen[row.name] = row
      derive_forms(row)
      rows[#rows + 1] = row
    end
    assert(loadfile(path, "t", env))()
  end
  return rows
end

-- The rows of one family.
function parse.family(rows, family)
  local out = {}
  for _, row in ipairs(rows) do
    if row.family == family then out[#out + 1] = row end
  end
  return out
end

return parse
