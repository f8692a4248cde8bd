-- stdlib/plot/terminal.lua: charts as text. Each function takes checked chart data and a style
-- (`width`, `height`, `color`, `ascii`) and returns the lines of the picture.

local axes = require "moonlet.plot.axes"
local Canvas = require "moonlet.plot.canvas"
local terminal = require "moonlet.terminal"

local text = {}

local EIGHTHS = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }
local LEFT_EIGHTHS = { "▏", "▎", "▍", "▌", "▋", "▊", "▉" }
local MAX_LABEL = 24

local function bold(line, style)
  return style.color and "\27[1m" .. line .. "\27[0m" or line
end

local function title_lines(chart, style, indent, width)
  if not chart.title then return {} end
  local title = terminal.pad(terminal.cut(chart.title, width), width, "center")
  return { (" "):rep(indent) .. bold((title:gsub("%s+$", "")), style) }
end

-- For each text row of the plot area the tick label that belongs there.
local function y_labels(chart, rows)
  local labels, widest = {}, 0
  for _, tick in ipairs(axes.ticks(chart.y_low, chart.y_high, math.max(rows // 2, 2),
      chart.y_integers)) do
    local at = axes.fraction(tick.value, chart.y_low, chart.y_high)
    if at <= 1 then
      labels[rows - 1 - math.floor(at * (rows - 1) + 0.5)] = tick.label
      widest = math.max(widest, #tick.label)
    end
  end
  return labels, widest
end

local function x_axis_lines(chart, indent, columns, ascii)
  local rule, labels = {}, {}
  for i = 1, columns do rule[i] = ascii and "-" or "─" end
  local line, free = "", 0
  for _, tick in ipairs(axes.ticks(chart.x_low, chart.x_high, math.max(columns // 10, 1),
      chart.x_integers)) do
    local at = axes.fraction(tick.value, chart.x_low, chart.x_high)
    local column = math.floor(at * (columns - 1) + 0.5)
    local start = math.max(column - #tick.label // 2, 0)
    if at <= 1 and start >= free then
      rule[column + 1] = ascii and "+" or "┬"
      line = line .. (" "):rep(start - #line) .. tick.label
      free = start + #tick.label + 1
    end
  end
  labels[1] = (" "):rep(indent) .. (ascii and "+" or "└") .. table.concat(rule)
  labels[2] = (" "):rep(indent + 1) .. line
  if chart.x_label then
    local label = terminal.pad(terminal.cut(chart.x_label, columns), columns, "center")
    labels[3] = (" "):rep(indent + 1) .. label:gsub("%s+$", "")
  end
  return labels
end

-- Lines of `width` columns at most with a mark and a name per series.
local function legend_lines(chart, style, indent)
  local lines, line, used = {}, "", 0
  for index, series in ipairs(chart.series or {}) do
    if series.label then
      local label = terminal.cut(series.label, MAX_LABEL)
      local mark = Canvas.mark(index, style.ascii)
      local size = terminal.width_of(mark) + 1 + terminal.width_of(label)
      if used > 0 and indent + used + 3 + size > style.width then
        lines[#lines + 1] = (" "):rep(indent) .. line
        line, used = "", 0
      end
      if used > 0 then line, used = line .. "   ", used + 3 end
      line = line .. Canvas.paint(mark, index, style.color) .. " " .. label
      used = used + size
    end
  end
  if used > 0 then lines[#lines + 1] = (" "):rep(indent) .. line end
  return lines
end

local function append(lines, more)
  table.move(more, 1, #more, #lines + 1, lines)
  return lines
end

-- Puts title, axes and legend around the plot area that `draw(columns, rows)` gives.
local function framed(chart, style, draw)
  local rows = style.height
  local labels, indent = y_labels(chart, rows)
  local columns = math.max(style.width - indent - 2, 10)
  local lines = title_lines(chart, style, indent + 1, columns)
  if chart.y_label then lines[#lines + 1] = terminal.cut(chart.y_label, style.width) end
  local area = draw(columns, rows)
  for row = 0, rows - 1 do
    local tick = labels[row]
    local edge = style.ascii and (tick and "+" or "|") or (tick and "┤" or "│")
    local line = terminal.pad(tick or "", indent, "right") .. edge .. area[row + 1]
    lines[#lines + 1] = line:gsub(" +$", "")
  end
  append(lines, x_axis_lines(chart, indent, columns, style.ascii))
  return append(lines, legend_lines(chart, style, indent + 1))
end

local function draw_series(canvas, chart, series, index)
  local last_x, last_y
  for i, y in ipairs(series.y) do
    local x = series.x[i]
    if axes.is_finite(x) and axes.is_finite(y) then
      local px = axes.fraction(x, chart.x_low, chart.x_high) * (canvas.width - 1)
      local py = (1 - axes.fraction(y, chart.y_low, chart.y_high)) * (canvas.height - 1)
      if chart.kind == "line" and last_x then
        canvas:line(last_x, last_y, px, py, index)
      else
        canvas:line(px, py, px, py, index)
      end
      last_x, last_y = px, py
    else
      last_x = nil
    end
  end
end

--- A line chart, or with `kind` "scatter" points.
function text.line(chart, style)
  return framed(chart, style, function(columns, rows)
    local canvas = Canvas.new(columns, rows, style.ascii)
    for index, series in ipairs(chart.series) do draw_series(canvas, chart, series, index) end
    return canvas:render(style.color)
  end)
end

text.scatter = text.line

-- The cell of a column that is filled up to `level` cells, in text row `above` (0 is the lowest).
local function column_cell(level, above, ascii)
  local part = level - above
  if ascii then return part >= 0.5 and "#" or " " end
  if part >= 1 then return "█" end
  local eighth = math.ceil(part * 8)
  return eighth >= 1 and EIGHTHS[eighth] or " "
end

--- Columns for the bins of a histogram.
function text.histogram(chart, style)
  return framed(chart, style, function(columns, rows)
    local lines = {}
    for row = 0, rows - 1 do
      local cells = {}
      for column = 0, columns - 1 do
        local bin = math.min(column * #chart.counts // columns + 1, #chart.counts)
        local level = axes.fraction(chart.counts[bin], chart.y_low, chart.y_high) * rows
        cells[column + 1] = column_cell(level, rows - 1 - row, style.ascii)
      end
      lines[row + 1] = Canvas.paint(table.concat(cells), 1, style.color)
    end
    return lines
  end)
end

local function bar_text(length, ascii)
  local whole = math.floor(length)
  if ascii then return ("#"):rep(math.floor(length + 0.5)) end
  return ("█"):rep(whole) .. (LEFT_EIGHTHS[math.floor((length - whole) * 8)] or "")
end

--- Horizontal bars with labels and values; negative bars go to the left of zero.
function text.bar(chart, style)
  local label_width, value_width = 0, 0
  for i, value in ipairs(chart.values) do
    label_width = math.max(label_width, terminal.width_of(terminal.cut(chart.labels[i], MAX_LABEL)))
    value_width = math.max(value_width, #axes.short(value))
  end
  local columns = math.max(style.width - label_width - value_width - 4, 10)
  local zero = math.floor(axes.fraction(0, chart.low, chart.high) * columns + 0.5)
  local lines = title_lines(chart, style, label_width + 2, columns)
  for i, value in ipairs(chart.values) do
    local left, right = "", ""
    local length = math.abs(axes.fraction(value, chart.low, chart.high)
      - axes.fraction(0, chart.low, chart.high)) * columns
    if axes.is_finite(value) and value >= 0 then
      right = bar_text(length, style.ascii)
    elseif axes.is_finite(value) then
      left = (style.ascii and "#" or "█"):rep(math.floor(length + 0.5))
    end
    lines[#lines + 1] = terminal.pad(terminal.cut(chart.labels[i], MAX_LABEL), label_width, "right")
      .. (style.ascii and " |" or " │")
      .. Canvas.paint(terminal.pad(left, zero, "right") .. right, 1, style.color)
      .. " " .. axes.short(value)
  end
  return lines
end

-- Diagonal cells green, the others redder the larger their share of the row.
local function confusion_cell(cell, row, column, share, style)
  if not style.color or cell:find("^%s*0$") and row ~= column then
    return style.color and "\27[2m" .. cell .. "\27[0m" or cell
  end
  if row == column then return "\27[1;38;5;35m" .. cell .. "\27[0m" end
  local REDS = { 174, 167, 160 }
  local red = REDS[math.min(math.floor(share * 10) + 1, #REDS)]
  return ("\27[38;5;%dm%s\27[0m"):format(red, cell)
end

--- A confusion matrix: rows are true classes, columns predictions, with the recall of each row.
function text.confusion(chart, style)
  local width, label_width = 2, 4
  for i, row in ipairs(chart.rows) do
    label_width = math.max(label_width, terminal.width_of(terminal.cut(chart.labels[i], MAX_LABEL)))
    width = math.max(width, terminal.width_of(terminal.cut(chart.labels[i], 8)))
    for _, count in ipairs(row) do width = math.max(width, #axes.short(count)) end
  end
  local span = #chart.rows * (width + 1)
  local lines = title_lines(chart, style, label_width + 2, span)
  local head = { terminal.pad("true", label_width), style.ascii and " |" or " │" }
  for _, label in ipairs(chart.labels) do
    head[#head + 1] = " " .. terminal.pad(terminal.cut(label, width), width, "right")
  end
  lines[#lines + 1] = bold(table.concat(head) .. "  recall", style)
  lines[#lines + 1] = (style.ascii and "-" or "─"):rep(label_width + 1)
    .. (style.ascii and "+" or "┼") .. (style.ascii and "-" or "─"):rep(span + 8)
  for i, row in ipairs(chart.rows) do
    local parts = { terminal.pad(terminal.cut(chart.labels[i], MAX_LABEL), label_width, "right"),
      style.ascii and " |" or " │" }
    for j, count in ipairs(row) do
      local cell = terminal.pad(axes.short(count), width, "right")
      local share = chart.totals[i] > 0 and count / chart.totals[i] or 0
      parts[#parts + 1] = " " .. confusion_cell(cell, i, j, share, style)
    end
    parts[#parts + 1] = chart.totals[i] > 0
      and ("  %5.1f%%"):format(100 * row[i] / chart.totals[i]) or "       -"
    lines[#lines + 1] = table.concat(parts)
  end
  lines[#lines + 1] = ("columns are predictions; accuracy %s (%s of %s)"):format(
    chart.total > 0 and ("%.2f%%"):format(100 * chart.correct / chart.total) or "-",
    axes.short(chart.correct), axes.short(chart.total))
  return lines
end

local ASCII_RAMP = { " ", ".", ":", "-", "=", "+", "*", "#", "%", "@" }
local BLOCK_RAMP = { " ", "░", "▒", "▓", "█" }

local function level(value, image, steps)
  if not axes.is_finite(value) then return 0 end
  local at = axes.fraction(value, image.low, image.high)
  return math.min(math.max(math.floor(at * steps), 0), steps - 1)
end

-- The code of a pixel's colour: one of 24 greys, or the three bytes of an image's.
local function color_code(image, i, j)
  if not image.colors then return ("5;%d"):format(232 + level(image.rows[i][j], image, 24)) end
  local bytes = {}
  for c, share in ipairs(image.colors[i][j]) do bytes[c] = math.floor(share * 255 + 0.5) end
  return ("2;%d;%d;%d"):format(table.unpack(bytes))
end

-- One image as lines, each a row of it, with two cells per pixel: of shades, or of a colour.
local function row_lines(image, style)
  local ramp, lines = style.ascii and ASCII_RAMP or BLOCK_RAMP, {}
  for i, row in ipairs(image.rows) do
    local cells = {}
    for j, value in ipairs(row) do
      cells[j] = style.color and ("\27[48;%sm  "):format(color_code(image, i, j))
        or ramp[level(value, image, #ramp) + 1]:rep(2)
    end
    lines[i] = table.concat(cells) .. (style.color and "\27[0m" or "")
  end
  return lines
end

-- One image as lines: with colour two pixels per cell (half blocks), without it rows of shades.
local function image_lines(image, style)
  if not style.color then return row_lines(image, style) end
  local lines = {}
  for i = 1, #image.rows, 2 do
    local cells = {}
    local below = image.rows[i + 1]
    for j in ipairs(image.rows[i]) do
      local ground = below and ";48;" .. color_code(image, i + 1, j) or ""
      cells[j] = ("\27[38;%s%sm▀"):format(color_code(image, i, j), ground)
    end
    lines[#lines + 1] = table.concat(cells) .. "\27[0m"
  end
  return lines
end

-- Images of one line of the gallery, side by side with their captions above.
local function gallery_row(images, style, width)
  local lines, height = { "" }, 0
  local pictures = {}
  for i, image in ipairs(images) do
    pictures[i] = image_lines(image, style)
    height = math.max(height, #pictures[i])
    local caption = terminal.cut(image.caption or "", width)
    lines[1] = lines[1] .. terminal.pad(caption, width + 2)
  end
  for row = 1, height do
    local parts = {}
    for i = 1, #images do
      parts[i] = terminal.pad(pictures[i][row] or "", width + 2)
    end
    lines[#lines + 1] = table.concat(parts)
  end
  return lines
end

--- Images, as many side by side as fit.
function text.images(chart, style)
  local width, captions = 0, false
  for _, image in ipairs(chart.images) do
    width = math.max(width, #image.rows[1] * (style.color and 1 or 2))
    if image.caption then
      width = math.max(width, math.min(terminal.width_of(image.caption), MAX_LABEL))
      captions = true
    end
  end
  local per_line = math.max((style.width + 2) // (width + 2), 1)
  local lines = title_lines(chart, style, 0, math.min(per_line, #chart.images) * (width + 2))
  for first = 1, #chart.images, per_line do
    local last = math.min(first + per_line - 1, #chart.images)
    local row = gallery_row(table.move(chart.images, first, last, 1, {}), style, width)
    if not captions then table.remove(row, 1) end
    if first > 1 and captions then lines[#lines + 1] = "" end
    append(lines, row)
  end
  for i, line in ipairs(lines) do lines[i] = line:gsub(" +$", "") end
  return lines
end

-- The rows of a heat map behind their labels, as far as these fit.
local function labelled_rows(chart, image, style)
  local free = math.min(style.width - 2 * #chart.rows[1] - 1, MAX_LABEL)
  local width, lines = 0, row_lines(image, style)
  if free < 1 then return lines end
  for _, label in ipairs(chart.row_labels) do
    width = math.max(width, math.min(terminal.width_of(label), free))
  end
  for i, line in ipairs(lines) do
    lines[i] = terminal.pad(terminal.cut(chart.row_labels[i], free), width, "right") .. " "
      .. line:gsub(" +$", "")
  end
  return lines
end

--- A heat map: an image whose rows may have labels; what is along its sides and the range below.
function text.heatmap(chart, style)
  local image = { rows = chart.rows, low = chart.low, high = chart.high }
  local lines
  if chart.row_labels then
    lines = title_lines(chart, style, 0, math.min(2 * #chart.rows[1], style.width))
    append(lines, labelled_rows(chart, image, style))
  else
    lines = text.images({ title = chart.title, images = { image } }, style)
  end
  local function note(name, value)
    if value then lines[#lines + 1] = terminal.cut(name .. ": " .. value, style.width) end
  end
  note("down", chart.y_label)
  note("across", chart.x_label)
  note("columns", chart.column_labels and table.concat(chart.column_labels, ", "))
  lines[#lines + 1] = ("%s (dark) to %s (light)"):format(axes.short(chart.low),
    axes.short(chart.high))
  return lines
end

return text
