-- tests/lint/op_list.lua: the op table is the only list of ops: no other file names many ops in a
-- row, and every op has a row, a doc and a sample.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

package.path = root .. "/?.lua;" .. package.path
local parse = require "tensor.ops.gen.parse"
local families = {}
for _, path in ipairs(files.list(root)) do
  families[#families + 1] = path:match "^tensor/ops/([%w_]+)%.lua$"
end
local rows = parse.rows(root, families)
local names, problems = {}, {}
for _, row in ipairs(rows) do
  names[row.name] = true
  local callable = row.func ~= false or row.method ~= false or row.internal
  if callable and #(row.sample or {}) == 0 then
    problems[#problems + 1] = ("tensor/ops/%s.lua: op %s has no sample"):format(row.family, row.name)
  end
end

-- Other words for what the reference has, which may be ops.
local SYNONYMS = "stdlib/help/synonyms.lua"

-- A run of this many quoted op names, one after another, is a second list.
local RUN = 8
for _, path in ipairs(files.list(root)) do
  local text = files.is_source(path) and not path:find "^tensor/ops/[%w_]+%.lua$" and not path:find "^tests/"
    and not path:find "^scripts/" and path ~= SYNONYMS and files.read(root, path)
  if text then
    local run, last = 0, 0
    for at, name, stop in text:gmatch '()"([%a_][%w_]*)"()' do
      local near = at - last < 40
      run = names[name] and (near and run + 1 or 1) or 0
      last = stop
      if run == RUN then
        local _, line = text:sub(1, at):gsub("\n", "")
        problems[#problems + 1] = ("%s:%d: a list of op names outside the op table"):format(path, line + 1)
      end
    end
  end
end
if #rows < 100 then problems[#problems + 1] = ("only %d rows found"):format(#rows) end
print(("%d op rows"):format(#rows))
files.finish("op list", problems)
