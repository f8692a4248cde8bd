-- scripts/scaling/predict.lua: from what scripts/scaling/measure.lua has measured with two ranks,
-- predicts steps of training with more of them; files measured with other numbers of ranks are
-- shown beside. docs/scaling.md says how.
--
--     moonlet scripts/scaling/predict.lua two.json four.json
--     moonlet scripts/scaling/predict.lua two.json --alpha-us 20 --gbit 25 --share 0

local ml = require "moonlet"
local json = require "moonlet.json"

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local model = require "model"

local options = ml.args.parser {
  name = "predict.lua",
  summary = "Predicts how long steps of training take with many ranks.",
  { "measured", "string", positional = true, required = true,
    help = "a file of measure.lua with two ranks" },
  { "others", "string", positional = true, many = true,
    help = "files of other numbers of ranks, to compare" },
  { "alpha-us", "number", min = 0, help = "microseconds of a message between machines" },
  { "gbit", "number", min = 0.001,
    help = "Gbit/s of each machine's link; links are as measured unless given" },
  { "share", "number", min = 0, max = 1,
    help = "of a processor that transfers take from the computation; as measured unless given" },
  { "spread", "number", default = 0, min = 0,
    help = "standard deviation of a step's computation, as a part of it: the slowest counts" },
  { "most", "integer", default = 1024, min = 2, help = "ranks" },
}:parse(arg)

local function read(path)
  local file <close> = assert(io.open(path))
  local measured = json.decode(file:read "a")
  if type(measured) ~= "table" or not measured.buckets then
    error(path .. " is no file of measure.lua", 0)
  end
  return measured
end

local measured = read(options.measured)
if measured.ranks ~= 2 then
  error(("%s was measured with %d ranks; two are expected"):format(options.measured,
    measured.ranks), 0)
end
measured.spread = options.spread
local local_link = model.fit(measured.links, 2)
local between = { alpha = options.alpha_us and options.alpha_us * 1e-6 or local_link.alpha,
  beta = options.gbit and 8 / (options.gbit * 1e9) or local_link.beta }

-- Ranks of one machine as they were measured, and one rank on each of many machines.
local function settings(link, per_machine)
  return { link = link, share = options.share or measured.share, processors = measured.processors,
    ranks_per_machine = per_machine }
end

print(("links here: alpha %.1f us, beta %.3f ns per byte (%.2f GB/s); transfers take %.2f of a "
  .. "processor"):format(local_link.alpha * 1e6, local_link.beta * 1e9, 1e-9 / local_link.beta,
  measured.share))
local all = { measured }
for _, path in ipairs(options.others or {}) do all[#all + 1] = read(path) end
table.sort(all, function(a, b) return a.ranks < b.ranks end)
print "\non this machine       predicted      measured      ratio"
for _, each in ipairs(all) do
  local seconds = model.data_parallel(measured, each.ranks, settings(local_link, math.huge))
  print(("%5d ranks %15.2f ms %10.2f ms %10.3f"):format(each.ranks, seconds * 1e3, each.step * 1e3,
    seconds / each.step))
end

print(("\none rank per machine: alpha %.1f us, beta %.3f ns per byte"):format(between.alpha * 1e6,
  between.beta * 1e9))
print " ranks   DistributedDataParallel             fully sharded"
print "            step ms  waits ms  efficiency    step ms  waits ms  efficiency"
local ranks = 1
local base = {}
while ranks <= options.most do
  local words = {}
  for _, name in ipairs { "data_parallel", "sharded" } do
    local seconds, waits = model[name](measured, ranks, settings(between, 1))
    base[name] = base[name] or seconds
    words[#words + 1] = ("%10.2f %9.2f %11.3f"):format(seconds * 1e3, waits * 1e3,
      base[name] / seconds)
  end
  print(("%6d  %s"):format(ranks, table.concat(words)))
  ranks = ranks * 2
end
