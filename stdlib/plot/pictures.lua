-- stdlib/plot/pictures.lua: charts as pages. Each function takes checked chart data and a style
-- (`width`, `height` in pixels) and returns the page it has drawn.

local Page = require "moonlet.plot.page"
local axes = require "moonlet.plot.axes"
local terminal = require "moonlet.terminal"

local pictures = {}

local COLORS = { "#2f6db5", "#e07b39", "#3a9a6b", "#c8415b", "#7a5bb0", "#1f9aa8" }
local INK, MUTED, GRID = Page.ink, Page.muted, Page.grid

local function color_of(index)
  return COLORS[(index - 1) % #COLORS + 1]
end

local function draw_title(page, chart)
  if not chart.title then return end
  page:text(page.width / 2, 28, chart.title, { fill = INK, size = 16, bold = true })
end

-- Width of a text in the page's font, roughly.
local function text_width(value)
  return terminal.width_of(value) * 7
end

local function legend(page, chart, box)
  local x, y = box.left, box.top - 12
  for index, series in ipairs(chart.series or {}) do
    if series.label then
      page:rect(x, y - 8, 14, 4, color_of(index), 2)
      page:text(x + 20, y, series.label, { anchor = "start", fill = INK })
      x = x + 36 + text_width(series.label)
    end
  end
end

local function has_legend(chart)
  for _, series in ipairs(chart.series or {}) do
    if series.label then return true end
  end
  return false
end

-- Draws grid, axes, labels and legend and returns the box of the plot area with the maps from
-- values to pixels.
local function frame(page, chart)
  local y_ticks = axes.ticks(chart.y_low, chart.y_high, 6, chart.y_integers)
  local widest = 0
  for _, tick in ipairs(y_ticks) do widest = math.max(widest, text_width(tick.label)) end
  local box = { left = widest + (chart.y_label and 44 or 24), right = page.width - 24 }
  box.top = (chart.title and 44 or 20) + (has_legend(chart) and 22 or 0)
  box.bottom = page.height - (chart.x_label and 52 or 34)
  function box.x(value)
    return box.left + axes.fraction(value, chart.x_low, chart.x_high) * (box.right - box.left)
  end
  function box.y(value)
    return box.bottom - axes.fraction(value, chart.y_low, chart.y_high) * (box.bottom - box.top)
  end
  draw_title(page, chart)
  for _, tick in ipairs(y_ticks) do
    local y = box.y(tick.value)
    page:line(box.left, y, box.right, y, GRID)
    page:text(box.left - 8, y + 4, tick.label, { anchor = "end" })
  end
  for _, tick in ipairs(axes.ticks(chart.x_low, chart.x_high, 8, chart.x_integers)) do
    local x = box.x(tick.value)
    page:line(x, box.bottom, x, box.bottom + 5, MUTED)
    page:text(x, box.bottom + 20, tick.label)
  end
  page:line(box.left, box.bottom, box.right, box.bottom, MUTED)
  local middle = (box.top + box.bottom) / 2
  if chart.x_label then
    page:text((box.left + box.right) / 2, page.height - 12, chart.x_label, { fill = INK })
  end
  if chart.y_label then
    page:text(18, middle, chart.y_label, { fill = INK, upright = true })
  end
  legend(page, chart, box)
  return box
end

-- Keeps far-away points of a zoomed chart in the range that viewers can draw.
local function pixel(value)
  return math.min(math.max(value, -1e5), 1e5)
end

local function polyline(page, points, color)
  if #points == 2 then
    page:circle(points[1], points[2], 2.5, color)
  elseif #points > 2 then
    page:polyline(points, color)
  end
end

-- A page on which `draw(page, box, series, color)` has drawn each series, clipped to the axes.
local function series_page(chart, style, draw)
  local page = Page.new(style.width, style.height)
  local box = frame(page, chart)
  page:enter(box.left - 4, box.top - 4, box.right - box.left + 8, box.bottom - box.top + 8)
  for index, series in ipairs(chart.series) do draw(page, box, series, color_of(index)) end
  page:leave()
  return page
end

local function draw_line(page, box, series, color)
  local points = {}
  for i, y in ipairs(series.y) do
    if axes.is_finite(y) and axes.is_finite(series.x[i]) then
      points[#points + 1] = pixel(box.x(series.x[i]))
      points[#points + 1] = pixel(box.y(y))
    else
      polyline(page, points, color)
      points = {}
    end
  end
  polyline(page, points, color)
end

local function draw_points(page, box, series, color)
  for i, y in ipairs(series.y) do
    if axes.is_finite(y) and axes.is_finite(series.x[i]) then
      page:circle(pixel(box.x(series.x[i])), pixel(box.y(y)), 3, color, 0.7)
    end
  end
end

--- A line chart; a value that is not finite leaves a gap.
function pictures.line(chart, style)
  return series_page(chart, style, draw_line)
end

--- Points.
function pictures.scatter(chart, style)
  return series_page(chart, style, draw_points)
end

--- Columns for the bins of a histogram.
function pictures.histogram(chart, style)
  local page = Page.new(style.width, style.height)
  local box = frame(page, chart)
  for i, count in ipairs(chart.counts) do
    local left, right = box.x(chart.edges[i]), box.x(chart.edges[i + 1])
    page:rect(left + 0.5, box.y(count), right - left - 1, box.bottom - box.y(count), color_of(1))
  end
  return page
end

--- Horizontal bars with labels and values.
function pictures.bar(chart, style)
  local widest = 0
  for _, label in ipairs(chart.labels) do widest = math.max(widest, text_width(label)) end
  local top, step = chart.title and 52 or 24, 28
  local page = Page.new(style.width, top + step * #chart.values + 16)
  draw_title(page, chart)
  widest = math.min(widest, style.width / 3)
  local left, right = widest + 32, style.width - 72
  local function x(value)
    return left + axes.fraction(value, chart.low, chart.high) * (right - left)
  end
  for i, value in ipairs(chart.values) do
    local y = top + step * (i - 1)
    page:text(left - 10, y + 15, chart.labels[i], { anchor = "end", fill = INK })
    local last = x(0)
    if axes.is_finite(value) then
      local from, to = math.min(x(0), x(value)), math.max(x(0), x(value))
      page:rect(from, y, to - from, step - 7, color_of(1), 2)
      last = to
    end
    page:text(last + 8, y + 15, axes.short(value), { anchor = "start" })
  end
  page:line(x(0), top - 6, x(0), top + step * #chart.values, MUTED)
  return page
end

-- A scale from near white to deep blue, even to the eye.
local SCALE = { { 247, 250, 253 }, { 198, 219, 239 }, { 107, 164, 210 }, { 40, 104, 170 },
  { 11, 48, 100 } }

local function scale_color(at)
  at = math.min(math.max(at, 0), 1) * (#SCALE - 1)
  local low = math.min(math.floor(at), #SCALE - 2)
  local part, rgb = at - low, {}
  for i = 1, 3 do
    rgb[i] = math.floor(SCALE[low + 1][i] + (SCALE[low + 2][i] - SCALE[low + 1][i]) * part + 0.5)
  end
  return ("#%02x%02x%02x"):format(rgb[1], rgb[2], rgb[3])
end

local function grey(at)
  local value = math.floor(math.min(math.max(at, 0), 1) * 255 + 0.5)
  return ("#%02x%02x%02x"):format(value, value, value)
end

local function mixed(color)
  local bytes = {}
  for c, share in ipairs(color) do bytes[c] = math.floor(share * 255 + 0.5) end
  return ("#%02x%02x%02x"):format(table.unpack(bytes))
end

-- The cells of a matrix; `paint(at)` gives the colour of a fraction of the range. `colors`, if any,
-- are those of an image.
local function cells(page, rows, x, y, size, low, high, paint, colors)
  page:crisp()
  for i, row in ipairs(rows) do
    for j, value in ipairs(row) do
      local fill = axes.is_finite(value)
        and (colors and mixed(colors[i][j]) or paint(axes.fraction(value, low, high))) or "#f3d9dc"
      page:rect(x + (j - 1) * size, y + (i - 1) * size, size, size, fill)
    end
  end
  page:smooth()
end

local function color_bar(page, x, y, height, low, high)
  local STEPS = 32
  for i = 0, STEPS - 1 do
    page:rect(x, y + height * (1 - (i + 1) / STEPS), 12, height / STEPS + 0.5,
      scale_color(i / (STEPS - 1)))
  end
  page:text(x + 18, y + 10, axes.short(high), { anchor = "start" })
  page:text(x + 18, y + height, axes.short(low), { anchor = "start" })
end

local function widest_label(labels)
  local widest = 0
  for _, label in ipairs(labels or {}) do widest = math.max(widest, text_width(label)) end
  return widest
end

--- A heat map with a colour bar; with `counts` the cells carry their numbers.
function pictures.heatmap(chart, style)
  local row_labels, column_labels = chart.row_labels, chart.column_labels
  local left = 24 + widest_label(row_labels) + (chart.y_label and 26 or 0)
  local top = (chart.title and 48 or 20) + (column_labels and 20 or 0) + (chart.x_label and 22 or 0)
  local columns = #chart.rows[1]
  local size = math.max(math.min((style.width - left - 90) / columns, 44), 1)
  local height = size * #chart.rows
  local page = Page.new(style.width, math.ceil(top + math.max(height, 40) + 24))
  draw_title(page, chart)
  cells(page, chart.rows, left, top, size, chart.low, chart.high, scale_color)
  for j, label in ipairs(column_labels or {}) do
    page:text(left + (j - 0.5) * size, top - 8, label)
  end
  for i, label in ipairs(row_labels or {}) do
    page:text(left - 8, top + (i - 0.5) * size + 4, label, { anchor = "end" })
  end
  if chart.x_label then
    page:text(left + columns * size / 2, top - (column_labels and 28 or 8), chart.x_label,
      { fill = INK })
  end
  if chart.y_label then
    page:text(18, top + height / 2, chart.y_label, { fill = INK, upright = true })
  end
  if chart.counts then
    for i, row in ipairs(chart.rows) do
      for j, value in ipairs(row) do
        local dark = axes.fraction(value, chart.low, chart.high) > 0.5
        page:text(left + (j - 0.5) * size, top + (i - 0.5) * size + 4, axes.short(value),
          { fill = dark and "#ffffff" or INK })
      end
    end
  end
  color_bar(page, left + columns * size + 16, top, math.max(height, 40), chart.low, chart.high)
  return page
end

--- A confusion matrix as a heat map with counts.
function pictures.confusion(chart, style)
  return pictures.heatmap({
    title = chart.title, rows = chart.rows, low = 0, high = math.max(chart.high, 1),
    row_labels = chart.labels, column_labels = chart.labels, counts = true,
    x_label = "predicted", y_label = "true",
  }, style)
end

--- Images in a grid, with captions below.
function pictures.images(chart, style)
  local widest, highest = 1, 1
  for _, image in ipairs(chart.images) do
    widest, highest = math.max(widest, #image.rows[1]), math.max(highest, #image.rows)
  end
  local size = math.max(math.min(96 / widest, 12), 1)
  local cell_width = math.max(widest * size, 84) + 16
  local per_line = math.max(math.floor((style.width - 24) / cell_width), 1)
  local cell_height = highest * size + 30
  local top = chart.title and 48 or 16
  local lines = (#chart.images + per_line - 1) // per_line
  local width = math.max(math.min(#chart.images, per_line) * cell_width + 24, 240)
  local page = Page.new(math.ceil(width), math.ceil(top + lines * cell_height + 8))
  draw_title(page, chart)
  for i, image in ipairs(chart.images) do
    local x = 12 + ((i - 1) % per_line) * cell_width + (cell_width - #image.rows[1] * size) / 2
    local y = top + ((i - 1) // per_line) * cell_height
    cells(page, image.rows, x, y, size, image.low, image.high, grey, image.colors)
    if image.caption then
      page:text(x + #image.rows[1] * size / 2, y + #image.rows * size + 16, image.caption,
        { size = 11 })
    end
  end
  return page
end

return pictures
