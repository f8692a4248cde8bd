-- stdlib/ext/build.lua: the libraries of extensions: found in the cache, or compiled into it.
--
-- A folder of the cache belongs to one extension with its sources, flags, compiler and the ABI of
-- this Moonlet. `manifest.json` there says which libraries it has, and which bytes all the files
-- had that each was made of. A build happens in a folder of its own, under a lock, and what it made
-- is renamed into place: what is cut off leaves nothing that would be taken for a library.

local compiler = require "moonlet.ext.compiler"
local dependencies = require "moonlet.ext.dependencies"
local json = require "moonlet.json"
local options = require "moonlet.options"
local precompiled = require "moonlet.ext.precompiled"
local steps = require "moonlet.ext.steps"
local system = require "moonlet.system"
local tools = require "moonlet.extension_tools"
local append = compiler.append
local fail = options.fail

local build = {}

-- Another one when what lies in the cache is something else.
local FORMAT = "moonlet extension 1"
-- The libraries of one folder, for headers that change to and fro; older ones are removed.
local MOST_LIBRARIES = 4
-- Of what a compiler says.
local MOST_LINES = 120

-- --- what there is -----------------------------------------------------------------------------

--- The folder with the public headers of this Moonlet.
---@param caller string
---@return string
function build.find_headers(caller)
  local hash = tools.abi():match "headers (%x+)"
  local other
  for _, folder in ipairs(tools.header_folders()) do
    local path = folder .. "/moonlet/extension_abi.h"
    if tools.stat(path) then
      if tools.read(path, caller):find(hash, 1, true) then return tools.real_path(folder) end
      other = other or folder
    end
  end
  local looked = table.concat(tools.header_folders(), ", ")
  if other then
    return fail("%s: the headers in %s are of another Moonlet than this one; looked in %s", caller,
      other, looked)
  end
  return fail("%s: the headers of Moonlet are not installed: there is no moonlet/extension.h in %s",
    caller, looked)
end

-- --- the cache ---------------------------------------------------------------------------------

-- All that a build depends on but the files that its sources include.
local function key_of(request, about)
  local parts = { FORMAT, request.name, tools.abi(), about.cxx.text,
    about.nvcc and about.nvcc.text or "" }
  for _, list in ipairs { about.cxx_flags, about.cuda_flags, about.link_flags } do
    parts[#parts + 1] = table.concat(list, "\0")
  end
  for _, source in ipairs(request.sources) do
    parts[#parts + 1] = (source.path or source.suffix) .. "\0" .. source.key
  end
  return tools.hash(table.concat(parts, "\1")):sub(1, 32)
end

local function read_manifest(folder)
  local path = folder .. "/manifest.json"
  if not tools.stat(path) then return {} end
  -- One that is no manifest is as none.
  local good, value = pcall(json.decode, tools.read(path, "ext"))
  return good and type(value) == "table" and value.format == FORMAT and value.libraries or {}
end

local function write_manifest(folder, libraries)
  system.write_file(folder .. "/manifest.json",
    json.encode { format = FORMAT, libraries = libraries }, "ext")
end

-- The path of the library whose files are all as they were, or nothing.
local function find_library(folder)
  local libraries = read_manifest(folder)
  for _, library in ipairs(libraries) do
    local path = ("%s/%s"):format(folder, library.file)
    local same, touched = dependencies.unchanged(library.files)
    if same and tools.stat(path) == library.size then
      if touched then write_manifest(folder, libraries) end
      return path
    end
  end
  return nil
end

-- --- building ----------------------------------------------------------------------------------

local function trimmed(output)
  local lines, more = {}, 0
  for line in output:gmatch "[^\n]+" do
    if #lines < MOST_LINES then lines[#lines + 1] = line else more = more + 1 end
  end
  if more > 0 then lines[#lines + 1] = ("... and %d lines more"):format(more) end
  return table.concat(lines, "\n")
end

-- Runs one command; an error with what it says where it fails.
local function run(request, command, folder, title)
  local status, output = steps.run(request, command, folder, title)
  if status == 0 then return end
  if status == -1 then output = output .. "\nits exit code is unknown: is SIGCHLD ignored?" end
  if status > 128 and status <= 192 then
    output = ("%s\n%s was ended by signal %d"):format(output, command[1], status - 128)
  end
  fail("%s: %s does not compile (%s):\n%s", request.caller, request.name, title, trimmed(output))
end

-- The path of a source to compile: that of the script's own file, or of one that is written now.
local function source_path(request, source, folder)
  if source.path then return source.path end
  local path = ("%s/%s%s"):format(folder, request.name, source.suffix)
  system.write_file(path, source.text, request.caller)
  return path
end

-- Compiles a source; adds the files that it was made of.
local function compile_source(request, about, source, number, folder, files)
  local object = ("%s/%d.o"):format(folder, number)
  local path, rule = source_path(request, source, folder), object .. ".d"
  local is_cuda = path:find "%.cu$" ~= nil
  local command = append({}, is_cuda and about.nvcc.command or about.cxx.command,
    is_cuda and about.cuda_flags or about.cxx_flags)
  if not is_cuda then append(command, about.precompiled.flags) end
  append(command, { "-I" .. about.headers, "-MD", "-MF", rule, "-c", path, "-o", object })
  run(request, command, folder, path:match "[^/]*$")
  append(files,
    dependencies.outside(dependencies.parse(tools.read(rule, request.caller)), folder))
  return object
end

-- Compiles all into a library in `folder`; returns its path and the files that it was made of.
local function compile(request, about, folder)
  local objects, files = {}, {}
  for i, source in ipairs(request.sources) do
    objects[i] = compile_source(request, about, source, i, folder, files)
  end
  local path = folder .. "/library.so"
  run(request, append({}, about.cxx.command, { "-shared", "-o", path }, objects,
    about.link_flags), folder, "linking")
  return path, files
end

-- Removes what builds have left that were cut off; nobody else builds here now.
local function remove_leftovers(folder)
  for _, name in ipairs(system.list(folder)) do
    if name:find "^build%-" then tools.remove_folder(folder .. "/" .. name) end
  end
end

-- Puts a library that was compiled in `from` into the folder, and notes what it was made of.
local function keep(request, about, folder, path, files, began)
  local known = {}
  for _, note in ipairs(about.precompiled.files) do known[note[1]] = note end
  local notes = dependencies.note(files, began, known)
  for _, note in ipairs(about.precompiled.files) do notes[#notes + 1] = note end
  local size = tools.stat(path)
  local hash = tools.hash(tools.read(path, request.caller)):sub(1, 16)
  local name = ("%s-%s.so"):format(request.name, hash)
  assert(os.rename(path, folder .. "/" .. name))
  local libraries = { { file = name, size = size, files = notes } }
  for _, library in ipairs(read_manifest(folder)) do
    if library.file ~= name and #libraries < MOST_LIBRARIES then
      libraries[#libraries + 1] = library
    elseif library.file ~= name then
      os.remove(folder .. "/" .. library.file)
    end
  end
  write_manifest(folder, libraries)
  return folder .. "/" .. name
end

local folder_guard = { __close = function(self) tools.remove_folder(self.path) end }

-- Builds into the folder, whose lock is held.
local function build_into(request, about, folder)
  remove_leftovers(folder)
  local work = tools.temporary_folder(folder .. "/build-")
  local _ <close> = setmetatable({ path = work }, folder_guard)
  local _, began = tools.stat(work)
  about.precompiled = precompiled.find(request, about)
  local path, files = compile(request, about, work)
  return keep(request, about, folder, path, files, began)
end

-- The compilers and flags that a request needs.
local function find_compilers(request, cache)
  local caller, about = request.caller, {}
  about.headers = build.find_headers(caller)
  about.cache = cache
  local function known(command)
    local described = compiler.describe(command, cache)
    return { command = command, text = described.text, kind = described.kind }
  end
  about.cxx = known(compiler.find_cxx(caller))
  local includes = {}
  for i, folder in ipairs(request.include) do includes[i] = "-I" .. tools.absolute(folder) end
  about.own_flags = append({}, request.flags, includes)
  about.cxx_flags = append(compiler.cxx_flags(about.cxx), about.own_flags)
  about.cuda_flags, about.link_flags = {}, append({}, request.link_flags)
  for _, source in ipairs(request.sources) do
    if (source.path or source.suffix):find "%.cu$" and not about.nvcc then
      about.nvcc = known(compiler.find_nvcc(caller))
      about.cuda_flags = append(compiler.cuda_flags(about.cxx.command, request.cuda_flags),
        request.cuda_flags, includes)
      append(about.link_flags, compiler.cuda_link_flags(about.nvcc.command))
    end
  end
  return about
end

--- The library of a request: { caller, name, sources, flags, cuda_flags, link_flags, include,
--- build_directory, verbose }. `use` is called with its path, and what it returns is returned, with
--- the path and whether it was compiled now. Where nothing is kept the file is gone afterwards.
---@param request table
---@param use fun(path: string): any
---@return any result
---@return string path
---@return boolean built
function build.library(request, use)
  local cache = tools.cache_folder()
  local base = request.build_directory and tools.absolute(request.build_directory) or cache
  if not base then
    local folder = tools.temporary_folder((system.getenv "TMPDIR" or "/tmp") .. "/moonlet-ext-")
    local _ <close> = setmetatable({ path = folder }, folder_guard)
    local path = build_into(request, find_compilers(request, nil), folder)
    return use(path), path, true
  end
  if cache then cache = tools.absolute(cache) end
  local about = find_compilers(request, cache)
  if not request.build_directory then base = base .. "/extensions" end
  local folder = ("%s/%s-%s"):format(base, request.name, key_of(request, about))
  tools.make_folder(folder)
  local path = find_library(folder)
  if path then return use(path), path, false end
  local _ <close> = steps.lock(request, folder)
  -- Another process may have built it meanwhile.
  path = find_library(folder)
  if path then return use(path), path, false end
  path = build_into(request, about, folder)
  return use(path), path, true
end

return build
