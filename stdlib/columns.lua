-- stdlib/columns.lua: tables as text, and numbers in them with units.

local columns = {}

--- Seconds as milliseconds, "0.125 ms".
---@param seconds number
---@return string
function columns.milliseconds(seconds) return ("%.3f ms"):format(seconds * 1e3) end

local units = { "B", "KiB", "MiB", "GiB", "TiB" }

--- Bytes with the unit that suits them, "1.5 MiB".
---@param bytes number
---@return string
function columns.bytes(bytes)
  local value, unit = bytes, 1
  while math.abs(value) >= 1024 and unit < #units do value, unit = value / 1024, unit + 1 end
  return (unit == 1 and "%d %s" or "%.1f %s"):format(value, units[unit])
end

--- Lines of text in columns as wide as their widest cell. A column is
--- `{ title, function(row) return text end, left = true }`.
---@param rows table[]
---@param shown table[]
---@return string
function columns.aligned(rows, shown)
  local cells, widths = { {} }, {}
  for c, column in ipairs(shown) do cells[1][c] = column[1] end
  for _, row in ipairs(rows) do
    local line = {}
    for c, column in ipairs(shown) do line[c] = column[2](row) end
    cells[#cells + 1] = line
  end
  for _, line in ipairs(cells) do
    for c, text in ipairs(line) do widths[c] = math.max(widths[c] or 0, #text) end
  end
  local out = {}
  for i, line in ipairs(cells) do
    for c, text in ipairs(line) do
      local space = (" "):rep(widths[c] - #text)
      line[c] = shown[c].left and text .. space or space .. text
    end
    out[i] = table.concat(line, "  "):gsub("%s+$", "")
  end
  return table.concat(out, "\n")
end

return columns
