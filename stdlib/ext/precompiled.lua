-- stdlib/ext/precompiled.lua: moonlet/extension.h, compiled once for all extensions: it is most of
-- what a small one takes.

local compiler = require "moonlet.ext.compiler"
local dependencies = require "moonlet.ext.dependencies"
local json = require "moonlet.json"
local steps = require "moonlet.ext.steps"
local system = require "moonlet.system"
local tools = require "moonlet.extension_tools"
local append = compiler.append

local precompiled = {}

local FORMAT = "moonlet header 1"
local HEADER = "moonlet/extension.h"
local NONE = { flags = {}, files = {} }

-- How a compiler finds the header in the folder: g++ looks for NAME.gch in each folder of includes
-- before it looks for NAME, takes it where it is the first that a source includes and the flags
-- allow, and the header itself otherwise; clang++ is told to take it.
local forms = {
  gcc = {
    file = HEADER .. ".gch",
    flags = function(folder) return { "-I" .. folder } end,
  },
  clang = {
    file = "extension.pch",
    flags = function(folder) return { "-include-pch", folder .. "/extension.pch" } end,
  },
}

local function read_notes(folder)
  local path = folder .. "/header.json"
  if not tools.stat(path) then return nil end
  local good, value = pcall(json.decode, tools.read(path, "ext"))
  return good and type(value) == "table" and value.format == FORMAT and value or nil
end

-- What is kept of it, where it is still made of the same files.
local function find_made(folder, form)
  local notes = read_notes(folder)
  if not notes or tools.stat(("%s/%s"):format(folder, form.file)) ~= notes.size then return nil end
  if not dependencies.unchanged(notes.files) then return nil end
  return { flags = form.flags(folder), files = notes.files }
end

local folder_guard = { __close = function(self) tools.remove_folder(self.path) end }

-- Compiles the header into the folder, whose lock is held. What fails is no precompiled header.
local function make(request, about, folder, form)
  local work = tools.temporary_folder(folder .. "/build-")
  local _ <close> = setmetatable({ path = work }, folder_guard)
  local _, began = tools.stat(work)
  local source, made, rule = work .. "/source.h", work .. "/header", work .. "/header.d"
  -- As a main file a header would not note that it is included once.
  system.write_file(source, ("#include <%s>\n"):format(HEADER), "ext")
  local command = append({}, about.cxx.command, compiler.cxx_flags(about.cxx),
    { "-x", "c++-header", "-I" .. about.headers, "-MD", "-MF", rule, source, "-o", made })
  local status = steps.run(request, command, work,
    "the headers of Moonlet, once for all extensions")
  if status ~= 0 then return NONE end
  local paths = dependencies.outside(dependencies.parse(tools.read(rule, request.caller)), work)
  local files = dependencies.note(paths, began)
  local path = ("%s/%s"):format(folder, form.file)
  os.remove(folder .. "/header.json")
  assert(os.rename(made, path))
  local size = tools.stat(path)
  system.write_file(folder .. "/header.json",
    json.encode { format = FORMAT, size = size, files = files }, "ext")
  return { flags = form.flags(folder), files = files }
end

--- The flags with which a source is compiled with the precompiled header, and the notes of the
--- files that it was made of. There is none where nothing is kept, nor for flags of a request that
--- clang would refuse with it.
---@param request table
---@param about table of moonlet.ext.build
---@return table
function precompiled.find(request, about)
  local form = forms[about.cxx.kind]
  if not form or not about.cache then return NONE end
  if about.cxx.kind == "clang" and #about.own_flags > 0 then return NONE end
  local key = tools.hash(table.concat({ FORMAT, tools.abi(), about.headers, about.cxx.text,
    table.concat(compiler.cxx_flags(about.cxx), "\0") }, "\1")):sub(1, 32)
  local folder = ("%s/extensions/headers-%s"):format(about.cache, key)
  tools.make_folder(folder)
  local made = find_made(folder, form)
  if made then return made end
  local _ <close> = steps.lock(request, folder)
  made = find_made(folder, form)
  if made then return made end
  if about.cxx.kind == "gcc" then tools.make_folder(folder .. "/moonlet") end
  return make(request, about, folder, form)
end

return precompiled
