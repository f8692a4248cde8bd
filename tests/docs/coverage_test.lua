-- tests/docs/coverage_test.lua: that docs/coverage.md is what docs/coverage.lua writes, and that its
-- table says why for each name that is not there.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../lua/?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local source = os.getenv "MOONLET_SOURCE" or (arg[0]:match "^(.*)/" or ".") .. "/../.."
local coverage = dofile(source .. "/docs/coverage.lua")
local rows = coverage.rows(source)

test("docs/coverage.md is up to date", function()
  local file = assert(io.open(source .. "/docs/coverage.md", "rb"))
  local text = file:read "a"
  file:close()
  local wanted = coverage.page(rows)
  for line in wanted:gmatch "[^\n]+" do
    if not text:find(line, 1, true) then
      error("docs/coverage.md has no line\n" .. line .. "\nWrite it again: moonlet docs/coverage.lua", 0)
    end
  end
  expect.equal(#text, #wanted)
end)

test("a name that is not there says why", function()
  local silent = {}
  for _, row in ipairs(rows) do
    if row.is == "no" and row.why == "" then silent[#silent + 1] = row.area .. "." .. row.name end
  end
  expect.equal(table.concat(silent, " "), "")
end)

harness.run()
