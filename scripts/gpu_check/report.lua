-- scripts/gpu_check/report.lua: the table, results.json and figures.md of what the sections have
-- logged.
-- usage: moonlet report.lua FOLDER, with sections.txt (name, exit status, seconds) and logs

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local json = require "moonlet.json"
local system = require "moonlet.system"
local figures = require "figures_text"

local folder = assert(arg[1], "the folder of the logs")

local function read(path)
  local file = io.open(path)
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

local function results_of(name)
  local out = {}
  for line in read(("%s/%s.log"):format(folder, name)):gmatch "[^\n]+" do
    local what, value, unit = line:match "^result\t([^\t]*)\t([^\t]*)\t([^\t]*)$"
    if what then
      out[#out + 1] = { name = what, value = tonumber(value) or value,
        unit = unit ~= "" and unit or nil }
    end
  end
  return out
end

local STATES = { ["0"] = "ok", ["77"] = "skipped", ["124"] = "out of time",
  ["137"] = "out of time" }
-- Sections whose numbers stand beside ours, and by what they are made.
local PEERS = { torch = "PyTorch", torch_models = "PyTorch", cublas = "cuBLAS" }

local sections, emulated = {}, false
for name, status, seconds in read(folder .. "/sections.txt"):gmatch "(%S+) (%d+) (%d+)" do
  sections[#sections + 1] = { name = name, state = STATES[status] or "FAILED",
    seconds = tonumber(seconds), results = results_of(name) }
end

-- By name: what peers measured, in pairs of who and how much.
local measured = {}
for _, section in ipairs(sections) do
  for _, row in ipairs(PEERS[section.name] and section.results or {}) do
    measured[row.name] = measured[row.name] or {}
    table.insert(measured[row.name], { PEERS[section.name], row.value })
  end
end

-- How many times as fast as each peer: of times the other way round than of rates.
local function compare(row)
  local texts = {}
  for _, peer in ipairs(type(row.value) == "number" and measured[row.name] or {}) do
    local who, value = peer[1], peer[2]
    row.peers = row.peers or {}
    row.peers[who] = { value = value,
      ratio = row.unit == "us" and value / row.value or row.value / value }
    texts[#texts + 1] = ("%s %g, %.2f times as fast"):format(who, value, row.peers[who].ratio)
  end
  return #texts > 0 and (" (%s)"):format(table.concat(texts, "; ")) or ""
end

local bad = 0
for _, section in ipairs(sections) do
  print(("%-14s %-12s %4d s"):format(section.name, section.state, section.seconds))
  if section.state ~= "ok" and section.state ~= "skipped" then bad = bad + 1 end
  for _, row in ipairs(section.results) do
    if row.name == "emulated" then emulated = row.value == "true" end
    if not PEERS[section.name] then
      print(("    %-44s %14s %s%s"):format(row.name, row.value, row.unit or "", compare(row)))
    end
  end
end
if emulated then print "emulated on the host: nothing here tells of a GPU" end
-- An empty list would read as an object.
for _, section in ipairs(sections) do
  if #section.results == 0 then section.results = nil end
end
local all = { emulated = emulated, date = os.date "!%Y-%m-%d", sections = sections }
system.write_file(folder .. "/results.json", json.encode(all), "gpu_check")
system.write_file(folder .. "/figures.md", figures.text(all), "gpu_check")
print(("%d sections, %d failed; logs and results.json are in %s"):format(#sections, bad, folder))
os.exit(bad == 0 and 0 or 1, true)
