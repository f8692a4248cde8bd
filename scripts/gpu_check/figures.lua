-- scripts/gpu_check/figures.lua: writes what gpu_check measured on a GPU into docs/performance.md.
-- usage: moonlet figures.lua RESULTS.json [DOCUMENT, docs/performance.md unless given]

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. package.path
local json = require "moonlet.json"
local system = require "moonlet.system"
local figures = require "figures_text"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

if not arg[1] then error("figures: the file results.json of a run is expected", 0) end
local all = json.decode(read(arg[1]))
if all.emulated ~= false or not all.sections then
  error(("figures: %s is of no GPU: nothing in it is a figure"):format(arg[1]), 0)
end
local path = arg[2] or here .. "/../../docs/performance.md"
system.write_file(path, figures.put(read(path), all), "figures")
print(("%s: the figures of %s"):format(path, figures.device(all)))
