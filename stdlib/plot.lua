-- stdlib/plot.lua: charts to look at. Each function returns a figure: `print(figure)` draws it in
-- the terminal, `figure:save "loss.svg"` writes it as SVG or PNG. Data are arrays or tensors.

local axes = require "moonlet.plot.axes"
local drawing = require "moonlet.plot.terminal"
local numbers = require "moonlet.numbers"
local option = require "moonlet.options"
local pictures = require "moonlet.plot.pictures"
local raster = require "moonlet.raster"
local system = require "moonlet.system"
local terminal = require "moonlet.terminal"

local fail, tostring = option.fail, numbers.tostring

local plot = {}

--- What each function of `ml.plot` returns: a chart that can be shown as text and saved as a
--- picture. `print(fig)` shows it too.
---@class moonlet.plot.Figure
local Figure = {}
Figure.__index = Figure
Figure.__name = "plot.Figure"

local kStyle = { "width", "height", "color", "ascii" }

local function check_options(what, options, known)
  local names = table.move(known, 1, #known, 1, {})
  option.check(what, options, table.move(kStyle, 1, #kStyle, #names + 1, names))
  options = options or {}
  for _, key in ipairs { "width", "height" } do
    local value = options[key]
    if value ~= nil and not (math.tointeger(value) and value >= 1 and value <= 10000) then
      fail("%s: %s: wanted an integer from 1 to 10000, got %s", what, key, tostring(value))
    end
  end
  for _, key in ipairs { "labels", "captions", "row_labels", "column_labels" } do
    if options[key] ~= nil and type(options[key]) ~= "table" then
      fail("%s: %s: wanted an array, got %s", what, key, type(options[key]))
    end
  end
  for _, key in ipairs { "min", "max", "x_min", "x_max", "y_min", "y_max" } do
    if options[key] ~= nil and not axes.is_finite(options[key]) then
      fail("%s: %s: wanted a finite number, got %s", what, key, tostring(options[key]))
    end
  end
  return options
end

local function figure(kind, chart, options)
  chart.kind = kind
  for _, key in ipairs { "title", "x_label", "y_label" } do
    if options[key] ~= nil then chart[key] = tostring(options[key]) end
  end
  return setmetatable({ kind = kind, chart = chart, options = options }, Figure)
end

local function pick(first, second, default)
  if first ~= nil then return first end
  if second ~= nil then return second end
  return default
end

--- The figure as text for a terminal, without a last newline. Options override those of the
--- figure: `width` in columns (default: the terminal's, at most 100), `height` of the plot area in
--- rows (16), `color` (default: when stdout is a terminal and NO_COLOR is unset), `ascii`
--- (default: when the locale is not UTF-8).
---@param options? table
---@return string
function Figure:text(options)
  options = check_options("text", options, {})
  local own = self.options
  local style = {
    width = pick(options.width, own.width, math.min(terminal.size() - 1, 100)),
    height = pick(options.height, own.height, 16),
    color = pick(options.color, own.color, terminal.color(1)),
    ascii = pick(options.ascii, own.ascii, not terminal.utf8()),
  }
  style.width = math.max(style.width, 20)
  style.height = math.max(style.height, 3)
  return table.concat(numbers.wrap(drawing[self.kind])(self.chart, style), "\n")
end

Figure.__tostring = function(self) return self:text() end

--- Writes the figure as text to a file (default stdout).
---@param file? file*
---@param options? table as in `Figure:text`
function Figure:show(file, options)
  (file or io.stdout):write(self:text(options), "\n")
end

local function page_of(self, options)
  local size = {
    width = math.max(options.width or 720, 160),
    height = math.max(options.height or 400, 120),
  }
  return numbers.wrap(pictures[self.kind])(self.chart, size)
end

--- The figure as the text of an SVG picture, `width` x `height` pixels (720 x 400).
---@param options? table
---@return string
function Figure:svg(options)
  local page = page_of(self, check_options("svg", options, {}))
  return numbers.wrap(page.svg)(page)
end

--- The figure as the bytes of a PNG picture. Options: those of `Figure:svg`, and `scale` (1), which
--- makes it that much larger with all that is on it. Drawn by cairo: an error without it.
---@param options? table
---@return string
function Figure:png(options)
  options = check_options("png", options, { "scale" })
  local scale = option.number("png", "scale", options.scale or 1, 0.1, 20)
  local why = raster.unavailable()
  if why then fail("png: PNG pictures need cairo, and %s; SVG works without it", why) end
  return page_of(self, options):png(scale)
end

local kFormats = { svg = Figure.svg, png = Figure.png }

--- Writes the figure as the path's extension says: `.svg` or `.png`; SVG when there is none. The
--- file appears whole or not at all.
---@param path string
---@param options? table as in `Figure:svg` and `Figure:png`
function Figure:save(path, options)
  if type(path) ~= "string" then fail("save: wanted a path, got %s", type(path)) end
  local extension = path:match "[^/.][^/]*%.([^./]*)$"
  local make = kFormats[(extension or "svg"):lower()]
  if not make then
    fail("save: '%s': figures are saved as .svg or .png, not as .%s", path, extension)
  end
  system.write_file(path, make(self, options), "save")
end

local function positions(count)
  local list = {}
  for i = 1, count do list[i] = i end
  return list
end

local function one_series(what, data, default_x, label)
  local series
  if type(data) == "table" and not getmetatable(data) and data.y ~= nil then
    series = { y = axes.numbers(data.y, what), label = data.label or label }
    series.x = data.x ~= nil and axes.numbers(data.x, what .. ": x") or default_x
  else
    series = { y = axes.numbers(data, what), x = default_x, label = label }
  end
  series.x = series.x or positions(#series.y)
  if #series.x ~= #series.y then
    fail("%s: x has %d items, y has %d", what, #series.x, #series.y)
  end
  return series
end

-- The series in `data`: one array or tensor, `{ y =, x =, label = }`, an array of such, or a table
-- of them by name (then in alphabetical order).
local function series_of(what, data, options)
  local x = options.x ~= nil and axes.numbers(options.x, what .. ": x") or nil
  local plain = type(data) == "table" and not getmetatable(data) and data.y == nil
  local labels = options.labels or {}
  if plain and next(data) ~= nil and #data == 0 then
    local names, list = {}, {}
    for name in pairs(data) do names[#names + 1] = name end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for i, name in ipairs(names) do list[i] = one_series(what, data[name], x, tostring(name)) end
    return list
  elseif plain and (type(data[1]) == "table" or type(data[1]) == "userdata") then
    local list = {}
    for i, item in ipairs(data) do
      list[i] = one_series(("%s: series %d"):format(what, i), item, x, labels[i])
    end
    return list
  end
  return { one_series(what, data, x, labels[1]) }
end

local function all_integers(arrays)
  for _, array in ipairs(arrays) do
    for _, value in ipairs(array) do
      if axes.is_finite(value) and not math.tointeger(value) then return false end
    end
  end
  return true
end

local kXY = { "title", "x_label", "y_label", "x", "labels", "x_min", "x_max", "y_min", "y_max" }

-- The range of one axis: what the data fill, unless the options say otherwise.
local function range(what, arrays, low, high)
  local smallest, largest = axes.extent(arrays)
  if not smallest then fail("%s: no value is finite", what) end
  low, high = low or smallest, high or largest
  if low > high then fail("%s: the range from %s to %s is empty", what, low, high) end
  return axes.widen(low, high)
end

local function xy(kind, data, options)
  options = check_options(kind, options, kXY)
  local chart = { series = series_of(kind, data, options) }
  local xs, ys = {}, {}
  for i, series in ipairs(chart.series) do xs[i], ys[i] = series.x, series.y end
  chart.x_low, chart.x_high = range(kind, xs, options.x_min, options.x_max)
  chart.y_low, chart.y_high = range(kind, ys, options.y_min, options.y_max)
  -- A chart that nearly reaches zero, as losses do, starts there.
  local near_zero = chart.y_low > 0 and chart.y_low < 0.3 * chart.y_high
  if near_zero and not options.y_min then chart.y_low = 0 end
  chart.x_integers, chart.y_integers = all_integers(xs), all_integers(ys)
  return figure(kind, chart, options)
end

--- A line chart. `data` is an array or tensor of numbers, or several: `{ a, b }`,
--- `{ train = a, test = b }`, or `{ { x = .., y = .., label = ".." }, .. }`. Values that are not
--- finite leave gaps. Options: `title`, `x_label`, `y_label`, `x` (shared positions, default
--- 1, 2, ...), `labels`, `x_min`, `x_max`, `y_min`, `y_max`, `width`, `height`, `color`, `ascii`.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.line(data, options)
  return xy("line", data, options)
end

--- Points: `plot.scatter({ x = xs, y = ys }, options)`. Data and options as for `plot.line`.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.scatter(data, options)
  return xy("scatter", data, options)
end

--- A histogram. Options: `bins` (a count), `min`, `max`, `title`, `x_label`, `y_label`, style.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.histogram(data, options)
  options = check_options("histogram", options,
    { "title", "x_label", "y_label", "bins", "min", "max" })
  local bins = options.bins
  if bins ~= nil and not (math.tointeger(bins) and bins >= 1 and bins <= 10000) then
    fail("histogram: bins: wanted an integer from 1 to 10000, got %s", tostring(bins))
  end
  local values = axes.numbers(data, "histogram")
  local low, high = range("histogram", { values }, options.min, options.max)
  local chart = axes.histogram(values, bins and math.tointeger(bins), low, high)
  chart.x_low, chart.x_high = chart.edges[1], chart.edges[#chart.edges]
  chart.y_low, chart.y_high = 0, math.max(1, table.unpack(chart.counts))
  chart.y_integers = true
  return figure("histogram", chart, options)
end

--- A bar chart of an array with `labels` (default: positions), or of a table of numbers by name.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.bar(data, options)
  options = check_options("bar", options, { "title", "labels" })
  local labels, values = {}, {}
  if type(data) == "table" and not getmetatable(data) and #data == 0 and next(data) ~= nil then
    for name in pairs(data) do labels[#labels + 1] = name end
    table.sort(labels, function(a, b) return tostring(a) < tostring(b) end)
    for i, name in ipairs(labels) do values[i] = data[name] end
    values = axes.numbers(values, "bar")
  else
    values = axes.numbers(data, "bar")
    labels = options.labels or positions(#values)
  end
  if #labels ~= #values then fail("bar: %d labels for %d values", #labels, #values) end
  local chart = { values = values, labels = {} }
  for i, label in ipairs(labels) do chart.labels[i] = tostring(label) end
  local low, high = axes.extent { values }
  if not low then fail("bar: no value is finite") end
  chart.low, chart.high = axes.widen(math.min(low, 0), math.max(high, 0))
  if low >= 0 then chart.low = 0 end
  return figure("bar", chart, options)
end

local function matrix_labels(what, labels, count)
  local texts = {}
  labels = labels or positions(count)
  if #labels ~= count then fail("%s: %d labels for %d classes", what, #labels, count) end
  for i, label in ipairs(labels) do texts[i] = tostring(label) end
  return texts
end

--- A confusion matrix from a square matrix of counts, rows for true classes and columns for
--- predictions. Options: `labels` of the classes, `title`, style. For tensors of n classes the
--- counts are `ml.bincount((truths - 1) * n + guesses, { minlength = n * n }):view(n, n)`.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.confusion(data, options)
  options = check_options("confusion", options, { "title", "labels" })
  local chart = { rows = axes.rows(data, "confusion"), totals = {}, total = 0, correct = 0,
    high = 0 }
  if #chart.rows ~= #chart.rows[1] then
    fail("confusion: wanted a square matrix, got %d x %d", #chart.rows, #chart.rows[1])
  end
  for i, row in ipairs(chart.rows) do
    chart.totals[i] = 0
    for j, count in ipairs(row) do
      if not axes.is_finite(count) or count < 0 then
        fail("confusion: row %d, column %d: wanted a count, got %s", i, j, count)
      end
      chart.totals[i] = chart.totals[i] + count
      chart.high = math.max(chart.high, count)
    end
    chart.total, chart.correct = chart.total + chart.totals[i], chart.correct + row[i]
  end
  chart.labels = matrix_labels("confusion", options.labels, #chart.rows)
  return figure("confusion", chart, options)
end

local function image_of(what, data, options)
  local image = { rows = axes.rows(data, what) }
  local low, high = axes.extent(image.rows)
  image.low, image.high = options.min or low or 0, options.max or high or 1
  if image.low >= image.high then image.high = image.low + 1 end
  return image
end

--- Grey-scale images side by side, each as for `plot.image`; also an (n, h, w) tensor. Options:
--- `captions` (an array), `min`, `max`, `title`, style.
---@param list any[]
---@param options? table
---@return moonlet.plot.Figure
function plot.images(list, options)
  options = check_options("images", options, { "title", "captions", "min", "max" })
  list = axes.to_table(list) or fail("images: wanted an array of images, got %s", type(list))
  if #list == 0 then fail("images: there is no data") end
  local chart = { images = {} }
  for i, data in ipairs(list) do
    chart.images[i] = image_of(("images: image %d"):format(i), data, options)
    local caption = (options.captions or {})[i]
    chart.images[i].caption = caption ~= nil and tostring(caption) or nil
  end
  return figure("images", chart, options)
end

--- A grey-scale image: rows of numbers or an (h, w) or (1, h, w) tensor. Black is `min` and white
--- `max` (default: those of the data). Options: `caption`, `title`, style.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.image(data, options)
  options = check_options("image", options, { "title", "caption", "min", "max" })
  local image = image_of("image", data, options)
  image.caption = options.caption ~= nil and tostring(options.caption) or nil
  return figure("images", { images = { image } }, options)
end

--- A heat map of an (h, w) matrix. Options: `row_labels`, `column_labels`, `min`, `max`, `title`,
--- `x_label`, `y_label`, style. The labels show in SVG.
---@param data any
---@param options? table
---@return moonlet.plot.Figure
function plot.heatmap(data, options)
  options = check_options("heatmap", options,
    { "title", "x_label", "y_label", "min", "max", "row_labels", "column_labels" })
  local chart = image_of("heatmap", data, options)
  if options.row_labels then
    chart.row_labels = matrix_labels("heatmap", options.row_labels, #chart.rows)
  end
  if options.column_labels then
    chart.column_labels = matrix_labels("heatmap", options.column_labels, #chart.rows[1])
  end
  return figure("heatmap", chart, options)
end

plot.Figure = Figure

return option.namespace("plot", plot)
