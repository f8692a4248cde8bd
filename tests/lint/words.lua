-- tests/lint/words.lua: names and comments use the words of docs/glossary.md, not those that its last
-- column rules out.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

-- Where a banned word is part of another expression, which stays.
local KEPT = { "in%-place", "[Ii]n%-place", "in place", "in the places? of", "in its place", "in their places?",
  "t[ao]o?ke?s? the place", "t[ao]o?ke?s? its place", "t[ao]o?ke?s? their place", "taken? the places? of", "into place",
  "first place", "one place", "two places", "several places", "either place", "only place", "takes place",
  "change places", "decimal places", "last place", "[Rr]eplace", "other places",
  "[Ll]aplace", "negative_slope", "negative slope", "check_slope" }

local glossary = files.read(root, "docs/glossary.md")
local banned, count = {}, 0
for row in glossary:gmatch "[^\n]+" do
  local last = row:match "^|.*|([^|]*)|%s*$"
  for word in (last or ""):gmatch "[%w_]+" do
    if word ~= "Not" then
      banned[word:lower()], count = row:match "^| *([^|]-) *|", count + 1
    end
  end
end

-- Where a word has another meaning of the field's: the slope of a leaky ReLU and of a filter's side.
local EXCEPTED = {
  slope = { "activation", "audio", "/onnx/", "relu", "nn/functional", "nn/init", "composition", "^tests/",
    "^scripts/", "^docs/", "^tensor/ops/" },
  place = { "^stdlib/onnx/" },
}

local function is_excepted(path, word)
  for _, pattern in ipairs(EXCEPTED[(word:gsub("s$", ""))] or {}) do
    if path:find(pattern) then return true end
  end
  return false
end

-- The parts of names, in lower case: "kLastPlaces" has k, last and places.
local function check(path, number, line, problems)
  for _, pattern in ipairs(KEPT) do line = line:gsub(pattern, "") end
  line = line:gsub("(%l)(%u)", "%1_%2")
  for name in line:gmatch "[%a_][%w_]*" do
    local lower = name:lower()
    local found = banned[lower] and lower
    for part in lower:gmatch "%a+" do found = found or banned[part] and part end
    if found and not (lower:find "in_place" or lower:find "inplace") and not is_excepted(path, found) then
      problems[#problems + 1] = ("%s:%d: '%s' is called %s (docs/glossary.md)"):format(path, number, found,
        banned[found])
    end
  end
end

local problems, seen = {}, 0
for _, path in ipairs(files.list(root)) do
  local is_own = path:find "words%.lua$" or path:find "^tests/reference/" or path:find "^tests/fuzz/"
  local text = not is_own and files.is_source(path) and files.read(root, path)
  if text then
    seen = seen + 1
    local number = 0
    for line in (text .. "\n"):gmatch "(.-)\n" do
      number = number + 1
      check(path, number, line, problems)
    end
  end
end
if seen == 0 or count == 0 then problems[1] = "no sources or no words found in " .. root end
files.finish("words", problems)
