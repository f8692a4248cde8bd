-- tests/lint/doc_files.lua: every file and folder of the project that the documents name is there:
-- in the tree, or among what the build makes; and pages of docs/architecture/ are short.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

-- What may be named: paths, and files also without their folder. What the build makes for each
-- family of ops or for some files (`'raw_' + family + '.cpp'`, `'bind_@0@.cpp'`) is kept without the
-- family or the file.
local known, per_family, families = {}, {}, { FAMILY = true, FILE = true }

local function add(folder, name, to)
  to[name], to[folder .. name] = true, true
end

local function add_outputs(folder, text)
  for name in text:gmatch "'([%w_]+%.%a+)'" do add(folder, name, known) end
  for prefix, ending in text:gmatch "'([%w_]+_)' %+ [%w_.()]+ %+ '(%.%a+)'" do add(folder, prefix .. ending, per_family) end
  for prefix, ending in text:gmatch "'([%w_]+_)@0@(%.%a+)'" do add(folder, prefix .. ending, per_family) end
end

local documents, top = {}, {}
for _, path in ipairs(files.list(root)) do
  local text = files.read(root, path)
  if text then
    local folder, name = path:match "^(.-)([^/]*)$"
    add(folder, name, known)
    for at in path:gmatch "()/" do known[path:sub(1, at - 1)] = true end
    top[path:match "^(%a+)/" or ""] = true
    families[path:match "^tensor/ops/([%w_]+)%.lua$" or "FAMILY"] = true
    if name == "meson.build" then add_outputs(folder, text) end
    if name:find "%.md$" then documents[#documents + 1] = { path = path, folder = folder, text = text } end
  end
end

local function is_known(path)
  path = path:gsub("/+$", "")
  if known[path] then return true end
  for family in pairs(families) do
    local first, last = path:find("_" .. family .. ".", 1, true)
    if first and per_family[path:sub(1, first) .. path:sub(last)] then return true end
  end
  local pattern = path:gsub("FAMILY", "*")
  if not pattern:find("*", 1, true) then return false end
  pattern = "^" .. pattern:gsub("[^%w/*]", "%%%0"):gsub("%*+", ".*") .. "$"
  for name in pairs(known) do
    if name:find(pattern) then return true end
  end
  return false
end

local problems, seen = {}, 0
local function check(document, at, path)
  seen = seen + 1
  if is_known(path) then return end
  local _, line = document.text:sub(1, at):gsub("\n", "")
  problems[#problems + 1] = ("%s:%d: there is no %s"):format(document.path, line + 1, path)
end

-- What the documents for users name without a folder are files of theirs.
local for_users = { ["README.md"] = true, ["docs/guide.md"] = true, ["docs/embedding.md"] = true,
  ["docs/embedding-c.md"] = true, ["docs/programs.md"] = true, ["docs/ops.md"] = true, ["docs/porting.md"] = true }
for _, document in ipairs(documents) do
  local text = document.text
  for at, folder, rest in text:gmatch "()%f[%w/._<-](%a+)(/[%w_./*-]*)" do
    if top[folder] then check(document, at, folder .. rest:gsub("[.-]+$", "")) end
  end
  for at, target, rest in text:gmatch "%]%(()([%w_:./-]+)(.?)" do
    -- Others are C++ lambdas in samples.
    if not target:find "^https?:" and (rest == ")" or rest == "#") then
      local path, count = document.folder .. target
      repeat path, count = path:gsub("[^/]+/%.%./", "", 1) until count == 0
      check(document, at, path)
    end
  end
  -- A page about a folder is read at one sitting and shows what it tells.
  if document.path:find "^docs/architecture/" then
    local words = select(2, text:gsub("%S+", ""))
    if words > 1500 then
      problems[#problems + 1] = ("%s: %d words, at most 1500 are expected"):format(document.path, words)
    end
    if not text:find "%]%([%w_-]+%.svg%)" then
      problems[#problems + 1] = document.path .. ": a drawing is expected"
    end
  end
  for at, name in text:gmatch "`()([%w_-]+%.%a+)`" do
    local ending = name:match "%.(%a+)$"
    if not for_users[document.path] and (" lua cpp h cu cuh sh md py "):find(" " .. ending .. " ", 1, true) then
      check(document, at, name)
    end
  end
end

-- What a newcomer asks for is found in two files at most.
local questions = 0
local tour = files.read(root, "docs/architecture.md"):match "\n## Where is %.%.%.\n(.-)\n## "
for question, answer in tour:gmatch "\n| ([^|\n]+) | ([^|\n]+) |" do
  local count = select(2, answer:gsub("%f[%w/._<-]%a+/[%w_./*-]+%.%a+", ""))
  if count > 0 then questions = questions + 1 end
  if count > 2 then
    problems[#problems + 1] = ("docs/architecture.md: '%s' is answered by %d files, at most 2 are expected")
      :format(question, count)
  end
end
if questions < 20 then problems[#problems + 1] = ("docs/architecture.md: only %d questions"):format(questions) end
print(("%d questions of where something is"):format(questions))
print(("%d names in %d documents"):format(seen, #documents))
if seen == 0 then problems[1] = "no names found in the documents of " .. root end
files.finish("files of documents", problems)
