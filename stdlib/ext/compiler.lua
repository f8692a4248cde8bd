-- stdlib/ext/compiler.lua: the compilers of extensions: which ones there are, what is known of
-- them, and their command lines.

local json = require "moonlet.json"
local options = require "moonlet.options"
local system = require "moonlet.system"
local tools = require "moonlet.extension_tools"
local fail = options.fail

local compiler = {}

--- What C++ is compiled with, without what a request adds. No symbol is one of the whole process
--- (STB_GNU_UNIQUE): two builds of an extension may be loaded beside each other.
local COMMON = { "-std=c++20", "-O3", "-fPIC", "-DNDEBUG" }
local OF_GCC = { "-fno-gnu-unique" }
local CUDA = { "-std=c++20", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC" }
-- For a toolkit without a device to compile for: what the kernels of Moonlet are compiled for, too.
local CUDA_CAPABILITY = 80

--- The words of a text, or a copy of a list of them.
---@param given? string|string[]
---@return string[]
function compiler.words(given)
  local out = {}
  if type(given) == "string" then
    for word in given:gmatch "%S+" do out[#out + 1] = word end
  else
    table.move(given or {}, 1, #(given or {}), 1, out)
  end
  return out
end

--- A text as a list of one, or the list itself.
---@param given? string|string[]
---@return string[]
function compiler.list(given)
  return type(given) == "string" and { given } or given or {}
end

local function append(list, ...)
  for _, more in ipairs { ... } do table.move(more, 1, #more, #list + 1, list) end
  return list
end
compiler.append = append

-- The words of a command whose first is a program that is there: its path in front.
local function command_of(words)
  local path = words[1] and tools.find_program(words[1])
  return path and append({ path }, { table.unpack(words, 2) })
end

--- The C++ compiler as the first words of a command: CXX of the environment, else c++, g++ or
--- clang++. An error that begins with `caller` where there is none.
---@param caller string
---@return string[]
function compiler.find_cxx(caller)
  local wanted = system.getenv "CXX"
  if wanted and wanted:find "%S" then
    return command_of(compiler.words(wanted))
      or fail("%s: there is no C++ compiler: CXX says '%s', which is no program", caller, wanted)
  end
  for _, name in ipairs { "c++", "g++", "clang++" } do
    local command = command_of { name }
    if command then return command end
  end
  return fail("%s: there is no C++ compiler: looked for c++, g++ and clang++ in PATH; install one "
    .. "(Debian: g++), or name one in the environment variable CXX", caller)
end

--- NVIDIA's compiler: CUDACXX of the environment, that of CUDA_HOME or CUDA_PATH, else nvcc in PATH
--- or in /usr/local/cuda.
---@param caller string
---@return string[]
function compiler.find_nvcc(caller)
  local wanted = system.getenv "CUDACXX"
  if wanted and wanted:find "%S" then
    return command_of(compiler.words(wanted))
      or fail("%s: there is no CUDA compiler: CUDACXX says '%s', which is no program", caller,
        wanted)
  end
  for _, variable in ipairs { "CUDA_HOME", "CUDA_PATH" } do
    local home = system.getenv(variable)
    local command = home and home ~= "" and command_of { home .. "/bin/nvcc" }
    if command then return command end
  end
  return command_of { "nvcc" } or command_of { "/usr/local/cuda/bin/nvcc" }
    or fail("%s: sources for CUDA need NVIDIA's compiler: looked for nvcc in PATH, CUDA_HOME, "
      .. "CUDA_PATH and /usr/local/cuda; name it in the environment variable CUDACXX", caller)
end

-- What tells one installed program from another without running it.
local function identity_of(command)
  local out = {}
  for _, word in ipairs(command) do
    local path = tools.find_program(word)
    local size, time
    if path then
      path = tools.real_path(path)
      size, time = tools.stat(path)
    end
    out[#out + 1] = ("%s %s %d %d"):format(word, path or "", size or 0, time or 0)
  end
  return table.concat(out, "\n")
end

-- The versions that compilers have told, by their identities.
local versions = {}

--- Which compiler a command is: what it tells as its version, which is asked once for each program
--- and kept in the cache's folder.
---@param command string[]
---@param cache? string
---@return string
function compiler.describe(command, cache)
  local identity = identity_of(command)
  if versions[identity] then return versions[identity] end
  local path = cache and ("%s/compilers/%s.json"):format(cache, tools.hash(identity):sub(1, 32))
  local known = path and tools.stat(path)
    and json.decode(tools.read(path, "ext"))
  if not (known and known.identity == identity) then
    local status, output = tools.run(append({}, command, { "--version" }), {})
    known = { identity = identity, version = ("%d %s"):format(status, output) }
    if path then
      tools.make_folder(cache .. "/compilers")
      system.write_file(path, json.encode(known), "ext")
    end
  end
  local kind = known.version:find "clang" and "clang" or "gcc"
  versions[identity] = { text = identity .. "\n" .. known.version, kind = kind }
  return versions[identity]
end

--- The flags that all C++ of extensions is compiled with by that compiler.
---@param about table of `describe`
---@return string[]
function compiler.cxx_flags(about)
  return append({}, COMMON, about.kind == "gcc" and OF_GCC or {})
end

--- The flags for CUDA, with the host's compiler, and the capability of the device that is there
--- unless `given` says for which ones.
---@param cxx string[]
---@param given string[]
---@return string[]
function compiler.cuda_flags(cxx, given)
  local out = append({}, CUDA, { "-ccbin", cxx[1] })
  for _, flag in ipairs(given) do
    if flag:find "^%-%-?gencode" or flag:find "^%-%-?arch" or flag:find "^%-%-?gpu%-" then
      return out
    end
  end
  local ml = require "moonlet"
  local capability = CUDA_CAPABILITY
  if ml.cuda.is_available() then
    local major, minor = ml.cuda.get_device_capability()
    capability = 10 * major + minor
  end
  return append(out, { ("-gencode=arch=compute_%d,code=sm_%d"):format(capability, capability),
    ("-gencode=arch=compute_%d,code=compute_%d"):format(capability, capability) })
end

--- The folder of the toolkit's libraries beside nvcc, and what its runtime is linked by.
---@param nvcc string[]
---@return string[]
function compiler.cuda_link_flags(nvcc)
  local home = tools.real_path(nvcc[1]):match "^(.*)/bin/[^/]+$" or "/usr/local/cuda"
  local out = {}
  local folders = { "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib" }
  for _, folder in ipairs(folders) do
    local path = ("%s/%s"):format(home, folder)
    if tools.stat(path .. "/libcudart_static.a") then
      append(out, { "-L" .. path })
      break
    end
  end
  return append(out, { "-lcudart_static", "-lrt", "-lpthread", "-ldl" })
end

return compiler
