-- stdlib/bundle.lua: the command `moonlet bundle`: one file of an executable, a script, the modules
-- that it requires, and the files that it reads.

local bundles = require "moonlet.bundles"
local options = require "moonlet.options"
local scan = require "moonlet.bundle.scan"
local separators = require "moonlet.files.separators"
local targets = require "moonlet.bundle.targets"
local system = require "moonlet.system"

-- Names in a bundle have / alone between folders.
local on_windows, slashed = separators.on_windows, separators.slashed

local bundle = {}

local USAGE = [[
usage: moonlet bundle [options] SCRIPT [FILE...] -o APP
       moonlet bundle --list APP | --check APP | --extract APP [-o FOLDER]
Writes one executable of this moonlet, SCRIPT, the modules that it requires and FILEs, which are
read from it under the same paths. FILE is a file, a folder, a name with * and ?, or PATH=NAME.
  -o FILE            what is written
  --module NAME      a module beside those that are required by a literal
  --path TEMPLATES   where modules are looked for before package.path, such as "lib/?.lua"
  --plugin NAME      the plugin moonlet-NAME.so, such as cuda, or its path
  --target PLATFORM  for another platform, aarch64 or windows: the moonlet that was built for it
                     (sh scripts/platforms.sh PLATFORM build), as moonlet-PLATFORM beside this one
                     or in the folder build-PLATFORM
  --executable FILE  the moonlet in front, wherever it is: of another platform, or a static one
  --library          no executable in front: for a host's open_bundle_file
  --source           scripts as text, not as compiled chunks
  --list             shows what is in a bundle
  --check            looks at every byte of a bundle
  --extract          takes the files out of a bundle
]]

-- What is wrong is told without a position in this file.
local function fail(format, ...) error(("bundle: " .. format):format(...), 0) end

-- --- arguments ----------------------------------------------------------------------------------

local TAKES_VALUE = { ["-o"] = "output", ["--output"] = "output", ["--module"] = "modules",
  ["--path"] = "path", ["--plugin"] = "plugins", ["--executable"] = "executable",
  ["--target"] = "target" }
local FLAGS = { ["--library"] = "library", ["--source"] = "source", ["--list"] = "list",
  ["--check"] = "check", ["--extract"] = "extract", ["--help"] = "help", ["-h"] = "help" }
local LISTS = { modules = true, plugins = true }

local function read_arguments(words)
  local given, i = { inputs = {}, modules = {}, plugins = {} }, 1
  while i <= #words do
    local word = words[i]
    local name, value = word:match "^(%-%-%a+)=(.*)$"
    if not TAKES_VALUE[name or ""] then name, value = word, nil end
    if TAKES_VALUE[name] then
      if value == nil then
        i = i + 1
        value = words[i] or fail("a value is missing behind '%s'", name)
      end
      local key = TAKES_VALUE[name]
      if LISTS[key] then
        table.insert(given[key], value)
      elseif given[key] then
        fail("'%s' is given twice", name)
      else
        given[key] = value
      end
    elseif FLAGS[word] then
      given[FLAGS[word]] = true
    elseif word:sub(1, 1) == "-" then
      fail("unrecognized option '%s'\n%s", word, USAGE)
    else
      table.insert(given.inputs, slashed(word))
    end
    i = i + 1
  end
  return given
end

-- --- files --------------------------------------------------------------------------------------

-- The name of a file in the bundle: the path that it is given by.
local function plain(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

local function name_of(path)
  local name = plain(path)
  local outside = path:find "^/" or on_windows and path:find "^%a:"
  if outside or ("/" .. name .. "/"):find("/../", 1, true) then
    fail("'%s' is not below this folder: expected PATH=NAME, where NAME is what the script "
      .. "calls it", path)
  end
  return name
end

-- All files below a folder, in order.
local function walk(folder, out)
  local names = system.list(folder)
  table.sort(names)
  for _, name in ipairs(names) do
    local path = (folder == "." and "" or folder .. "/") .. name
    if name:sub(-1) == "/" then
      walk(path:sub(1, -2), out)
    else
      out[#out + 1] = path
    end
  end
  return out
end

-- The paths that a name with * and ? stands for; those marks are in its last part alone.
local function matching(pattern)
  local folder, last = pattern:match "^(.*)/([^/]*)$"
  if not folder then folder, last = ".", pattern end
  if folder:find "[*?]" then fail("'%s': * and ? are for the last part of a path", pattern) end
  local wanted = "^" .. last:gsub("[^%w*?]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".") .. "$"
  local out, names = {}, system.list(folder)
  table.sort(names)
  for _, name in ipairs(names) do
    if name:find(wanted) then
      out[#out + 1] = folder == "." and name or folder .. "/" .. name
    end
  end
  if #out == 0 then fail("no file is called '%s'", pattern) end
  return out
end

-- --- what is gathered ---------------------------------------------------------------------------

local Gathered = {}
Gathered.__index = Gathered

local function warn_of(format, ...) io.stderr:write("bundle: ", format:format(...), "\n") end

function Gathered:add(input)
  local before = self.by_name[input.name]
  if before then
    if plain(before.path) ~= plain(input.path) then
      fail("'%s' is both '%s' and '%s'", input.name, before.path, input.path)
    end
    return
  end
  self.by_name[input.name] = input
  table.insert(self.inputs, input)
end

-- A script as it is run: compiled, with the lines and names that its errors show.
function Gathered:code(text, name)
  local body = text:gsub("^\xEF\xBB\xBF", "")
  if body:sub(1, 1) == "#" then body = body:gsub("^[^\n]*", "") end
  local chunk, message = load(body, "@" .. name, "t")
  if not chunk then fail("%s", message) end
  return self.given.source and text or string.dump(chunk)
end

function Gathered:add_script(path, name, kind)
  if self.by_name[name] then return end
  local text = system.read_file(path, "bundle")
  local input = { name = name, kind = kind, path = path, bytes = self:code(text, name) }
  self:add(input)
  for _, call in ipairs(scan.calls(text)) do
    local where = ("%s:%d"):format(path, call.line)
    if not call.name then
      warn_of("%s: which %s this is for is computed: name it with %s", where, call.kind,
        call.kind == "module" and "--module" or "the files")
    elseif call.kind == "module" then
      self:add_module(call.name, where, call.optional)
    elseif system.exists(call.name) == "file" then
      self:add { name = name_of(call.name), kind = "file", path = call.name }
    end
  end
end

-- Those that every interpreter has.
local function is_built_in(name)
  return name == "moonlet" or name:find "^moonlet%." or package.loaded[name] ~= nil
end

-- Those that every interpreter has where a script has none of the name.
local FOUND_LAST = { torch = true, paths = true, sys = true, xlua = true, cutorch = true }

function Gathered:add_module(name, where, optional)
  if is_built_in(name) or self.seen[name] then return end
  self.seen[name] = true
  local path = package.searchpath(name, self.path)
  if path then
    path = slashed(path)
    local file = name:gsub("%.", "/")
    self:add_script(path, file .. (path:find "/init%.lua$" and "/init.lua" or ".lua"), "script")
    return
  end
  local library = package.searchpath(name, package.cpath)
  if library then
    warn_of("%s: module '%s' is in C, which a bundle does not hold: %s has to be there where it "
      .. "runs", where, name, library)
  elseif not optional and not FOUND_LAST[name] then
    fail("%s: module '%s' is not found; expected it below '%s'", where, name, self.folder)
  end
end

function Gathered:add_file(word)
  local path, name = word:match "^(.+)=([^=]+)$"
  if not path or not system.exists(path) then path, name = word, nil end
  path = path:gsub("(.)/+$", "%1")
  local kind = system.exists(path)
  local found = kind == "file" and { path } or kind == "directory" and walk(path, {})
    or path:find "[*?]" and matching(path) or fail("there is no file '%s'", path)
  for _, file in ipairs(found) do
    if system.exists(file) == "file" then
      local called = name and plain(name .. file:sub(#path + 1)) or name_of(file)
      self:add { name = called, kind = "file", path = file }
    end
  end
end

-- --- plugins ------------------------------------------------------------------------------------

-- Where the plugins of an executable are: beside it, in its build folder, or installed with it.
local function find_plugin(word, executable)
  local there, name = system.split(word)
  if there ~= "" then return word, name end
  local file = ("moonlet-%s.so"):format(word)
  local folder, tried = system.split(executable), {}
  local folders = { "", word .. "/", "interp/" .. word .. "/", "moonlet/", "../lib/moonlet/" }
  for _, part in ipairs(folders) do
    local path = folder .. part .. file
    if system.exists(path) == "file" then return path, file end
    tried[#tried + 1] = path
  end
  fail("there is no plugin '%s': expected %s", word, table.concat(tried, " or "))
end

-- A bundle is written over none of the files that it is made of.
local function check_output(output, path)
  if system.is_same_file(output, path) then
    fail("'%s' is a part of the bundle, and would be written over: expected another -o FILE",
      output)
  end
end

-- --- commands -----------------------------------------------------------------------------------

-- What comes in front of the bundle: a path, or "" for nothing.
local function executable_of(given)
  local chosen = 0
  for _, key in ipairs { "library", "executable", "target" } do
    if given[key] then chosen = chosen + 1 end
  end
  if chosen > 1 then fail "expected one of --library, --executable and --target" end
  if given.library then return "" end
  if not given.target then return given.executable or system.executable() end
  local path, problem = targets.find(given.target)
  return path or fail("%s", problem)
end

local function write(given)
  local script = given.inputs[1] or fail("which script?\n%s", USAGE)
  local output = given.output or fail("where to? expected -o FILE")
  local executable = executable_of(given)
  local folder = script:match "^(.*/)" or "./"
  local beside = folder .. "?.lua;" .. folder .. "?/init.lua;"
  local gathered = setmetatable({ given = given, inputs = {}, by_name = {}, seen = {},
    folder = folder, path = (given.path and given.path .. ";" or "") .. beside .. package.path },
    Gathered)
  gathered:add_script(script, script:match "[^/]+$", "main")
  for _, name in ipairs(given.modules) do gathered:add_module(name, "--module", false) end
  for i = 2, #given.inputs do gathered:add_file(given.inputs[i]) end
  for _, word in ipairs(given.plugins) do
    if given.library then fail "plugins are for bundles with an executable" end
    if not targets.opens_plugins(executable) then
      fail("'%s' is linked statically, so it opens no plugins", executable)
    end
    local path, file = find_plugin(word, executable)
    gathered:add { name = file, kind = "plugin", path = path }
  end
  check_output(output, executable)
  for _, input in ipairs(gathered.inputs) do
    check_output(output, input.path)
    if input.bytes then input.path = nil end
  end
  bundles.write(output, executable, gathered.inputs)
end

local function size_text(bytes)
  if bytes < 10000 then return ("%d B"):format(bytes) end
  if bytes < 1e7 then return ("%.0f kB"):format(bytes / 1e3) end
  return ("%.1f MB"):format(bytes / 1e6)
end

local function list(path)
  for i, entry in ipairs(bundles.list(path)) do
    local kind = i == 1 and (entry.bytes > 128 and "executable" or "header") or entry.kind
    print(("%-10s %12d %9s  %s"):format(kind, entry.at, size_text(entry.bytes),
      i == 1 and "" or entry.name))
  end
end

local function extract(path, folder)
  folder = folder or "."
  for i, entry in ipairs(bundles.list(path)) do
    if i > 1 then
      if on_windows and entry.name:find "[\\:]" then
        fail("'%s' is no name of a file on Windows", entry.name)
      end
      local target = folder .. "/" .. entry.name
      system.make_folder(target:match "^(.*)/", "bundle")
      system.write_file(target, bundles.read(path, entry.name), "bundle")
    end
  end
end

-- Of a bundle that is there nothing is chosen but the folder that its files go to.
local function refuse_options(given, words)
  for _, word in ipairs(words) do
    local key = TAKES_VALUE[word:match "^(%-%-%a+)=" or word] or FLAGS[word]
    local is_command = key == "list" or key == "check" or key == "extract"
    if key and not is_command and not (given.extract and key == "output") then
      fail("'%s' is for bundles that are written", word)
    end
  end
end

local function run(words)
  local given = read_arguments(words)
  if given.help then
    io.write(USAGE)
    return
  end
  local asked = (given.list and 1 or 0) + (given.check and 1 or 0) + (given.extract and 1 or 0)
  if asked == 0 then return write(given) end
  if asked > 1 or #given.inputs ~= 1 then
    fail("expected one of --list, --check and --extract, and one bundle\n%s", USAGE)
  end
  refuse_options(given, words)
  local path = given.inputs[1]
  if given.list then return list(path) end
  if given.extract then return extract(path, given.output) end
  bundles.check(path)
end

--- The command `moonlet bundle`: writes one executable of moonlet, a script, the modules that it
--- requires and files that it reads, or shows, checks or unpacks one.
---@param arguments string[] the command's arguments
---@return boolean succeeded what is wrong is written to the standard error stream
function bundle.command(arguments)
  local good, message = pcall(run, arguments)
  if not good then options.report(message) end
  return good
end

return bundle
