-- stdlib/ext.lua: ml.ext: functions, classes and ops in C++ and CUDA, compiled from a script or
-- ahead of time, and loaded.

local build = require "moonlet.ext.build"
local compiler = require "moonlet.ext.compiler"
local inline = require "moonlet.ext.inline"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local texts = require "moonlet.ext.texts"
local tools = require "moonlet.extension_tools"
local terminal = require "moonlet.terminal"
local fail = options.fail

local ext = {}

-- What is known of the modules that were loaded here.
local known = setmetatable({}, { __mode = "k" })

local function check_name(caller, name)
  if not name:find "^[%a_][%w_]*$" then
    fail("%s: 'name' must be of letters, digits and _, and begin with no digit, got %q", caller,
      name)
  end
end

local function note(module, about)
  local before = known[module]
  known[module] = about
  if before and not about.built then about.built, about.seconds = before.built, before.seconds end
  return module
end

-- Builds and opens what is asked for.
local function load_request(request)
  for _, name in ipairs { "flags", "cuda_flags", "link_flags" } do
    request[name] = compiler.words(request[name])
  end
  request.include = compiler.list(request.include)
  local began = terminal.clock()
  local module, path, built = build.library(request,
    function(path) return tools.open(path, request.caller) end)
  return note(module, { name = request.name, path = path, built = built,
    seconds = terminal.clock() - began })
end

local read_load = signature([[ext.load(string name, string|string[] sources,
  string|string[]? flags=nil, string|string[]? cuda_flags=nil, string|string[]? link_flags=nil,
  string|string[]? include=nil, string? build_directory=nil, bool verbose=false)]], "ext.load")

--- Compiles sources of C++ and CUDA to an extension with the system's compiler, and loads it. One
--- of them has a block `MOONLET_EXTENSION`. What was compiled is kept in a folder of the cache
--- (`MOONLET_CACHE`, else `~/.cache/moonlet`) and taken from there as long as the sources, the
--- headers that they include, the flags, the compiler and this Moonlet are the same.
--- > path = os.tmpname() .. ".cpp"
--- > file = io.open(path, "w")
--- > text = '#include <moonlet/extension.h>\nMOONLET_EXTENSION(t, m) { m.set("two", 2); }'
--- > done = file:write(text) and file:close()
--- > ml.ext.load { name = "t", sources = path }.two  -- needs compiler
---   2
---@param name string what the extension is called, a name of C++
---@param sources string|string[] paths of files; those that end in .cu are compiled by nvcc
---@param flags? string|string[] for the C++ compiler, behind -std=c++20 -O3; a string is cut at
---   spaces
---@param cuda_flags? string|string[] for nvcc; without an -arch the code is for the device that is
---   there
---@param link_flags? string|string[] for linking: libraries
---@param include? string|string[] folders of headers
---@param build_directory? string the folder that libraries are kept in instead of the cache's
---@param verbose? boolean whether the commands, and what the compiler says, are shown on stderr
---@return table module what the extension puts into it
---@error no compiler, code that does not compile, with what the compiler says
function ext.load(...)
  local request = read_load:table(...)
  request.caller = "ext.load"
  tools.allowed(request.caller)
  check_name(request.caller, request.name)
  local paths = compiler.list(request.sources)
  if #paths == 0 then fail "ext.load: 'sources' is empty: expected at least one file" end
  request.sources = {}
  for i, path in ipairs(paths) do
    local full = tools.absolute(path)
    request.sources[i] = { path = full, key = tools.hash(tools.read(full, request.caller)) }
  end
  return load_request(request)
end

local read_inline = signature([[ext.load_inline(string name, string|string[] cpp,
  string|string[]? cuda=nil, table? functions=nil, string|string[]? flags=nil,
  string|string[]? cuda_flags=nil, string|string[]? link_flags=nil, string|string[]? include=nil,
  string? build_directory=nil, bool verbose=false)]], "ext.load_inline")

--- Compiles C++ and CUDA that stands in the script to an extension, and loads it; `ext.load` says
--- how it is kept. The named functions become those of the module, with arguments and results by
--- their types: numbers, strings, tensors, `std::vector`, `std::optional`, `std::tuple` and the
--- others of `moonlet/convert.h`. The header `moonlet/extension.h` is included.
--- > m = ml.ext.load_inline { name = "area", functions = { "area" },  -- needs compiler
---     cpp = "double area(double r) { return 3.0 * r * r; }" }
--- > m.area(2)
---   12.0
---@param name string what the extension is called, a name of C++
---@param cpp string|string[] C++, which defines the functions or declares those of `cuda`
---@param cuda? string|string[] CUDA, for nvcc
---@param functions? table names of functions, or texts of help by their names
---@param flags? string|string[] for the C++ compiler, behind -std=c++20 -O3; a string is cut at
---   spaces
---@param cuda_flags? string|string[] for nvcc; without an -arch the code is for the device that is
---   there
---@param link_flags? string|string[] for linking: libraries
---@param include? string|string[] folders of headers
---@param build_directory? string the folder that libraries are kept in instead of the cache's
---@param verbose? boolean whether the commands, and what the compiler says, are shown on stderr
---@return table module the functions, and what else the extension puts into it
---@error no compiler, code that does not compile, with what the compiler says and the script's line
function ext.load_inline(...)
  local request = read_inline:table(...)
  request.caller = "ext.load_inline"
  tools.allowed(request.caller)
  check_name(request.caller, request.name)
  local names, helps = inline.functions(request.caller, request.functions)
  request.names = names
  request.sources = inline.sources(request.caller, request, inline.script())
  local module = load_request(request)
  for name, text in pairs(helps) do texts.set(module[name:match "[^:]*$"], name, text) end
  return module
end

local read_library = signature "ext.load_library(string path)"

--- Loads an extension that was compiled ahead of time, for this Moonlet: `docs/embedding/
--- extensions.md` says how. A library stays loaded until the process ends; the same file gives the
--- same module.
--- > ml.ext.load_library "snake.so"  -- needs library
---@param path string the file
---@return table module what the extension puts into it
---@error a file that is no extension, is of another Moonlet, or lacks a function
function ext.load_library(...)
  local path = read_library(...)
  tools.allowed "ext.load_library"
  local full = tools.real_path(path)
  if not full then fail("ext.load_library: there is no file %q", path) end
  local module = tools.open(full, "ext.load_library")
  return note(module, { name = full:match "([^/]*)%.%w+$" or full, path = full, built = false,
    seconds = 0 })
end

--- What is known of a module that was loaded: `name`, `path` (the library's file), `built` (whether
--- it was compiled by this interpreter, rather than found) and `seconds`, which loading took.
--- > m = ml.ext.load_inline { name = "two", cpp = "int two() { return 2; }",  -- needs compiler
---     functions = { "two" } }
--- > ml.ext.info(m).name
---   two
---@param module table what loading has returned
---@return table info
function ext.info(module)
  local about = module ~= nil and known[module]
  if not about then fail "ext.info: 'module' is none that ml.ext has loaded" end
  local out = {}
  for key, value in pairs(about) do out[key] = value end
  return out
end

return ext
