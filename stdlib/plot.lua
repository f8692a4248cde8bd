-- stdlib/plot.lua: charts in the terminal and as pictures. Each function returns a figure:
-- `print(figure)` draws it in the terminal, `figure:save "loss.svg"` writes it as SVG or PNG. Data
-- are arrays or tensors.

local axes = require "moonlet.plot.axes"
local drawing = require "moonlet.plot.terminal"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local pictures = require "moonlet.plot.pictures"
local raster = require "moonlet.raster"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local terminal = require "moonlet.terminal"

local fail, tostring = options.fail, numbers.tostring

local plot = {}

--- A figure, which each function of `ml.plot` returns: shown as text, saved as a picture.
--- `print(fig)` shows it too.
--- > #ml.plot.line({ 1, 3, 2 }):svg() > 1000
---   true
---@class moonlet.plot.Figure
local Figure = {}
Figure.__index = Figure
Figure.__name = "plot.Figure"

signature.add_type("finite", "a finite number", function(value)
  return axes.is_finite(value) and value or nil
end)
-- Checked by the functions that take it, whose errors say more.
signature.add_type("Data", "an array or a tensor", function(value) return value end, true, true)

local page_size = "int>=1<=10000 width=720, int>=1<=10000 height=400"
local style = "int>=1<=10000? width=nil, int>=1<=10000? height=nil, bool? color=nil, "
  .. "bool? ascii=nil"

-- The reader of a chart's data and options: those given, and the style.
local function declare(name, parameters)
  return signature(("plot.%s(Data data, any? title=nil, %s, %s)"):format(name, parameters, style),
    name)
end

local function figure(kind, chart, given)
  chart.kind = kind
  for _, key in ipairs { "title", "x_label", "y_label" } do
    if given[key] ~= nil then chart[key] = tostring(given[key]) end
  end
  return setmetatable({ kind = kind, chart = chart, options = given }, Figure)
end

local function pick(first, second, default)
  if first ~= nil then return first end
  if second ~= nil then return second end
  return default
end

local read_text = signature(("Figure:text(%s)"):format(style))

--- The figure as text for a terminal, without a last newline. Options override those of the figure.
--- > print(ml.plot.bar({ 3, 1 }):text { width = 30, ascii = true, color = false })
---   1 |######################## 3
---   2 |######## 1
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return string
function Figure:text(...)
  local given, own = read_text:table(...), self.options
  local shown = {
    width = pick(given.width, own.width, math.min(terminal.size() - 1, 100)),
    height = pick(given.height, own.height, 16),
    color = pick(given.color, own.color, terminal.color(1)),
    ascii = pick(given.ascii, own.ascii, not terminal.utf8()),
  }
  shown.width = math.max(shown.width, 20)
  shown.height = math.max(shown.height, 3)
  return table.concat(numbers.wrap(drawing[self.kind])(self.chart, shown), "\n")
end

Figure.__tostring = function(self) return self:text() end

local read_show = signature(("Figure:show(any? file=nil, %s)"):format(style))

--- Writes the figure as text to a file.
--- > file = io.tmpfile()
--- > ml.plot.bar({ 3, 1 }):show(file, { width = 30, ascii = true, color = false })
---@param file? file* an open file; stdout unless given
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
function Figure:show(...)
  local given = read_show:table(...)
  local shown = self:text(given.width, given.height, given.color, given.ascii);
  (given.file or io.stdout):write(shown, "\n")
end

local function page_of(self, width, height)
  local size_of_page = { width = math.max(width, 160), height = math.max(height, 120) }
  return numbers.wrap(pictures[self.kind])(self.chart, size_of_page)
end

local read_svg = signature(("Figure:svg(%s)"):format(page_size))

--- The figure as the text of an SVG picture.
--- > ml.plot.line({ 1, 3, 2 }):svg():match("^<svg")
---   <svg
---@param width? integer width in pixels
---@param height? integer height in pixels
---@return string
function Figure:svg(...)
  local page = page_of(self, read_svg(...))
  return numbers.wrap(page.svg)(page)
end

local read_png = signature(("Figure:png(%s, number>=0.1<=20 scale=1)"):format(page_size))

--- The figure as the bytes of a PNG picture, drawn by cairo; an error without it.
--- > bytes = ml.plot.line({ 1, 3, 2 }):png()
--- > bytes:sub(2, 4)
---   PNG
---@param width? integer width in pixels
---@param height? integer height in pixels
---@param scale? number factor of the size of the picture with all that is on it
---@return string
function Figure:png(...)
  local width, height, scale = read_png(...)
  local why = raster.unavailable()
  if why then fail("png: PNG pictures need cairo, and %s; SVG works without it", why) end
  return page_of(self, width, height):png(scale)
end

local formats = {}

function formats.svg(self, given)
  if given.scale then fail "save: 'scale' is for PNG pictures" end
  return self:svg(given.width, given.height)
end

function formats.png(self, given) return self:png(given.width, given.height, given.scale) end

local read_save = signature(
  ("Figure:save(string path, %s, number>=0.1<=20? scale=nil)"):format(page_size))

--- Saves the figure as the path's extension says, `.svg` or `.png`, or as SVG without one; whole or
--- not at all.
--- > path = os.tmpname() .. ".svg"
--- > ml.plot.line({ 1, 3, 2 }):save(path)
--- > io.open(path):read(4)
---   <svg
---@param path string the file
---@param width? integer width in pixels
---@param height? integer height in pixels
---@param scale? number factor of the size of a PNG picture; 1 unless given
function Figure:save(...)
  local given = read_save:table(...)
  local path = given.path
  local extension = select(2, system.split(path)):match "[^.].*%.([^.]*)$"
  local make = formats[(extension or "svg"):lower()]
  if not make then
    fail("save: '%s': figures are saved as .svg or .png, not as .%s", path, extension)
  end
  system.write_file(path, make(self, given), "save")
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
local function series_of(what, data, given)
  local x = given.x ~= nil and axes.numbers(given.x, what .. ": x") or nil
  local plain = type(data) == "table" and not getmetatable(data) and data.y == nil
  local labels = given.labels or {}
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

-- The range of one axis: what the data fill, unless the options say otherwise.
local function range(what, arrays, low, high)
  local smallest, largest = axes.extent(arrays)
  if not smallest then fail("%s: no value is finite", what) end
  low, high = low or smallest, high or largest
  if low > high then fail("%s: the range from %s to %s is empty", what, low, high) end
  return axes.widen(low, high)
end

local function xy(kind, given)
  local chart = { series = series_of(kind, given.data, given) }
  local xs, ys = {}, {}
  for i, series in ipairs(chart.series) do xs[i], ys[i] = series.x, series.y end
  chart.x_low, chart.x_high = range(kind, xs, given.x_min, given.x_max)
  chart.y_low, chart.y_high = range(kind, ys, given.y_min, given.y_max)
  -- A chart that nearly reaches zero, as losses do, starts there.
  local near_zero = chart.y_low > 0 and chart.y_low < 0.3 * chart.y_high
  if near_zero and not given.y_min then chart.y_low = 0 end
  chart.x_integers, chart.y_integers = all_integers(xs), all_integers(ys)
  return figure(kind, chart, given)
end

local xy_options = "any? x_label=nil, any? y_label=nil, any? x=nil, any[]? labels=nil, "
  .. "finite? x_min=nil, finite? x_max=nil, finite? y_min=nil, finite? y_max=nil"
local read_line = declare("line", xy_options)
local read_scatter = declare("scatter", xy_options)

--- Line chart. Values that are not finite leave gaps.
--- > fig = ml.plot.line({ 1, 3, 2 }, { width = 30, height = 4, ascii = true, color = false })
--- > print(fig:text())
---   3+           *******
---   2+       ****       ********
---    |   ****                   *
---   1+***
---    ++------------+------------+
---     1            2            3
---@param data any an array or tensor of numbers, or several: `{ a, b }`, by name, or `{ x =, y
---   =, label = }`
---@param title? any the title
---@param x_label? any the label of the x axis
---@param y_label? any the label of the y axis
---@param x? any shared positions; 1, 2, ... unless given
---@param labels? any[] a name for each series
---@param x_min? any the least x that is shown; that of the data unless given
---@param x_max? any the greatest x that is shown
---@param y_min? any the least y that is shown
---@param y_max? any the greatest y that is shown
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
function plot.line(...)
  return xy("line", read_line:table(...))
end

--- Scatter plot of points: `plot.scatter({ x = xs, y = ys })`.
--- > points = { x = { 1, 2, 3 }, y = { 1, 3, 2 } }
--- > fig = ml.plot.scatter(points, { width = 30, height = 4, ascii = true, color = false })
--- > print(fig:text())
---   3+             *
---   2+
---    |                          *
---   1+*
---    ++------------+------------+
---     1            2            3
---@param data any an array or tensor of numbers, or several: `{ a, b }`, by name, or `{ x =, y
---   =, label = }`
---@param title? any the title
---@param x_label? any the label of the x axis
---@param y_label? any the label of the y axis
---@param x? any shared positions; 1, 2, ... unless given
---@param labels? any[] a name for each series
---@param x_min? any the least x that is shown; that of the data unless given
---@param x_max? any the greatest x that is shown
---@param y_min? any the least y that is shown
---@param y_max? any the greatest y that is shown
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
function plot.scatter(...)
  return xy("scatter", read_scatter:table(...))
end

local read_histogram = declare("histogram", "any? x_label=nil, any? y_label=nil, "
  .. "int>=1<=10000? bins=nil, finite? min=nil, finite? max=nil")

--- Histogram of numbers.
--- > options = { bins = 3, width = 30, height = 4, ascii = true, color = false }
--- > print(ml.plot.histogram({ 1, 2, 2, 3 }, options):text())
---   2+         #########
---   1+         #########
---    |###########################
---   0+###########################
---    ++------------+------------+
---     1            2            3
---@param data any an array or tensor of numbers
---@param title? any the title
---@param x_label? any the label of the x axis
---@param y_label? any the label of the y axis
---@param bins? integer number of bins; the square root of the count, from 5 to 40, unless given
---@param min? any lower end of the first bin; the least number unless given
---@param max? any upper end of the last bin; the greatest number unless given
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
function plot.histogram(...)
  local given = read_histogram:table(...)
  local values = axes.numbers(given.data, "histogram")
  local low, high = range("histogram", { values }, given.min, given.max)
  local chart = axes.histogram(values, given.bins, low, high)
  chart.x_low, chart.x_high = chart.edges[1], chart.edges[#chart.edges]
  chart.y_low, chart.y_high = 0, math.max(1, table.unpack(chart.counts))
  chart.y_integers = true
  return figure("histogram", chart, given)
end

local read_bar = declare("bar", "any[]? labels=nil")

--- Bar chart.
--- > print(ml.plot.bar({ cat = 3, dog = 1 }, { width = 30, ascii = true, color = false }):text())
---   cat |###################### 3
---   dog |####### 1
---@param data any an array of numbers, or numbers by name
---@param title? any the title
---@param labels? any[] a name for each bar; the positions unless given
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
function plot.bar(...)
  local given = read_bar:table(...)
  local data, labels, values = given.data, {}, {}
  if type(data) == "table" and not getmetatable(data) and #data == 0 and next(data) ~= nil then
    for name in pairs(data) do labels[#labels + 1] = name end
    table.sort(labels, function(a, b) return tostring(a) < tostring(b) end)
    for i, name in ipairs(labels) do values[i] = data[name] end
    values = axes.numbers(values, "bar")
  else
    values = axes.numbers(data, "bar")
    labels = given.labels or positions(#values)
  end
  if #labels ~= #values then fail("bar: %d labels for %d values", #labels, #values) end
  local chart = { values = values, labels = {} }
  for i, label in ipairs(labels) do chart.labels[i] = tostring(label) end
  local low, high = axes.extent { values }
  if not low then fail("bar: no value is finite") end
  chart.low, chart.high = axes.widen(math.min(low, 0), math.max(high, 0))
  if low >= 0 then chart.low = 0 end
  return figure("bar", chart, given)
end

local function matrix_labels(what, labels, count)
  local texts = {}
  labels = labels or positions(count)
  if #labels ~= count then fail("%s: %d labels for %d classes", what, #labels, count) end
  for i, label in ipairs(labels) do texts[i] = tostring(label) end
  return texts
end

local read_confusion = declare("confusion", "any[]? labels=nil")

--- Confusion matrix as a picture, with a row for each true class and a column for each predicted
--- one; `ml.metrics.confusion_matrix` counts it.
--- > counts = ml.metrics.confusion_matrix(ml.tensor { 1, 2, 2 }, ml.tensor { 1, 2, 1 })
--- > print(ml.plot.confusion(counts, { width = 40, ascii = true, color = false }):text())
---   true |  1  2  recall
---   -----+--------------
---      1 |  1  1   50.0%
---      2 |  0  1  100.0%
---   columns are predictions; accuracy 66.67% (2 of 3)
---@param data any a square matrix of counts
---@param title? any the title
---@param labels? any[] the names of the classes
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
function plot.confusion(...)
  local given = read_confusion:table(...)
  local chart = { rows = axes.rows(given.data, "confusion"), totals = {}, total = 0, correct = 0,
    high = 0 }
  if #chart.rows ~= #chart.rows[1] then
    fail("confusion: expected a square matrix, got %d x %d", #chart.rows, #chart.rows[1])
  end
  for i, row in ipairs(chart.rows) do
    chart.totals[i] = 0
    for j, count in ipairs(row) do
      if not axes.is_finite(count) or count < 0 then
        fail("confusion: row %d, column %d: expected a count, got %s", i, j, count)
      end
      chart.totals[i] = chart.totals[i] + count
      chart.high = math.max(chart.high, count)
    end
    chart.total, chart.correct = chart.total + chart.totals[i], chart.correct + row[i]
  end
  chart.labels = matrix_labels("confusion", given.labels, #chart.rows)
  return figure("confusion", chart, given)
end

local function set_range(image, given, arrays)
  local low, high = axes.extent(arrays)
  image.low, image.high = given.min or low or 0, given.max or high or 1
  if image.low >= image.high then image.high = image.low + 1 end
  return image
end

local function matrix_of(what, data, given)
  local image = { rows = axes.rows(data, what) }
  return set_range(image, given, image.rows)
end

-- A grey image, or one of colours, which has its lightness in `rows` (ITU-R BT.601) and the shares
-- of red, green and blue of each pixel in `colors`.
local function image_of(what, data, given)
  local channels = axes.channels(data, what)
  if not channels then return matrix_of(what, data, given) end
  local all, image = {}, { rows = {}, colors = {} }
  for _, rows in ipairs(channels) do table.move(rows, 1, #rows, #all + 1, all) end
  set_range(image, given, all)
  for i, reds in ipairs(channels[1]) do
    image.rows[i], image.colors[i] = {}, {}
    for j, red in ipairs(reds) do
      local green, blue = channels[2][i][j], channels[3][i][j]
      image.rows[i][j] = 0.299 * red + 0.587 * green + 0.114 * blue
      local color = {}
      for c, value in ipairs { red, green, blue } do
        local at = axes.is_finite(value) and axes.fraction(value, image.low, image.high) or 0
        color[c] = math.min(math.max(at, 0), 1)
      end
      image.colors[i][j] = color
    end
  end
  return image
end

local read_images = declare("images", "table? captions=nil, finite? min=nil, finite? max=nil")

--- Images side by side, each as for `plot.image`.
--- > options = { width = 20, ascii = true, color = false }
--- > print(ml.plot.images({ { { 0, 1 }, { 1, 0 } }, { { 1, 0 }, { 0, 1 } } }, options):text())
---     @@  @@
---   @@      @@
---@param data any an array of images, or a tensor
---@param title? any the title
---@param captions? table a caption for each image
---@param min? any the value that is black; the least one unless given
---@param max? any the value that is white; the greatest one unless given
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
---@shape data (n, h, w) or (n, 3, h, w)
function plot.images(...)
  local given = read_images:table(...)
  local list = axes.to_table(given.data)
    or fail("images: expected an array of images, got %s", type(given.data))
  if #list == 0 then fail("images: there is no data") end
  local chart = { images = {} }
  for i, data in ipairs(list) do
    chart.images[i] = image_of(("images: image %d"):format(i), data, given)
    local caption = (given.captions or {})[i]
    chart.images[i].caption = caption ~= nil and tostring(caption) or nil
  end
  return figure("images", chart, given)
end

local read_image = declare("image", "any? caption=nil, finite? min=nil, finite? max=nil")

--- Image: grey from a matrix, or red, green and blue from three.
--- > options = { width = 8, ascii = true, color = false }
--- > print(ml.plot.image({ { 0, 1 }, { 1, 0 } }, options):text())
---     @@
---   @@
---@param data any rows of numbers, or a tensor
---@param title? any the title
---@param caption? any text below the image
---@param min? any the value that is black; the least one unless given
---@param max? any the value that is white; the greatest one unless given
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
---@shape data (h, w), (1, h, w) or (3, h, w)
function plot.image(...)
  local given = read_image:table(...)
  local image = image_of("image", given.data, given)
  image.caption = given.caption ~= nil and tostring(given.caption) or nil
  return figure("images", { images = { image } }, given)
end

local read_heatmap = declare("heatmap", "any? x_label=nil, any? y_label=nil, finite? min=nil, "
  .. "finite? max=nil, any[]? row_labels=nil, any[]? column_labels=nil")

--- Heat map of a matrix.
--- > options = { width = 30, ascii = true, color = false }
--- > print(ml.plot.heatmap({ { 0, 1 }, { 2, 3 } }, options):text())
---     --
---   **@@
---   0 (dark) to 3 (light)
---@param data any rows of numbers, or a tensor
---@param title? any the title
---@param x_label? any the label of the x axis
---@param y_label? any the label of the y axis
---@param min? any the lower end of the colour scale; the least number unless given
---@param max? any the upper end of the colour scale; the greatest number unless given
---@param row_labels? any[] a name for each row
---@param column_labels? any[] a name for each column
---@param width? integer width in columns; the terminal's, at most 100, unless given
---@param height? integer height of the plot area in rows; 16 unless given
---@param color? boolean whether colours are used; where stdout is a terminal and NO_COLOR is
---   unset unless given
---@param ascii? boolean whether only ASCII characters are used; where the locale is not UTF-8
---   unless given
---@return moonlet.plot.Figure
---@shape data (h, w)
function plot.heatmap(...)
  local given = read_heatmap:table(...)
  local chart = matrix_of("heatmap", given.data, given)
  if given.row_labels then
    chart.row_labels = matrix_labels("heatmap", given.row_labels, #chart.rows)
  end
  if given.column_labels then
    chart.column_labels = matrix_labels("heatmap", given.column_labels, #chart.rows[1])
  end
  return figure("heatmap", chart, given)
end

plot.Figure = Figure

return options.namespace("plot", plot)
