-- stdlib/plot/page.lua: a page that charts are drawn on: shapes and texts, in pixels from its upper
-- left corner. It becomes an SVG text or the bytes of a PNG file.

local raster = require "moonlet.raster"

local Page = {}
Page.__index = Page

Page.ink, Page.muted, Page.grid = "#22262b", "#5b6470", "#e4e7eb"

local PAPER = "#fdfdfc"
local TEXT_SIZE = 12

-- Control characters, which XML forbids, become spaces; what is not UTF-8 question marks.
local function clean(value)
  local result = tostring(value):gsub("[%c]", " ")
  return utf8.len(result) and result or (result:gsub("[\128-\255]", "?"))
end

---@param width integer
---@param height integer
---@return table page
function Page.new(width, height)
  local page = setmetatable({ width = width, height = height, items = {} }, Page)
  page:rect(0, 0, width, height, PAPER)
  return page
end

local function add(page, ...)
  page.items[#page.items + 1] = { ... }
end

--- A text. Options: `anchor` ("middle", "start" or "end": what of it lies at `x`), `fill`, `size`,
--- `bold`, `upright` (true turns it a quarter to the left).
function Page:text(x, y, value, options)
  options = options or {}
  add(self, "text", x, y, clean(value), options.anchor or "middle", options.fill or Page.muted,
    options.size or TEXT_SIZE, options.bold or false, options.upright or false)
end

function Page:line(x0, y0, x1, y1, color)
  add(self, "line", x0, y0, x1, y1, color)
end

--- A filled rectangle, with corners of radius `round`.
function Page:rect(x, y, width, height, fill, round)
  add(self, "rect", x, y, math.max(width, 0), math.max(height, 0), fill, round or 0)
end

function Page:circle(x, y, radius, fill, opacity)
  add(self, "circle", x, y, radius, fill, opacity or 1)
end

--- Lines from point to point; `points` is { x, y, x, y, ... }.
function Page:polyline(points, color)
  add(self, "polyline", points, color)
end

--- What follows until `Page:leave` shows only inside a rectangle.
function Page:enter(x, y, width, height)
  add(self, "enter", x, y, width, height)
end

function Page:leave()
  add(self, "leave")
end

--- Rectangles that follow fill whole pixels until `Page:smooth`, so that neighbours leave no gap.
function Page:crisp()
  add(self, "crisp")
end

function Page:smooth()
  add(self, "smooth")
end

-- --- SVG --------------------------------------------------------------------------------------

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["\""] = "&quot;" }

local function number(value)
  return (("%.2f"):format(value):gsub("%.?0+$", ""))
end

local write = {}

function write.text(_, x, y, value, anchor, fill, size, bold, upright)
  x, y = number(x), number(y)
  local extra = (size ~= TEXT_SIZE and (' font-size="%d"'):format(size) or "")
    .. (bold and ' font-weight="600"' or "")
    .. (upright and (' transform="rotate(-90 %s %s)"'):format(x, y) or "")
  return ('<text x="%s" y="%s" text-anchor="%s" fill="%s"%s>%s</text>'):format(x, y, anchor, fill,
    extra, (value:gsub("[&<>\"]", ENTITIES)))
end

function write.line(_, x0, y0, x1, y1, color)
  return ('<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s"/>'):format(number(x0), number(y0),
    number(x1), number(y1), color)
end

function write.rect(_, x, y, width, height, fill, round)
  return ('<rect x="%s" y="%s" width="%s" height="%s" fill="%s"%s/>'):format(number(x), number(y),
    number(width), number(height), fill, round > 0 and (' rx="%d"'):format(round) or "")
end

function write.circle(_, x, y, radius, fill, opacity)
  return ('<circle cx="%s" cy="%s" r="%s" fill="%s"%s/>'):format(number(x), number(y),
    number(radius), fill, opacity < 1 and (' fill-opacity="%s"'):format(number(opacity)) or "")
end

function write.polyline(_, points, color)
  local pairs_of = {}
  for i = 1, #points, 2 do
    pairs_of[#pairs_of + 1] = number(points[i]) .. "," .. number(points[i + 1])
  end
  return ('<polyline fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round" '
    .. 'stroke-linecap="round" points="%s"/>'):format(color, table.concat(pairs_of, " "))
end

function write.enter(state, x, y, width, height)
  state.areas = state.areas + 1
  return ('<clipPath id="area%d"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath>\n'
    .. '<g clip-path="url(#area%d)">'):format(state.areas, number(x), number(y), number(width),
    number(height), state.areas)
end

function write.crisp() return '<g shape-rendering="crispEdges">' end

function write.leave() return "</g>" end

write.smooth = write.leave

--- The page as the text of an SVG picture that needs no other file.
---@return string
function Page:svg()
  local lines, state = {}, { areas = 0 }
  lines[1] = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
    .. 'font-family="system-ui, \'DejaVu Sans\', Helvetica, Arial, sans-serif" font-size="%d">')
    :format(self.width, self.height, self.width, self.height, TEXT_SIZE)
  for _, item in ipairs(self.items) do
    lines[#lines + 1] = write[item[1]](state, table.unpack(item, 2))
  end
  lines[#lines + 1] = "</svg>\n"
  return table.concat(lines, "\n")
end

--- The page as the bytes of a PNG picture of `scale` times its size. An error where this build or
--- machine cannot draw.
---@param scale number
---@return string
function Page:png(scale)
  return raster.png(self.width, self.height, scale, self.items)
end

return Page
