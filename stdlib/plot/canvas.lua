-- stdlib/plot/canvas.lua: a grid of terminal cells to draw on. With UTF-8 a cell holds 2 x 4
-- braille dots; in ASCII mode a cell is one dot, drawn with the mark of its series.

local Canvas = {}
Canvas.__index = Canvas

local BIT = { { 0x01, 0x02, 0x04, 0x40 }, { 0x08, 0x10, 0x20, 0x80 } }
local MARKS = { "*", "o", "+", "x", "#", "@" }

--- Colours of series: numbers of the 256-colour palette that read on dark and light grounds.
Canvas.colors = { 32, 208, 35, 161, 98, 37 }

--- `text` in the colour of series `index`, when `color` is on.
---@param text string
---@param index? integer
---@param color boolean
---@return string
function Canvas.paint(text, index, color)
  if not color or not index then return text end
  return ("\27[38;5;%dm%s\27[0m"):format(Canvas.colors[(index - 1) % #Canvas.colors + 1], text)
end

--- The mark of series `index` in legends.
---@param index integer
---@param ascii boolean
---@return string
function Canvas.mark(index, ascii)
  return ascii and MARKS[(index - 1) % #MARKS + 1] or "━━"
end

---@param columns integer
---@param rows integer
---@param ascii boolean
---@return table canvas
function Canvas.new(columns, rows, ascii)
  local self = setmetatable({ columns = columns, rows = rows, ascii = ascii }, Canvas)
  self.width = ascii and columns or columns * 2
  self.height = ascii and rows or rows * 4
  self.cells, self.series = {}, {}
  return self
end

--- Sets the dot at `x`, `y` (0 is left and top); dots outside are dropped.
---@param x integer
---@param y integer
---@param index integer series
function Canvas:dot(x, y, index)
  if x < 0 or y < 0 or x >= self.width or y >= self.height then return end
  if self.ascii then
    local at = y * self.columns + x
    self.cells[at], self.series[at] = MARKS[(index - 1) % #MARKS + 1], index
    return
  end
  local at = (y // 4) * self.columns + x // 2
  self.cells[at] = (self.cells[at] or 0) | BIT[x % 2 + 1][y % 4 + 1]
  self.series[at] = index
end

-- The part of a segment inside the canvas (Liang and Barsky, 1984), or nil.
local function clip(self, x0, y0, x1, y1)
  local right, bottom = self.width - 1, self.height - 1
  if math.min(x0, x1, y0, y1) >= 0 and math.max(x0, x1) <= right
      and math.max(y0, y1) <= bottom then
    return x0, y0, x1, y1
  end
  local from, to = 0, 1
  local dx, dy = x1 - x0, y1 - y0
  local edges = { { -dx, x0 }, { dx, right - x0 }, { -dy, y0 }, { dy, bottom - y0 } }
  for _, edge in ipairs(edges) do
    local p, q = edge[1], edge[2]
    if p == 0 then
      if q < 0 then return nil end
    elseif p < 0 then
      from = math.max(from, q / p)
    else
      to = math.min(to, q / p)
    end
  end
  if from > to then return nil end
  return x0 + from * dx, y0 + from * dy, x0 + to * dx, y0 + to * dy
end

--- Draws a line between two points in dots, which may be fractional and outside.
function Canvas:line(x0, y0, x1, y1, index)
  x0, y0, x1, y1 = clip(self, x0, y0, x1, y1)
  if not x0 then return end
  local steps = math.ceil(math.max(math.abs(x1 - x0), math.abs(y1 - y0)))
  for i = 0, steps do
    local t = steps == 0 and 0 or i / steps
    self:dot(math.floor(x0 + (x1 - x0) * t + 0.5), math.floor(y0 + (y1 - y0) * t + 0.5), index)
  end
end

--- The rows as texts, each `columns` wide.
---@param color boolean
---@return string[]
function Canvas:render(color)
  local lines = {}
  for row = 0, self.rows - 1 do
    local parts, run, run_series = {}, {}, nil
    local function flush()
      parts[#parts + 1] = Canvas.paint(table.concat(run), run_series, color)
      run = {}
    end
    for column = 0, self.columns - 1 do
      local at = row * self.columns + column
      local cell, series = self.cells[at], self.series[at]
      if series ~= run_series then
        flush()
        run_series = series
      end
      run[#run + 1] = type(cell) == "number" and utf8.char(0x2800 + cell) or cell or " "
    end
    flush()
    lines[#lines + 1] = table.concat(parts)
  end
  return lines
end

return Canvas
