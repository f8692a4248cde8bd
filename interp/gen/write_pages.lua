-- interp/gen/write_pages.lua: writes the reference as a folder of pages: Markdown, or with the
-- program `lowdown` HTML, which also holds a page to start from, the guides of docs/ and a search.
-- The executable that was built, MOONLET, runs what that first page shows.
-- usage: lua write_pages.lua ROOT OUTPUT FAMILY,FAMILY,... [LOWDOWN MOONLET]

local root, output, family_list, lowdown, moonlet = arg[1], arg[2], arg[3], arg[4], arg[5]
package.path = root .. "/?.lua;" .. package.path
local html_page = require "interp.gen.html_page"
local markdown_page = require "interp.gen.markdown_page"
local parse = require "tensor.ops.gen.parse"
local reference = require "interp.gen.reference"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(name, text)
  local file = assert(io.open(output .. "/" .. name, "wb"))
  assert(file:write(text))
  assert(file:close())
end

local function run(command) assert(os.execute(command)) end

-- Starts with an empty folder, whose date then says when it was written.
local function make_folder()
  run(("rm -rf '%s' && mkdir -p '%s'"):format(output, output))
end

local function render(text)
  local path = output .. "/.page.md"
  write(".page.md", text)
  local pipe = assert(io.popen(("'%s' -Thtml --out-no-smarty --html-no-head-ids '%s'"):format(lowdown, path)))
  local html = pipe:read "a"
  assert(pipe:close(), lowdown .. " failed")
  os.remove(path)
  return html
end

-- A guide, and those that it leads to in the folder of its name.
local function add_guide(out, path, parent)
  local text = read(("%s/docs/%s"):format(root, path))
  local guide = { name = html_page.name_of(path), path = path, title = text:match "^# ([^\n]*)",
    text = text, parent = parent }
  out[#out + 1] = guide
  local folder, seen = path:gsub("%.md$", "/"), {}
  for below in text:gmatch "%]%(([%w_%-/]+%.md)%)" do
    if below:sub(1, #folder) == folder and not seen[below] then
      seen[below] = true
      add_guide(out, below, guide)
    end
  end
end

-- What the executable makes for the first page.
local function run_samples()
  run(("ASAN_OPTIONS=detect_leaks=0 '%s' '%s/interp/gen/front_samples.lua' '%s' '%s'"):format(
    moonlet, root, root, output))
  local samples = dofile(output .. "/.samples.lua")
  os.remove(output .. "/.samples.lua")
  return samples
end

local function write_html(entries, pages, by_name)
  local guides = {}
  for _, path in ipairs(html_page.guides) do add_guide(guides, path) end
  local site = html_page.site(guides, pages, by_name)
  for _, page in ipairs(guides) do write(page.name .. ".html", site:page(page, render(page.text))) end
  for _, page in ipairs(pages) do
    write(page.name .. ".html", site:page(page, render(markdown_page.text(page, by_name, entries))))
  end
  for _, area in ipairs(site.areas) do write(area.name .. ".html", site:area(area)) end
  write("index.html", site:front(read(root .. "/README.md"), run_samples(), render))
  write("index.js", site:search_index())
  for path, name in pairs(site.images) do write(name, read(("%s/docs/%s"):format(root, path))) end
  for _, name in ipairs { "style.css", "search.js" } do
    write(name, read(("%s/docs/html/%s"):format(root, name)))
  end
end

local families = {}
for family in family_list:gmatch "[^,]+" do families[#families + 1] = family end
local entries = reference.entries(parse.rows(root, families), root)
local pages, by_name = reference.pages(entries), reference.by_name(entries)
make_folder()
if lowdown then
  write_html(entries, pages, by_name)
else
  for _, page in ipairs(pages) do write(page.name .. ".md", markdown_page.text(page, by_name, entries)) end
end
