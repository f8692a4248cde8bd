-- scripts/gpu_check/report.lua: the table and results.json of what the sections have logged.
-- usage: moonlet report.lua FOLDER, with sections.txt (name, exit status, seconds) and logs

local json = require "moonlet.json"
local system = require "moonlet.system"

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

local sections, emulated = {}, false
for name, status, seconds in read(folder .. "/sections.txt"):gmatch "(%S+) (%d+) (%d+)" do
  sections[#sections + 1] = { name = name, state = STATES[status] or "FAILED",
    seconds = tonumber(seconds), results = results_of(name) }
end

-- PyTorch's numbers stand beside ours.
local torch = {}
for _, section in ipairs(sections) do
  if section.name == "torch" then
    for _, row in ipairs(section.results) do torch[row.name] = row.value end
  end
end

local bad = 0
for _, section in ipairs(sections) do
  print(("%-14s %-12s %4d s"):format(section.name, section.state, section.seconds))
  if section.state ~= "ok" and section.state ~= "skipped" then bad = bad + 1 end
  for _, row in ipairs(section.results) do
    if row.name == "emulated" then emulated = row.value == "true" end
    local other = section.name == "speed" and type(row.value) == "number" and torch[row.name]
    if other then row.torch, row.ratio = other, row.value / other end
    if section.name ~= "torch" then
      print(("    %-44s %14s %s%s"):format(row.name, row.value, row.unit or "",
        other and (" (PyTorch %g, ratio %.2f)"):format(other, row.ratio) or ""))
    end
  end
end
if emulated then print "emulated on the host: nothing here tells of a GPU" end
-- An empty list would read as an object.
for _, section in ipairs(sections) do
  if #section.results == 0 then section.results = nil end
end
local all = json.encode { emulated = emulated, sections = sections }
system.write_file(folder .. "/results.json", all, "gpu_check")
print(("%d sections, %d failed; logs and results.json are in %s"):format(#sections, bad, folder))
os.exit(bad == 0 and 0 or 1, true)
