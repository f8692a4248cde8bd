-- tensor/ops/gen/parse.lua: reads the op rows of tensor/ops/*.lua into checked tables.
-- A parsed row has: name, family, kind, args {type, name, default, info, written}, results {type,
-- name}, dtypes (list of set names), grads {args, expression, line}, path and line of the row,
-- lua_name (what scripts call, as "linalg.svd"), alias (a list), meanings (the field `args`: what
-- each argument of the public call is), first (the row that it is an overload of), and the other
-- fields as written.
-- Errors say the file and the line of the row.

local cpptext = require "tensor.ops.gen.cpptext"
local dtypes = require "tensor.ops.gen.dtypes"
local lua_signature = require "tensor.ops.gen.lua_signature"
local types = require "tensor.ops.gen.types"

local parse = {}

local kinds = {}
for name in ("pointwise structured update allocating view composite"):gmatch "%a+" do
  kinds[name] = true
end

-- What a row may say. docs/op-table.md has what each means and why it is there, which a test compares.
parse.fields = {}
for name in ([[kind dtypes grad differentiable
    doc args shapes formula errors source example gives sample torch check nodiff random inplace meta method func
    cpu_only draws overload_of int_to_float result clone mixed functor constant chooses
    keeps_dtype autocast gather out divides internal alias module slow exception
    lua_name makes forms vmap linear steady]]):gmatch "[%a_]+" do
  parse.fields[name] = true
end

-- What `exception` may say of a pointwise op: the field of PointwiseOp that PyTorch's rule for one op is.
parse.exceptions = { row_major = true, refuses_bool = true, byte_mask = true }

-- The policies that a row may name, and their AutocastPolicy.
parse.autocast_policies = { lower_precision = "LowerPrecision", float32 = "Float32", promote = "Promote" }

local function fail(format, ...) error(format:format(...), 0) end

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

local function parse_argument(text)
  local declaration, default = text:match "^([^=]-)%s*=%s*(.+)$"
  local type, name = (declaration or text):match "^(%S+)%s+([%a_][%w_]*)$"
  if not type then fail("cannot read argument '%s'", text) end
  local plain, marks = type:gsub("!", "")
  local info = types.argument(plain)
  if marks > 0 and (not info.tensor or info.operand) then
    fail("argument '%s' is marked as written, but is no tensor", name)
  end
  return { type = plain, name = name, default = default, info = info, written = marks > 0 }
end

local function parse_results(text, row)
  local inside = text:match "^%((.*)%)$"
  if not inside then
    local name = row.arg.y and "result" or "y"
    return { { type = text, name = name, cpp = types.result(text) } }
  end
  local results = {}
  for _, part in ipairs(split(inside)) do
    local type, name = part:match "^(%S+)%s+([%a_][%w_]*)$"
    if not type then fail("cannot read result '%s'", part) end
    results[#results + 1] = { type = type, name = name, cpp = types.result(type) }
  end
  return results
end

local function check_argument(row, field, name)
  if not row.arg[name] then fail("%s for '%s', which is no argument", field, name) end
end

local function parse_grads(row)
  local grads = {}
  for key, expression in pairs(row.grad or {}) do
    local names = split(key)
    for _, name in ipairs(names) do check_argument(row, "gradient", name) end
    grads[#grads + 1] = { args = names, expression = expression }
  end
  table.sort(grads, function(a, b) return row.arg[a.args[1]].position < row.arg[b.args[1]].position end)
  return grads
end

-- An internal op has no name that scripts call, so it is neither a function nor a method.
local function hide_internal(row)
  if row.internal == nil then return end
  if row.internal ~= true then fail("'internal' is true or left out, not %s", tostring(row.internal)) end
  for _, field in ipairs { "method", "func", "meta", "overload_of", "alias", "module", "lua_name", "forms" } do
    if row[field] ~= nil then fail("an internal op has no '%s'", field) end
  end
  row.method, row.func = false, false
end

-- The names by which scripts call the op: its own, which an op of a module has there only, and
-- others. Those of an overload are the first form's.
local function name_for_scripts(row)
  row.lua_name, row.alias = row.lua_name or row.name, row.alias or {}
  if row.overload_of and #row.alias > 0 then fail "an overload has no 'alias' of its own" end
  for _, alias in ipairs(row.alias) do
    if not alias:find "^[%a_][%w_.]*$" then fail("cannot read alias '%s'", alias) end
  end
  if not row.module then return end
  local rest = row.name:match("^" .. row.module .. "_(.+)$")
  if not rest then fail("an op of module '%s' is named %s_...", row.module, row.module) end
  row.lua_name, row.method = row.module .. "." .. rest, false
end

-- The texts of a row for people: strings, and a string for each argument that a script can give.
local function check_texts(row)
  for _, field in ipairs { "doc", "shapes", "formula", "errors", "source", "example", "gives" } do
    if row[field] ~= nil and type(row[field]) ~= "string" then fail("'%s' is no string", field) end
  end
  if row.gives and not row.example then fail "'gives' without an 'example'" end
  local known = {}
  for _, arg in ipairs(lua_signature.arguments(row)) do known[arg.name] = true end
  for name, meaning in pairs(row.meanings) do
    if not known[name] then fail("a text for '%s', which is no argument", tostring(name)) end
    if type(meaning) ~= "string" then fail("the text of argument '%s' is no string", name) end
  end
end

local function words(text)
  local out = {}
  for word in text:gmatch "[^%s+]+" do out[#out + 1] = word end
  return out
end

local function camel(name)
  return (("_" .. name):gsub("_+(%w)", string.upper))
end

-- How many lists and how many single tensors the op writes to.
local function written_arguments(row)
  local lists, tensors = 0, 0
  for _, arg in ipairs(row.args) do
    if arg.written and arg.info.list then lists = lists + 1
    elseif arg.written then tensors = tensors + 1 end
  end
  return lists, tensors
end

-- That the fields of a row agree with its signature and with each other.
local function check_fields(row)
  if not kinds[row.kind] then fail("unknown kind '%s'", row.kind) end
  if not row.doc then fail "no doc" end
  if row.kind == "update" and not (row.args[1] and row.args[1].written) then
    fail "an update writes its first argument, so it is a 'Tensor!'"
  end
  if (row.draws ~= nil) ~= (row.random == true and row.kind ~= "composite") then
    fail "'draws' and 'random' go together for an op with a kernel"
  end
  if row.draws and not cpptext.generator(row) then
    fail "draws random numbers, but takes no 'Generator?'"
  end
  local lists, tensors = written_arguments(row)
  if lists > 0 and (tensors > 0 or row.kind ~= "structured" or #row.results > 0) then
    fail "an op that writes to lists is structured, writes to lists alone and has no results"
  elseif #row.results == 0 and lists == 0 then
    fail "an op without results writes to lists"
  end
  for _, set in ipairs(row.dtypes) do
    if not dtypes.sets[set] then fail("unknown set of dtypes '%s'", set) end
  end
  for _, name in ipairs(row.constant or {}) do check_argument(row, "constant", name) end
  if row.steady then check_argument(row, "steady", row.steady) end
  local kernel = row.kind == "structured" or row.kind == "update" or row.kind == "allocating"
  if row.steady and (not kernel or lists > 0) then
    fail "'steady' is for ops with a kernel of their own that write to no lists"
  end
  if row.exception and not (row.kind == "pointwise" and parse.exceptions[row.exception]) then
    fail("unknown exception '%s' of a %s op", tostring(row.exception), row.kind)
  end
  if row.slow and not (row.kind == "pointwise" and table.concat(row.dtypes) == "floating") then
    fail "'slow' is for pointwise ops of floating dtypes"
  end
  local policies = type(row.autocast) == "table" and row.autocast or { host = row.autocast }
  for where, policy in pairs(policies) do
    if where ~= "host" and where ~= "device" then fail("'autocast' is for 'host' or 'device', not '%s'", where) end
    if not parse.autocast_policies[policy] then fail("unknown autocast policy '%s'", policy) end
  end
  if row.vmap and row.kind == "composite" and #row.grads == 0 then
    fail "a composite with 'vmap' wants 'grad': what it is made of is not recorded inside vmap then"
  end
  if row.differentiable ~= nil and (row.differentiable or row.kind ~= "composite" or #row.grads > 0) then
    fail "'differentiable = false' is for a composite without 'grad'"
  end
  local results = {}
  for _, result in ipairs(row.results) do results[result.name] = true end
  for _, name in ipairs(row.nodiff or {}) do
    if not results[name] then fail("nodiff for '%s', which is no result", name) end
  end
end

-- A row whose `doc` is a table, as a function that makes rows takes it, has all its text there: the
-- words, then `args`, `shapes` and the other fields.
local function spread_text(raw)
  if type(raw.doc) ~= "table" then return raw end
  local out = {}
  for key, value in pairs(raw) do out[key] = value end
  for key, value in pairs(raw.doc) do out[key == 1 and "doc" or key] = value end
  return out
end

local function parse_row(raw, family)
  if type(raw) ~= "table" or type(raw[1]) ~= "string" then fail "a row without a signature" end
  raw = spread_text(raw)
  local name, args, results = raw[1]:match "^%s*([%a_][%w_]*)%((.*)%)%s*%->%s*(.-)%s*$"
  if not name then fail("cannot read signature '%s'", raw[1]) end
  local row = {}
  for key, value in pairs(raw) do
    if key ~= 1 and not parse.fields[key] then fail("unknown field '%s'", key) end
    row[key] = value
  end
  row.name, row.family, row.signature, row.camel = name, family, raw[1], camel(name)
  row.meanings = row.args or {}
  row.args, row.arg = {}, {}
  for i, part in ipairs(split(args)) do
    local arg = parse_argument(part)
    if row.arg[arg.name] then fail("two arguments are called '%s'", arg.name) end
    arg.position = i
    row.args[i], row.arg[arg.name] = arg, arg
  end
  hide_internal(row)
  name_for_scripts(row)
  row.results = parse_results(results, row)
  row.dtypes = words(row.dtypes or (row.kind == "view" and "any" or "all"))
  row.grads = parse_grads(row)
  row.nodiff_set = {}
  for _, result in ipairs(row.nodiff or {}) do row.nodiff_set[result] = true end
  check_fields(row)
  check_texts(row)
  row.is_differentiable = #row.grads > 0 or row.kind == "composite" and row.differentiable ~= false
  return row
end

-- Which extra forms a row has.
local function derive_forms(row)
  local first = row.args[1]
  local tensor_first = first and (first.info.leads or first.info.operand)
  -- The raw forms are those of ops without the tape: an in-place or out form that has none stores the
  -- result of the plain one.
  row.raw_inplace_form = tensor_first and ((row.kind == "pointwise" and row.inplace ~= false
    and row.inplace ~= "stored") or row.kind == "update")
  row.inplace_form = row.raw_inplace_form or row.inplace == true or row.inplace == "stored" or row.inplace == "view"
  row.plain_form = not (row.kind == "update" and row.clone == false)
  row.raw_out_form = row.plain_form and #row.results > 0
    and (row.kind == "pointwise" or row.kind == "structured" or row.kind == "allocating")
  for _, result in ipairs(row.results) do
    row.raw_out_form = row.raw_out_form and result.type == "Tensor"
  end
  row.out_form = row.raw_out_form or row.out == true
end

-- The line of the file that is running now: of its outermost function, as rows are also made by
-- functions of the file.
local function current_line(path)
  local line
  local level = 2
  local info = debug.getinfo(level, "Sl")
  while info do
    if info.source == "@" .. path then line = info.currentline end
    level = level + 1
    info = debug.getinfo(level, "Sl")
  end
  return line
end

-- The line where a text of a row stands, at or below the row's first; that one for what is put
-- together when the file runs.
local function line_of(lines, text, first)
  local start = text:match "%S[^\n]*"
  for i = first, #lines do
    if start and lines[i]:find(start, 1, true) then return i end
  end
  return first
end

-- The rows of a family's file, each handed to `add`; its errors are given the file and the line.
local function read_family(root, family, add)
  local path = ("%s/tensor/ops/%s.lua"):format(root, family)
  local lines = {}
  local env = setmetatable({}, { __index = _G })
  env.op = function(raw)
    local line = current_line(path)
    local ok, problem = pcall(function()
      local row = parse_row(raw, family)
      row.path, row.line = path, line
      for _, grad in ipairs(row.grads) do grad.line = line_of(lines, grad.expression, line) end
      derive_forms(row)
      add(row)
    end)
    if not ok then
      local name = type(raw) == "table" and tostring(raw[1]):match "^%s*([%a_][%w_]*)%s*%("
      fail("%s:%d: %s%s", path, line, name and "op " .. name .. ": " or "", problem)
    end
  end
  local chunk, syntax = loadfile(path, "t", env)
  if not chunk then error(syntax, 0) end
  for line in io.lines(path) do lines[#lines + 1] = line end
  chunk()
end

-- Reads every family's rows from `root`/tensor/ops; returns the list of rows in order.
function parse.rows(root, families)
  local rows, by_name = {}, {}
  for _, family in ipairs(families) do
    read_family(root, family, function(row)
      local other = by_name[row.name]
      if other then fail("has a row at %s:%d already", other.path, other.line) end
      by_name[row.name] = row
      rows[#rows + 1] = row
    end)
  end
  for _, row in ipairs(rows) do
    local first = row.overload_of and by_name[row.overload_of]
    if row.overload_of and not first then
      fail("%s:%d: op %s: overload of '%s', which is no op", row.path, row.line, row.name, row.overload_of)
    end
    row.first, row.lua_name = first, (first or row).lua_name
  end
  return rows
end

-- The families, as the build lists them.
function parse.families(root)
  local file = assert(io.open(root .. "/meson.build"))
  local list = file:read("a"):match "op_families = (%b[])"
  file:close()
  local out = {}
  for family in list:gmatch "'([%w_]+)'" do out[#out + 1] = family end
  return out
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
