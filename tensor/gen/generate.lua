-- tensor/gen/generate.lua: the build's entry into the generator.
-- usage: lua generate.lua ROOT OUTDIR FAMILY,FAMILY,... EMITTER=FILE ...
-- EMITTER is a module of tensor/gen, autograd/gen or interp/gen, with :FAMILY for a file of one
-- family: "emit_raw:shape=raw_shape.cpp". A file whose text did not change is not written.

local root, out_dir, family_list = arg[1], arg[2], arg[3]
for _, folder in ipairs { "tensor", "autograd", "interp", "cuda", "tests" } do
  package.path = ("%s/%s/gen/?.lua;"):format(root, folder) .. package.path
end
local parse = require "parse"

local families = {}
for family in family_list:gmatch "[^,]+" do families[#families + 1] = family end
local rows = parse.rows(root, families)

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

for i = 4, #arg do
  local emitter, file = arg[i]:match "^(.-)=(.+)$"
  local module, family = emitter:match "^(.-):(.+)$"
  local text = require(module or emitter)(family and parse.family(rows, family) or rows, family, rows, root)
  write_if_changed(out_dir .. "/" .. file, text)
end
