-- interp/gen/html_page.lua: makes whole HTML pages of rendered Markdown: navigation, anchors, links
-- between names, colours in Lua code, and the data of the search.

local areas = require "interp.gen.areas"
local ascii_math = require "interp.gen.ascii_math"
local html_front = require "interp.gen.html_front"

local html_page = {}

--- The hand-written pages, by their files in docs/; those that the architecture's leads to follow it.
html_page.guides = { "guide.md", "programs.md", "ops.md", "porting.md", "embedding.md", "embedding-c.md",
  "distributed.md", "shipping.md", "platforms.md", "browser.md", "performance.md", "architecture.md",
  "op-table.md", "glossary.md" }

--- The name of the page of a file in docs/: "architecture-tensor" of "architecture/tensor.md".
---@param path string
---@return string
function html_page.name_of(path) return (path:gsub("%.md$", ""):gsub("/", "-")) end

local Site = {}
Site.__index = Site

local function escaped(text)
  return (text:gsub('[&<>"]', { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local entities = { lt = "<", gt = ">", amp = "&", quot = '"' }
local function plain(html)
  return (html:gsub("<[^>]*>", ""):gsub("&#(%d+);", utf8.char):gsub("&(%a+);", entities))
end

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
    return then true until while]]):gmatch "%a+" do
  keywords[word] = true
end

local function span(kind, text) return ('<span class="%s">%s</span>'):format(kind, text) end

-- Colours one line of escaped Lua: strings and a comment are cut out first.
local function coloured_code(code)
  code = code:gsub("%f[%w_&]([%a_][%w_]*)", function(word)
    return keywords[word] and span("keyword", word) or nil
  end)
  return (code:gsub("%f[%w_.#]%d+%.?%d*[eE]?%-?%d*", function(number) return span("number", number) end))
end

local function coloured_line(line)
  local out, rest = "", line
  while rest ~= "" do
    local at, till = rest:find "&quot;.-&quot;"
    local comment = rest:find("--", 1, true)
    if comment and (not at or comment < at) then
      return out .. coloured_code(rest:sub(1, comment - 1)) .. span("comment", rest:sub(comment))
    elseif not at then
      return out .. coloured_code(rest)
    end
    out = out .. coloured_code(rest:sub(1, at - 1)) .. span("string", rest:sub(at, till))
    rest = rest:sub(till + 1)
  end
  return out
end

local function coloured(code)
  return (code:gsub('"', "&quot;"):gsub("[^\n]+", coloured_line))
end

local function slug(text)
  return (text:lower():gsub("[^%w_.:]+", "-"):gsub("^%-", ""):gsub("%-$", ""))
end

-- `ml.softmax` in a text leads to its entry.
function Site:linked(code)
  local shown = plain(code)
  local name = shown:gsub("%(.*%)$", ""):gsub("^ml%.", ""):gsub("^x:", "Tensor.")
  local entry = self.by_name[name] or self.by_name[name:gsub("^Tensor%.", "")]
  -- A bare word may be an argument's name; that of an op hardly is.
  if not entry or entry.kind ~= "op" and not shown:find "[.:(%u]" then return nil end
  return ('<a href="%s.html#%s"><code>%s</code></a>'):format(entry.page, entry.name, code)
end

-- The path in docs/ that a link of one of its files means.
local function resolved(path, target)
  local parts = {}
  for part in ((path:match "^(.*/)[^/]*$" or "") .. target):gmatch "[^/]+" do
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then
      table.remove(parts)
    else
      parts[#parts + 1] = part
    end
  end
  return (table.concat(parts, "/"):gsub("^%.%./docs/", ""))
end

-- Links and pictures of a guide: to pages where there are such, otherwise none.
function Site:with_addresses(page, html)
  html = html:gsub('<a href="([^":#]+)(#?[^":]*)">(.-)</a>', function(target, anchor, text)
    local guide = self.guide_of[resolved(page.path, target)]
    return guide and ('<a href="%s.html%s">%s</a>'):format(guide.name, anchor, text) or text
  end)
  return (html:gsub('src="([^":]+)"', function(target)
    local path = resolved(page.path, target)
    self.images[path] = html_page.name_of(path)
    return ('src="%s"'):format(self.images[path])
  end))
end

function Site:body(page, html)
  html = html:gsub("<h(%d)[^>]*>(.-)</h%d>", function(level, text)
    local id = level == "1" and page.name or plain(text)
    if not self.by_name[id] then id = slug(id) end
    return ('<h%s id="%s">%s <a class="anchor" href="#%s">#</a></h%s>'):format(level, id, text, id, level)
  end)
  html = html:gsub('(<pre><code class="language%-lua">)(.-)(</code></pre>)', function(head, code, tail)
    return head .. coloured(code) .. tail
  end)
  html = html:gsub('<pre><code class="language%-formula">(.-)</code></pre>', function(formula)
    return '<div class="formula">' .. ascii_math.mathml(plain(formula)) .. "</div>"
  end)
  if page.path then return self:with_addresses(page, html) end
  html = html:gsub('href="([^":]-)%.md(#?[^"]*)"', 'href="%1.html%2"')
  return (html:gsub("<code>([^<]+)</code>", function(code) return self:linked(code) end))
end

local function nav_link(page, current)
  return ('<a href="%s.html"%s>%s</a>'):format(page.name,
    page == current and ' aria-current="page"' or "", escaped(page.title))
end

-- Guides and areas; of the one that is shown, also the pages that it leads to.
function Site:nav(current)
  local out = { "<h2>Guides</h2>\n<ul>" }
  local shown_guide = current and (current.parent or current)
  for _, guide in ipairs(self.guides) do
    if not guide.parent or guide.parent == shown_guide then
      local class = guide.parent and ' class="inner"' or ""
      out[#out + 1] = ("<li%s>%s</li>"):format(class, nav_link(guide, current))
    end
  end
  out[#out + 1] = "</ul>\n<h2>Reference</h2>\n<ul>"
  local shown_area = current and (self.area_of[current.name] or current)
  for _, area in ipairs(self.areas) do
    out[#out + 1] = ("<li>%s</li>"):format(nav_link(area, current))
    for _, page in ipairs(area == shown_area and area.pages or {}) do
      out[#out + 1] = ('<li class="inner">%s</li>'):format(nav_link(page, current))
    end
  end
  out[#out + 1] = "</ul>"
  return table.concat(out, "\n")
end

local template = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s - Moonlet</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<header>
<a class="home" href="index.html">Moonlet</a>
<div class="search">
<label for="search">Search (press /)</label>
<input id="search" type="search" autocomplete="off">
<ol id="found" hidden></ol>
</div>
</header>
<div class="columns">
<nav>
%s
</nav>
<main>
%s
</main>
</div>
<script src="index.js"></script>
<script src="search.js"></script>
</body>
</html>
]]

local function whole(title, nav, body)
  return template:format(escaped(title), nav, body)
end

--- A page's HTML.
---@param page table { name, title, path of a guide }
---@param html string its rendered Markdown
---@return string
function Site:page(page, html)
  return whole(page.title, self:nav(page), self:body(page, html))
end

-- The name without that of its page, "Linear" on the page nn.
function Site:short_name(page, entry)
  local prefix = page.name .. "."
  if entry.name:sub(1, #prefix) == prefix then return entry.name:sub(#prefix + 1) end
  return (entry.name:gsub("^moonlet::", ""))
end

--- The first page.
---@param readme string the text of README.md
---@param samples table of front_samples.lua
---@param render fun(markdown: string): string
---@return string
function Site:front(readme, samples, render)
  return whole("Moonlet", self:nav(), html_front.front(self, readme, samples, render))
end

--- The page of an area.
---@param area table
---@return string
function Site:area(area) return whole(area.title, self:nav(area), html_front.area(self, area)) end

local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("[\n\r\t]", " "):gsub("<", "\\u003c") .. '"'
end

--- The data of the search: name, kind, page and first line of each entry; and the guides' sections.
---@return string
function Site:search_index()
  local out = { "// Generated: what search.js looks through: [name, kind, address, text].", "const entries = [" }
  for _, page in ipairs(self.pages) do
    for _, entry in ipairs(page.entries) do
      local original = entry.same_as and self.by_name[entry.same_as] or entry
      out[#out + 1] = ("[%s, %s, %s, %s],"):format(quoted(entry.name), quoted(entry.kind),
        quoted(page.name .. ".html#" .. entry.name), quoted((original.doc or ""):sub(1, 300)))
    end
  end
  for _, guide in ipairs(self.guides) do
    for heading in guide.text:gsub("```.-```", ""):gmatch "\n##+ ([^\n]+)" do
      local text = heading:gsub("`", "")
      out[#out + 1] = ("[%s, %s, %s, \"\"],"):format(quoted(text), quoted(guide.title),
        quoted(guide.name .. ".html#" .. slug(text)))
    end
  end
  out[#out + 1] = "];\n"
  return table.concat(out, "\n")
end

--- What makes pages of the guides and of the reference. `images` fills with the pictures that the
--- guides show: their paths in docs/, and the names of the copies.
---@param guides table[] { name, path, title, text, parent }
---@param pages table[] of reference.pages
---@param by_name table<string, table>
---@return table
function html_page.site(guides, pages, by_name)
  local site = setmetatable({ guides = guides, pages = pages, by_name = by_name, guide_of = {},
    images = {}, coloured = coloured }, Site)
  site.areas, site.area_of = areas.of(pages)
  for _, guide in ipairs(guides) do site.guide_of[guide.path] = guide end
  return site
end

return html_page
