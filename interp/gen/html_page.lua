-- interp/gen/html_page.lua: makes whole HTML pages of rendered Markdown: navigation, anchors, links
-- between names, colours in Lua code, and the data of the search.

local ascii_math = require "interp.gen.ascii_math"

local html_page = {}

--- The hand-written pages, by their files in docs/.
html_page.guides = { "guide", "porting", "architecture", "glossary", "op-table" }

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
  html = html:gsub('href="([^":]-)%.md(#?[^"]*)"', 'href="%1.html%2"')
  html = html:gsub('href="%.%./docs/', 'href="')
  if not page.text then
    html = html:gsub("<code>([^<]+)</code>", function(code) return self:linked(code) end)
  end
  return html
end

local function nav_section(title, pages, current)
  local out = { ("<h2>%s</h2>\n<ul>"):format(title) }
  for _, page in ipairs(pages) do
    out[#out + 1] = ('<li><a href="%s.html"%s>%s</a></li>'):format(page.name,
      page == current and ' aria-current="page"' or "", escaped(page.title))
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
  return template:format(escaped(title), (nav:gsub("%%", "%%")), body)
end

--- A page's HTML.
---@param page table { name, title }
---@param html string its rendered Markdown
---@return string
function Site:page(page, html)
  local nav = nav_section("Guides", self.guides, page) .. nav_section("Reference", self.pages, page)
  return whole(page.title, nav, self:body(page, html))
end

-- The name without that of its page, "Linear" on the page nn.
function Site:short_name(page, entry)
  local prefix = page.name .. "."
  if entry.name:sub(1, #prefix) == prefix then return entry.name:sub(#prefix + 1) end
  return (entry.name:gsub("^moonlet::", ""))
end

--- The first page: the guides and what is on each page of the reference.
---@return string
function Site:front()
  local out = { "<h1>Moonlet</h1>",
    "<p>Lua 5.4 with tensors and automatic differentiation built in. <kbd>/</kbd> searches all names;",
    "<code>help(x)</code> at the prompt and <code>moonlet doc NAME</code> show the same texts.</p>" }
  for _, page in ipairs(self.pages) do
    local names = {}
    for _, entry in ipairs(page.entries) do
      local member = entry.owner and self.by_name[entry.owner]
        and self.by_name[entry.owner].kind ~= "namespace"
      if not member and entry.name ~= page.name then
        names[#names + 1] = ('<a href="%s.html#%s">%s</a>'):format(page.name, entry.name,
          escaped(self:short_name(page, entry)))
      end
    end
    out[#out + 1] = ('<section><h2><a href="%s.html">%s</a></h2><p class="names">%s</p></section>')
      :format(page.name, escaped(page.title), table.concat(names, "\n"))
  end
  local nav = nav_section("Guides", self.guides) .. nav_section("Reference", self.pages)
  return whole("Reference", nav, table.concat(out, "\n"))
end

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

--- What makes pages of the guides and of the reference.
---@param guides table[] { name, title, text }
---@param pages table[] of reference.pages
---@param by_name table<string, table>
---@return table
function html_page.site(guides, pages, by_name)
  return setmetatable({ guides = guides, pages = pages, by_name = by_name }, Site)
end

return html_page
