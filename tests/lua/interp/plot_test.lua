-- tests/lua/interp/plot_test.lua: charts as text and as SVG, their geometry, odd data and file writing.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local plot = require "moonlet.plot"
local axes = require "moonlet.plot.axes"
local terminal = require "moonlet.terminal"

local NAN, INF = 0 / 0, math.huge
local UTF8 = { width = 60, height = 8, color = false, ascii = false }
local ASCII = { width = 60, height = 8, color = false, ascii = true }

-- Something that gives its content the way tensors do.
local function tensor(content)
  return setmetatable({}, { __index = { tolist = function() return content end } })
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  return lines
end

-- Tags must nest and attributes be quoted: enough to find a broken picture without an XML parser.
local function check_svg(text)
  local open = {}
  expect.truthy(utf8.len(text))
  for tag in text:gmatch("<([^>]*)>") do
    local name = tag:match("^/?(%a+)")
    if tag:sub(1, 1) == "/" then
      expect.equal(table.remove(open), name)
    elseif tag:sub(-1) ~= "/" then
      open[#open + 1] = name
    end
    local rest = tag:gsub("[%w:_-]+=\"[^\"<]*\"", ""):gsub("^/?%a+%s*", ""):gsub("/$", "")
    expect.truthy(rest:find("^%s*$"), tag)
  end
  expect.equal(#open, 0)
  expect.falsy(text:find("nan") or text:find("inf"), "a number is not finite")
end

local function all_figures(n)
  local values, matrix = {}, {}
  for i = 1, n do
    values[i] = math.sin(i) * i
    matrix[i] = {}
    for j = 1, n do matrix[i][j] = (i * j) % 7 end
  end
  return {
    line = plot.line({ a = values, b = values }, { title = "T", x_label = "x", y_label = "y" }),
    scatter = plot.scatter({ x = values, y = values, label = "points" }),
    histogram = plot.histogram(values, { bins = 7 }),
    bar = plot.bar(values),
    confusion = plot.confusion(matrix, { title = "C" }),
    image = plot.image(matrix, { caption = "one" }),
    images = plot.images({ matrix, matrix, matrix, matrix }, { captions = { "a", "b" } }),
    heatmap = plot.heatmap(matrix, { row_labels = values }),
  }
end

test("every chart draws as text and as SVG", function()
  for _, n in ipairs { 1, 2, 12 } do
    for name, figure in pairs(all_figures(n)) do
      for _, ascii in ipairs { true, false } do
        local text = figure:text { width = 70, height = 6, color = false, ascii = ascii }
        expect.truthy(utf8.len(text), name)
        if ascii then expect.falsy(text:find("[\128-\255\27]"), name) end
        for _, line in ipairs(lines_of(text)) do
          expect.truthy(terminal.width_of(line) <= 70, name .. ": " .. line)
        end
      end
      local colored = figure:text { width = 70, height = 6, color = true, ascii = false }
      expect.truthy(utf8.len(colored), name)
      check_svg(figure:svg())
    end
  end
end)

test("a line chart in ASCII", function()
  local lines = lines_of(plot.line({ 0, 1, 2, 3, 4 }, { title = "Up" }):text(ASCII))
  expect.truthy(lines[1]:find("^ +Up$"))
  expect.truthy(lines[2]:find("^4%+ +%*+$"), lines[2])
  expect.truthy(lines[9]:find("^0%+%*+$"), lines[9])
  expect.truthy(lines[11]:find("^ +1 +2 +3 +4 +5$"), lines[11])
end)

test("values that are not finite leave gaps", function()
  local figure = plot.line({ 1, 2, NAN, 3, INF, 4, -INF })
  expect.truthy(figure:text(UTF8))
  local svg = figure:svg()
  check_svg(svg)
  local _, polylines = svg:gsub("<polyline", "")
  local _, circles = svg:gsub("<circle", "")
  expect.equal({ polylines, circles }, { 1, 2 })
  check_svg(plot.image({ { 1, NAN }, { INF, 2 } }):svg())
  check_svg(plot.bar({ 1, NAN, -3 }):svg():gsub(">nan<", "><"))
  expect.equal(plot.histogram({ 1, 2, NAN }).chart.left_out, 1)
end)

test("ranges that are constant, huge or tiny", function()
  for _, data in ipairs { { 5 }, { 0, 0 }, { 1e308, -1e308 }, { 1e-320, 0 }, { 1e15, 1e15 + 1 },
    { -3, -3, -3 } } do
    expect.truthy(plot.line(data):text(UTF8))
    check_svg(plot.line(data):svg())
    expect.truthy(plot.histogram(data):text(ASCII))
    expect.truthy(plot.bar(data):text(UTF8))
  end
end)

test("explicit ranges cut what lies outside", function()
  local figure = plot.line({ 0, 1000, 0, 5 }, { y_min = 0, y_max = 10, x_min = 2, x_max = 4 })
  expect.truthy(figure:text(UTF8))
  check_svg(figure:svg())
end)

test("ticks lie at round numbers", function()
  local function labels(low, high, count)
    local list = {}
    for i, tick in ipairs(axes.ticks(low, high, count)) do list[i] = tick.label end
    return list
  end
  expect.equal(labels(0, 1, 5), { "0.0", "0.2", "0.4", "0.6", "0.8", "1.0" })
  expect.equal(labels(-1, 1, 4), { "-1.0", "-0.5", "0.0", "0.5", "1.0" })
  expect.equal(labels(3, 98, 5), { "20", "40", "60", "80" })
  expect.equal(labels(0, 4e6, 2), { "0", "2e6", "4e6" })
end)

test("histogram counts", function()
  local result = axes.histogram({ 0, 0.5, 1, 1.5, 2, 2 }, 2)
  expect.equal(result.counts, { 2, 4 })
  expect.near(result.edges, { 0, 1, 2 })
end)

test("tensors are data", function()
  expect.equal(plot.line(tensor { 1, 2, 3 }).chart.series[1].y, { 1, 2, 3 })
  expect.equal(#plot.line({ tensor { 1, 2 }, { 3, 4 } }, { labels = { "a", "b" } }).chart.series, 2)
  expect.equal(plot.image(tensor { { { 1, 2 }, { 3, 4 } } }).chart.images[1].rows,
    { { 1, 2 }, { 3, 4 } })
  expect.equal(#plot.images(tensor { { { 1, 2 } }, { { 3, 4 } } }).chart.images, 2)
  expect.equal(plot.confusion(tensor { { 3, 1 }, { 0, 4 } }).chart.correct, 7)
end)

test("a confusion matrix shows recall and accuracy", function()
  local figure = plot.confusion({ { 3, 1 }, { 0, 0 } }, { labels = { "cat", "dog" } })
  local text = figure:text(ASCII)
  expect.truthy(text:find("cat |   3   1   75.0%", 1, true), text)
  expect.truthy(text:find("dog |   0   0       -", 1, true), text)
  expect.truthy(text:find("accuracy 75.00% (3 of 4)", 1, true), text)
end)

test("an image in ASCII shades", function()
  expect.equal(plot.image({ { 0, 9 }, { 9, 0 } }):text(ASCII), "  @@\n@@")
  local colored = plot.image({ { 0, 1 }, { 1, 0 } }):text { color = true, ascii = false }
  expect.equal(colored, "\27[38;5;232;48;5;255m▀\27[38;5;255;48;5;232m▀\27[0m")
end)

test("an image of colours", function()
  local red = { { { 255, 0 } }, { { 0, 255 } }, { { 0, 255 } } }   -- one red pixel, one cyan
  local figure = plot.image(red)
  expect.truthy(figure:svg():find('fill="#ff0000"', 1, true))
  expect.truthy(figure:svg():find('fill="#00ffff"', 1, true))
  check_svg(figure:svg())
  expect.equal(figure:text { color = true, ascii = false },
    "\27[38;2;255;0;0m▀\27[38;2;0;255;255m▀\27[0m")
  expect.equal(figure:text(ASCII), "::##")
  expect.truthy(plot.images({ red, red }, { captions = { "a", "b" } }):text(UTF8))
  local ml = require "moonlet"
  expect.equal(plot.images(ml.tensor { red, red }):svg(), plot.images({ red, red }):svg())
  expect.error(function() plot.image { { { 1 } }, { { 1 } }, { { 1, 2 } } } end,
    "channel 3 is 1 x 2, channel 1 is 1 x 1")
  expect.error(function() plot.image(ml.ones(2, 2, 2)) end, "row 1: item 1 is a table")
end)

test("a heat map's labels in the terminal", function()
  local chart = plot.heatmap({ { 0, 9 }, { 9, 0 } }, { row_labels = { "cat", "a" },
    column_labels = { "x", "y" }, x_label = "time", y_label = "kind", title = "T" })
  expect.equal(lines_of(chart:text(ASCII)), { " T", "cat   @@", "  a @@", "down: kind", "across: time",
    "columns: x, y", "0 (dark) to 9 (light)" })
  local colored = lines_of(chart:text { width = 60, color = true, ascii = false })
  expect.equal(colored[3], "  a \27[48;5;255m  \27[48;5;232m  \27[0m")
  local row = {}
  for j = 1, 40 do row[j] = j end
  for _, line in ipairs(lines_of(plot.heatmap({ row }, { row_labels = { "long label" } }):text {
    width = 84, color = false, ascii = true })) do
    expect.truthy(#line <= 84)
  end
end)

test("texts are escaped in SVG", function()
  local svg = plot.line({ ["<b> & \"c\""] = { 1, 2 } }, { title = "a\0<x>\255" }):svg()
  expect.truthy(svg:find("&lt;b&gt; &amp; &quot;c&quot;", 1, true))
  check_svg(svg)
end)

test("SVG does not depend on the locale", function()
  local svg = harness.run_with_decimal_commas [[
    print(require('moonlet.plot').line({ 1, 2, 4 }, { width = 333 }):svg())
  ]]
  check_svg(svg)
  local points = svg:match 'points="([^"]*)"'
  expect.truthy(points and points:find "%.%d", svg)
  for pair in points:gmatch "%S+" do expect.truthy(pair:find "^[%d.]+,[%d.]+$", pair) end
end)

-- Width and height in the header of PNG bytes, whose start and end are checked.
local function png_size(bytes)
  expect.equal(bytes:sub(1, 8), "\137PNG\r\n\26\n")
  expect.equal(bytes:sub(-8, -5), "IEND")
  local width, height = string.unpack(">I4I4", bytes, 17)
  return { width, height }
end

test("every chart is drawn as PNG", function()
  local why = require("moonlet.raster").unavailable()
  if why then
    expect.error(function() plot.line({ 1, 2 }):png() end, "png: PNG pictures need cairo")
    harness.skip(why)
  end
  local charts = {
    plot.line({ train = { 3, 2, 0 / 0, 1 }, test = { 4 } }, { title = "ä <b>\255", y_label = "y" }),
    plot.scatter { x = { 1, 2 }, y = { 2, 1e300 } }, plot.histogram { 1, 2, 2, 3 },
    plot.bar { a = 1, b = -2 }, plot.confusion { { 3, 1 }, { 0, 2 } },
    plot.images { { { 0, 1 }, { 1, 0 } } }, plot.heatmap { { 1, 0 / 0 }, { 3, 4 } },
  }
  local seen = {}
  for i, figure in ipairs(charts) do
    local bytes = figure:png { width = 300, height = 200 }
    local size, width = png_size(bytes), figure:svg({ width = 300, height = 200 }):match 'width="(%d+)"'
    expect.equal(size[1], math.tointeger(width), "chart " .. i)
    expect.falsy(seen[bytes], "two charts give one picture")
    seen[bytes] = true
  end
  expect.equal(png_size(charts[1]:png { scale = 2.5 }), { 1800, 1000 })
  expect.equal(png_size(charts[1]:png { width = 10000, scale = 2 }), { 20000, 800 })
  expect.error(function() charts[1]:png { width = 10000, scale = 20 } end, "png: .*too big")
  expect.error(function() charts[1]:png { scale = 0 } end, "'scale' must be a number from 0.1 to 20")
end)

test("the extension chooses the format", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local figure = plot.line { 1, 2 }
  local function saved(name)
    figure:save(folder .. "/" .. name)
    local file <close> = assert(io.open(folder .. "/" .. name, "rb"))
    return file:read "a"
  end
  check_svg(saved "a.svg")
  check_svg(saved "a.b.SVG")
  check_svg(saved "plain")
  check_svg(saved ".hidden")
  for _, name in ipairs { "a.jpg", "a.svg.gz", "a.txt", "a." } do
    expect.error(function() saved(name) end, "plot_test.lua:%d+: save: '.*%" .. name:match "%.[^.]*$"
      .. "': figures are saved as .svg or .png, not as %" .. name:match "%.[^.]*$")
  end
  if not require("moonlet.raster").unavailable() then png_size(saved "a.png") end
  os.execute(("rm -r '%s'"):format(folder))
end)

test("save writes a whole file or none", function()
  harness.with_temp_file(function(path)
    plot.line({ 1, 2 }):save(path)
    local file <close> = assert(io.open(path))
    check_svg(file:read("a"))
  end)
  expect.error(function() plot.line({ 1 }):save("/nonexistent/x.svg") end,
    "plot_test.lua:%d+: save: '/nonexistent/x.svg': No such file")
end)

test("arguments go by position, by name or both in one table", function()
  for i, figure in ipairs { plot.line({ 1, 2 }, "T", "x"), plot.line({ 1, 2 }, { title = "T", x_label = "x" }),
    plot.line({ 1, 2 }, "T", { x_label = "x" }), plot.line { data = { 1, 2 }, title = "T", x_label = "x" },
    plot.line { 1, 2, title = "T", x_label = "x" } } do
    expect.equal({ figure.chart.title, figure.chart.x_label }, { "T", "x" }, "call " .. i)
    expect.equal(figure.chart.series[1].y, { 1, 2 }, "call " .. i)
  end
  expect.equal(plot.line({ a = { 1 }, b = { 2 } }, "T").chart.series[2].label, "b")
  local figure = plot.line { 1, 2 }
  expect.equal(figure:text(60, 5, false, true), figure:text { width = 60, height = 5, color = false, ascii = true })
  expect.equal(figure:svg(300), figure:svg { width = 300 })
  local shown = {}
  local file = { write = function(_, ...) shown[#shown + 1] = table.concat { ... } end }
  figure:show(file, 60, 5, false, true)
  expect.equal(table.concat(shown), figure:text(60, 5, false, true) .. "\n")
end)

test("misuse is an error at the caller's line", function()
  local function fails(f, pattern) expect.error(f, "plot_test.lua:%d+: " .. pattern) end
  fails(function() plot.line({}) end, "line: there is no data")
  fails(function() plot.line(3) end, "line: expected an array or a tensor, got number")
  fails(function() plot.line({ NAN }) end, "line: no value is finite")
  fails(function() plot.line({ 1, "2" }) end, "line: item 2 is a string, expected a number")
  fails(function() plot.line({ 1 }, { colour = true }) end,
    "line: unknown option 'colour'; did you mean 'color'")
  fails(function() plot.line({ 1 }, { width = 0 }) end, "line: 'width' must be an integer from 1 to 10000, got 0")
  fails(function() plot.line({ y = { 1 }, x = { 1, 2 } }) end, "line: x has 2 items, y has 1")
  fails(function() plot.line({ 1 }, { y_min = NAN }) end, "line: 'y_min': a finite number is expected, got %-?nan")
  fails(function() plot.line({ 1 }, { y_min = 3, y_max = 2 }) end, "line: the range from 3 to 2 is")
  fails(function() plot.histogram({ 1 }, { bins = 0 }) end, "histogram: 'bins' must be an integer from 1")
  fails(function() plot.bar({ 1, 2 }, { labels = { "a" } }) end, "bar: 1 labels for 2 values")
  fails(function() plot.bar({ 1 }, { labels = 3 }) end, "bar: 'labels' must be an array of values, got 3")
  fails(function() plot.confusion({ { 1, 2 } }) end, "confusion: expected a square matrix, got 1 x 2")
  fails(function() plot.confusion({ { -1 } }) end, "confusion: row 1, column 1: expected a count")
  fails(function() plot.image({ { 1, 2 }, { 3 } }) end, "image: row 2 has 1 items, row 1 has 2")
  fails(function() plot.line({ 1 }):text { width = "wide" } end,
    "text: 'width' must be an integer from 1 to 10000, got \"wide\"")
  fails(function() plot.line({ 1 }):svg { size = 3 } end, "svg: unknown option 'size'")
  fails(function() plot.line({ 1 }):show { colour = true } end,
    "show: unknown option 'colour'; did you mean 'color'")
  fails(function() plot.line({ 1 }):save("x.svg", { scale = 2 }) end, "save: 'scale' is for PNG")
  fails(function() plot.line({ 1 }):save() end, "save: 'path' is missing")
  fails(function() plot.line({ 1 }, { color = "yes" }) end, "line: 'color' must be true or false, got \"yes\"")
  fails(function() plot.line() end, "line: 'data' is missing")
  fails(function() plot.images(3) end, "images: expected an array of images, got number")
  fails(function() plot.images({}) end, "images: there is no data")
end)

harness.run()
