-- tensor/ops/gen/generate.lua: the build's entry into the generator.
-- usage: lua ROOT/tensor/ops/gen/generate.lua OUTDIR FAMILY,FAMILY,... [--ops=LIST] EMITTER=FILE ...
-- EMITTER is a module of this folder or one named from the root ("interp.gen.emit_stubs"), with
-- :FAMILY for a file of one family: "emit_raw:shape=raw_shape.cpp". A file whose text did not change
-- is not written. LIST is a file of the ops that are wanted (run_list.lua); others are left out.

-- As the build names it, so that the positions of rows in messages can be opened from its folder.
local root = arg[0]:match "^(.*)/tensor/ops/gen/[^/]*$" or "."
local out_dir, family_list = arg[1], arg[2]
package.path = root .. "/?.lua;" .. package.path
local parse = require "tensor.ops.gen.parse"

local run_list = require "tensor.ops.gen.run_list"

local families = {}
for family in family_list:gmatch "[^,]+" do families[#families + 1] = family end
local rows = parse.rows(root, families)
local first_emitter = 3
local list = arg[3]:match "^%-%-ops=(.+)$"
if list then
  run_list.mark(list, rows, root)
  first_emitter = 4
end

local function write_if_changed(path, text)
  local old = io.open(path, "rb")
  if old then
    local same = old:read "a" == text
    old:close()
    if same then return end
  end
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

for i = first_emitter, #arg do
  local emitter, file = arg[i]:match "^(.-)=(.+)$"
  local module, family = emitter:match "^(.-):(.+)$"
  module = module or emitter
  local emit = require(module:find "%." and module or "tensor.ops.gen." .. module)
  local text = emit(family and parse.family(rows, family) or rows, family, rows, root)
  write_if_changed(out_dir .. "/" .. file, text)
end
