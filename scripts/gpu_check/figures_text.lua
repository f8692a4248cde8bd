-- scripts/gpu_check/figures_text.lua: what gpu_check measured as a section of docs/performance.md,
-- under the device's name: each figure beside the copy, PyTorch or cuBLAS of the same run.

local figures = {}

local SECTIONS = { speed = true, models = true, streams = true }

local function find(all, section, name)
  for _, each in ipairs(all.sections) do
    for _, row in ipairs(each.name == section and each.results or {}) do
      if row.name == name then return row.value end
    end
  end
end

local function beside(row)
  local parts = {}
  for _, who in ipairs { "PyTorch", "cuBLAS" } do
    local peer = row.peers and row.peers[who]
    if peer then parts[#parts + 1] = ("%.2f times as fast as %s"):format(peer.ratio, who) end
  end
  return table.concat(parts, ", ")
end

--- The name of the device that was measured.
---@param all table results.json
---@return string
function figures.device(all) return find(all, "versions", "cuda:0") or "no device" end

--- The section. A figure without anything to compare it with is left out.
---@param all table results.json
---@return string
function figures.text(all)
  local versions = ("Measured by `gpu_check` on %s, with Moonlet %s and cuDNN %s."):format(
    all.date or "an unknown day", find(all, "versions", "moonlet") or "?",
    find(all, "versions", "cuDNN") or "?")
  local lines = { "### " .. figures.device(all), "", versions, "",
    "| what | figure | beside the same run's |", "| --- | --- | --- |" }
  for _, section in ipairs(all.sections) do
    for _, row in ipairs(SECTIONS[section.name] and section.results or {}) do
      local share, text = row.unit == "% of the copy", beside(row)
      local compared = share or text ~= "" or row.name == "copy"
      if type(row.value) == "number" and compared then
        local figure = ("%.4g %s"):format(row.value, row.unit or "")
        lines[#lines + 1] = ("| %s | %s | %s |"):format(row.name, figure, text)
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- A document with the section in the position of an older one of the same device, or behind all
--- else under "## CUDA".
---@param document string
---@param all table results.json
---@return string
function figures.put(document, all)
  local text, title = figures.text(all), "\n### " .. figures.device(all) .. "\n"
  local start = document:find(title, 1, true)
  local from = start or document:find("\n## CUDA\n", 1, true)
  if not from then error("figures: the document has no '## CUDA'", 0) end
  local stop = document:find(start and "\n##" or "\n## ", from + 5) or #document + 1
  local before = document:sub(1, start or stop - 1):gsub("%s+$", "\n\n")
  return before .. text .. document:sub(stop)
end

return figures
