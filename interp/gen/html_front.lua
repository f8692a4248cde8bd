-- interp/gen/html_front.lua: the page that the HTML pages start from (what Moonlet is, how it is
-- installed, a first script with what it prints, pictures of plots, guides, areas), and the pages of
-- the areas, which have a line for each name: its summary and its shapes.

local html_front = {}

local function escaped(text)
  return (text:gsub('[&<>"]', { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

-- A text in Markdown of one line: nothing but code between backticks.
local function inline(text)
  return (escaped(text):gsub("``?([^`]+)``?", "<code>%1</code>"))
end

local function first_sentence(text)
  local paragraph = (text .. "\n\n"):match "^(.-)\n%s*\n":gsub("%s+", " ")
  local sentence = paragraph:match "^(.-[^%s.]%.)%s" or paragraph
  return (sentence:gsub("[.:]$", ""))
end

-- The parts of README.md that the page shows: its first paragraphs, the commands that build it, and
-- what it says of each document, by path.
local function read_readme(text)
  local about = {}
  for path, at in text:gmatch "\n%- %[docs/([%w_%-/]+%.md)%]%b(): ()" do
    about[path] = text:match("^(.-)\n[%-\n]", at):gsub("%s+", " "):gsub("%.$", ""):gsub("^%l", string.upper)
  end
  return { introduction = text:match "^# [^\n]*\n\n(.-)\n## ",
    start = text:match "## Start\n(.-)\n## ", about = about }
end

local function card(address, title, text)
  return ('<li><a href="%s"><b>%s</b><span>%s</span></a></li>'):format(address, escaped(title), inline(text))
end

local function add_script(out, site, samples)
  out[#out + 1] = '<h2 id="first-script">A first script</h2>'
  out[#out + 1] = ('<pre><code class="language-lua">%s</code></pre>'):format(site.coloured(escaped(samples.code)))
  out[#out + 1] = "<p>Saved as <code>circle.lua</code>, <code>build/moonlet circle.lua</code> prints</p>"
  out[#out + 1] = ('<pre><code class="language-result">%s</code></pre>'):format(escaped(samples.printed))
end

local function add_pictures(out, site, samples)
  out[#out + 1] = '<h2 id="pictures">Plots</h2>\n<div class="pictures">'
  for _, picture in ipairs(samples.pictures) do
    out[#out + 1] = ('<figure><img src="%s" alt="%s"><figcaption><details><summary>%s</summary>\n'
      .. '<pre><code class="language-lua">%s</code></pre></details></figcaption></figure>')
      :format(picture.file, escaped(picture.title), escaped(picture.title),
        site.coloured(escaped(picture.code)))
  end
  out[#out + 1] = "</div>"
end

--- The body of the first page.
---@param site table of html_page.site
---@param readme string the text of README.md
---@param samples table of front_samples.lua
---@param render fun(markdown: string): string
---@return string
function html_front.front(site, readme, samples, render)
  local parts = read_readme(readme)
  local out = { "<h1>Moonlet</h1>", render(parts.introduction),
    '<h2 id="install">Install</h2>', render(parts.start) }
  add_script(out, site, samples)
  out[#out + 1] = "<p><code>help(x)</code> at the prompt and <code>moonlet doc NAME</code> show the "
    .. "texts of these pages; <kbd>/</kbd> searches all names here.</p>"
  add_pictures(out, site, samples)
  out[#out + 1] = '<h2 id="guides">Guides</h2>\n<ul class="cards">'
  for _, guide in ipairs(site.guides) do
    if not guide.parent then
      local text = parts.about[guide.path] or first_sentence(guide.text:gsub("^#[^\n]*%s*", ""))
      out[#out + 1] = card(guide.name .. ".html", guide.title, text .. ".")
    end
  end
  out[#out + 1] = '</ul>\n<h2 id="reference">Reference</h2>\n<ul class="cards">'
  for _, area in ipairs(site.areas) do
    out[#out + 1] = card(area.name .. ".html", area.title, area.text)
  end
  out[#out + 1] = "</ul>"
  return table.concat(out, "\n")
end

-- A row of a table of names; the shapes are those of the first form that has some.
local function name_row(site, page, entry)
  local original = entry.same_as and site.by_name[entry.same_as] or entry
  local text = entry.same_as and ("The same as `%s`"):format(entry.same_as) or first_sentence(original.doc or "")
  local shapes = {}
  for i, line in ipairs(original.shapes or {}) do shapes[i] = "<code>" .. escaped(line) .. "</code>" end
  return ('<tr><td><a href="%s.html#%s"><code>%s</code></a></td><td>%s</td><td>%s</td></tr>'):format(
    page.name, entry.name, escaped(site:short_name(page, entry)), inline(text), table.concat(shapes, "<br>"))
end

--- The body of the page of an area: its pages, and the names on each.
---@param site table
---@param area table
---@return string
function html_front.area(site, area)
  local out = { ('<h1 id="%s">%s</h1>\n<p>%s</p>'):format(area.name, escaped(area.title), inline(area.text)) }
  for _, page in ipairs(area.pages) do
    out[#out + 1] = ('<h2><a href="%s.html">%s</a></h2>'):format(page.name, escaped(page.title))
    out[#out + 1] = '<table class="names"><thead><tr><th>Name</th><th>What it is</th><th>Shapes</th></tr></thead><tbody>'
    for _, entry in ipairs(page.entries) do
      local owner = entry.owner and site.by_name[entry.owner]
      local member = owner and owner.kind ~= "namespace"
      if not member and entry.name ~= page.name then out[#out + 1] = name_row(site, page, entry) end
    end
    out[#out + 1] = "</tbody></table>"
  end
  return table.concat(out, "\n")
end

return html_front
