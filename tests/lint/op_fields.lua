-- tests/lint/op_fields.lua: docs/op-table.md has a row, with a reason, for each field that a row of the op
-- table may have, and for no other; so for the values of `exception`, each of which some row uses.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

package.path = root .. "/?.lua;" .. package.path
local parse = require "tensor.ops.gen.parse"

local path = "docs/op-table.md"
local text = assert(files.read(root, path))
local problems = {}
local function problem(...) problems[#problems + 1] = path .. ": " .. string.format(...) end

local described = {}
local section = assert(text:match "\n## The fields\n(.*)$"):gsub("\n## .*$", "")
for line in (section .. "\n"):gmatch "(.-)\n" do
  local name, meaning, reason = line:match "^| `([%a_]+)` | (.-) | (.-) |$"
  if name then
    if described[name] then problem("field %s is described twice", name) end
    if #meaning < 10 or #reason < 10 then problem("field %s has no meaning or no reason", name) end
    described[name] = meaning
    if not parse.fields[name] then problem("%s is no field of a row", name) end
  elseif line:find "^| `" then
    problem("cannot read the row %s", line)
  end
end
for name in pairs(parse.fields) do
  if not described[name] then problem("no row for the field %s", name) end
end
for name in pairs(parse.exceptions) do
  if not (described.exception or ""):find('`"' .. name .. '"`', 1, true) then
    problem("exception has no word on %s", name)
  end
end

-- A field that no row has is dead.
local used = {}
for _, file in ipairs(files.list(root)) do
  if file:find "^tensor/ops/[^/]+%.lua$" or file == "tensor/ops/gen/pointwise_rows.lua" then
    local rows = assert(files.read(root, file))
    for name in rows:gmatch "([%a_]+) = " do used[name] = true end
    for name in rows:gmatch "%.([%a_]+)" do used[name] = true end
    for name in rows:gmatch 'exception = "([%a_]+)"' do used["exception " .. name] = true end
  end
end
for name in pairs(parse.fields) do
  if not used[name] then problem("no row uses the field %s", name) end
end
for name in pairs(parse.exceptions) do
  if not used["exception " .. name] then problem("no row has the exception %s", name) end
end
files.finish("op fields", problems)
