-- interp/gen/fill_examples.lua: runs the examples of op rows and doc comments and writes what they
-- print into the sources: the field `gives` behind `example`, and the lines below `--- > code`.
-- usage: moonlet interp/gen/fill_examples.lua ROOT FILE... where FILE is tensor/ops/FAMILY.lua, or a
-- file of stdlib/ or interp/meta/. Where a row takes its example from a variable, the result is
-- printed, to be written by hand.

local root = arg[1]
if not root or not arg[2] then
  io.stderr:write "usage: moonlet interp/gen/fill_examples.lua ROOT FILE...\n"
  os.exit(2)
end
package.path = root .. "/?.lua;" .. package.path
local doc_comments = require "interp.gen.doc_comments"
local op_docs = require "interp.gen.op_docs"
local parse = require "tensor.ops.gen.parse"
local run_examples = require "interp.gen.run_examples"

local MAX_COLUMNS = 100
local failed = false

local function report(...)
  failed = true
  print(string.format(...))
end

local function write_lines(path, lines, old)
  local text = table.concat(lines, "\n") .. "\n"
  if text == table.concat(old, "\n") .. "\n" then return end
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- --- doc comments -----------------------------------------------------------------------------

-- Adds the lines of a comment to `out`, those of results replaced.
local function fill_comment(out, path, lines, first, last)
  local block = table.move(lines, first, last, 1, {})
  local examples = doc_comments.parse(block).examples
  local printed, problem
  if #examples > 0 then printed, problem = run_examples.run(examples) end
  if problem then report("%s:%d: %s", path, first, problem) end
  local at = 1
  for i, example in ipairs(printed and examples or {}) do
    table.move(block, at, example.last, #out + 1, out)
    at = example.last + 1
    if printed[i] and not run_examples.varies(example.code) then
      local start = block[1]:match "^%s*" .. "---"
      for line in (printed[i] .. "\n"):gmatch "(.-)\n" do
        if printed[i] ~= "" then out[#out + 1] = line == "" and start or start .. "   " .. line end
      end
      at = (example.gives_last or example.last) + 1
    end
  end
  table.move(block, at, #block, #out + 1, out)
end

local function fill_comments(path)
  local lines, out = doc_comments.lines_of(path), {}
  local number = 1
  while number <= #lines do
    local last = number
    while lines[last] and lines[last]:find "^%s*%-%-%-" do last = last + 1 end
    if last > number then
      fill_comment(out, path, lines, number, last - 1)
      number = last
    else
      out[#out + 1] = lines[number]
      number = number + 1
    end
  end
  write_lines(path, out, lines)
end

-- --- rows -------------------------------------------------------------------------------------

-- The end of the string that starts at `at`: "...", '...' or [[...]].
local function end_of_string(text, at)
  local level = text:match("^%[(=*)%[", at)
  if level then return select(2, text:find("]" .. level .. "]", at, true)) end
  local quote = text:match("^[\"']", at)
  if not quote then return nil end
  local i = at + 1
  while text:sub(i, i) ~= quote do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
  return i
end

-- Where the string of a field of the row is that starts at `from`, if it is one there.
local function find_field(text, name, from)
  local start, at = text:match("()%f[%w_]" .. name .. "%s*=%s*()", from)
  local last = at and end_of_string(text, at)
  if last then return start, at, last end
end

local function literal(text)
  local short = ("%q"):format(text):gsub("\\\n", "\\n")
  if not text:find "\n" or #short < MAX_COLUMNS - 15 then return short end
  return "[[\n" .. text .. "]]"
end

-- Puts `gives = ...` behind the row's example; false where that is not written in it as a string.
local function fill_row(text, row, gives)
  local from = 1
  for _ = 2, row.line do from = text:find("\n", from, true) + 1 end
  local _, at, last = find_field(text, "example", from)
  if not at or load("return " .. text:sub(at, last))() ~= row.example then return nil end
  local indent = text:sub(1, at):match "\n?([^\n]*)$":match "^%s*"
  local rest = last + 1
  local next_field = text:match("^%s*,%s*()gives%s*=", rest)
  if next_field then
    local _, _, old_last = find_field(text, "gives", next_field)
    if not old_last then return nil end
    rest = old_last + 1
  end
  return text:sub(1, last) .. ",\n" .. indent .. "gives = " .. literal(gives) .. text:sub(rest)
end

local function fill_rows(path, family)
  local rows = parse.rows(root, { family })
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  local old = text
  -- From the end, so that the lines of the rows above stay.
  for i = #rows, 1, -1 do
    local row = rows[i]
    if row.example then
      local printed, problem = run_examples.run { { code = row.example } }
      local gives = printed and printed[1]
      if problem then report("%s:%d: %s: %s", path, row.line, op_docs.name(row), problem) end
      if gives and gives ~= row.gives and not run_examples.varies(row.example) then
        local filled = fill_row(text, row, gives)
        text = filled or text
        if not filled then report("%s:%d: %s: gives = %q", path, row.line, op_docs.name(row), gives) end
      end
    end
  end
  if text ~= old then
    file = assert(io.open(path, "wb"))
    file:write(text)
    file:close()
  end
end

for i = 2, #arg do
  local name = arg[i]:gsub("^%./", "")
  if name:sub(1, #root + 1) == root .. "/" then name = name:sub(#root + 2) end
  local family = name:match "^tensor/ops/([%w_]+)%.lua$"
  if family then
    fill_rows(("%s/%s"):format(root, name), family)
  else
    fill_comments(("%s/%s"):format(root, name))
  end
end
os.exit(not failed)
