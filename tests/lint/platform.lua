-- tests/lint/platform.lua: what is of one system alone goes through tensor/core/platform/: its headers
-- are included nowhere else, and nothing else asks which system it is. What is there for one system
-- is there for the others.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local LAYER = "tensor/core/platform/"

-- By nature of POSIX or of Linux. Each must be there and need it, so that the list stays short.
local EXCEPTIONS = {
  ["interp/cli/editor.cpp"] = "libedit on terminals; editor_plain.cpp stands in for it",
  ["interp/cli/terminal_keys.cpp"] = "what terminals send, for libedit",
  ["cuda/loops/cache.cpp"] = "the CUDA backend is built on Linux",
  ["cuda/libraries/library.cpp"] = "the same; the loader looks beside who calls it",
  ["cuda/emulated/fiber.cpp"] = "the emulation of CUDA is for tests on Linux",
  ["cuda/emulated/library.cpp"] = "the same",
  ["cuda/emulated/nccl.cpp"] = "the same",
  ["cuda/emulated/nvrtc.cpp"] = "the same",
  ["cuda/emulated/watch.cpp"] = "the same",
  ["interp/distributed/file_store.cpp"] = "Gloo, and with it the plugin, is built on Linux",
  ["interp/distributed/group.cpp"] = "the same",
  ["interp/distributed/launch.cpp"] = "the same",
  ["interp/distributed/mpi_library.cpp"] = "the same of MPI",
  ["interp/distributed/sockets.cpp"] = "the same",
  ["interp/distributed/store_server.cpp"] = "the same",
}

local HEADERS = {}
for name in ([[unistd.h dlfcn.h fcntl.h signal.h csignal pthread.h sched.h termios.h poll.h dirent.h glob.h
  execinfo.h langinfo.h locale.h link.h spawn.h io.h windows.h winsock2.h process.h direct.h syslog.h
  mach-o/dyld.h]]):gmatch "%S+" do
  HEADERS[name] = true
end
local MACROS = { "_WIN32", "_WIN64", "__MINGW", "__linux", "__APPLE__", "__unix", "__GLIBC__",
  "EMSCRIPTEN", "__wasm" }

local problems, used, seen = {}, {}, 0
local function problem(path, number, text)
  if EXCEPTIONS[path] then
    used[path] = true
  else
    problems[#problems + 1] = ("%s:%d: %s"):format(path, number, text)
  end
end

local function check(path, text)
  local number = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local header = line:match "^%s*#%s*include%s*<([^>]+)>"
    if header and (HEADERS[header] or header:find "^sys/" or header:find "^emscripten") then
      problem(path, number, ("<%s> is included; %s is where the system is used"):format(header, LAYER))
    end
    for _, macro in ipairs(line:find "^%s*#" and MACROS or {}) do
      if line:find(macro, 1, true) then
        problem(path, number, ("%s is asked for; %s is where systems differ"):format(macro, LAYER))
      end
    end
  end
end

local forms = {}
for _, path in ipairs(files.list(root)) do
  local folder = path:match "^(%w+)/"
  local is_ours = folder == "tensor" or folder == "autograd" or folder == "interp" or folder == "cuda"
  local text = is_ours and files.is_source(path) and not path:find "%.lua$" and files.read(root, path)
  if path:sub(1, #LAYER) == LAYER then
    local name, system = path:match "([%w_]+)_(%l+)%.cpp$"
    if not (system == "posix" or system == "windows" or system == "wasm") then name = nil end
    if name then
      forms[name] = forms[name] or {}
      forms[name][system] = path
    end
  elseif text then
    seen = seen + 1
    check(path, text)
  end
end

-- files_windows.cpp has what takes POSIX a file of its own; texts and names are Windows' alone, and
-- emscripten's C++ library alone lacks numbers as texts. WebAssembly has the form of POSIX where it
-- has none of its own.
local ALONE = { write_file = "posix", text = "windows", charconv = "wasm" }
local layer = 0
for name, systems in pairs(forms) do
  layer = layer + 1
  for _, system in ipairs { "posix", "windows" } do
    if not systems[system] and not (ALONE[name] and systems[ALONE[name]]) then
      problems[#problems + 1] = ("%s%s_%s.cpp is missing"):format(LAYER, name, system)
    end
  end
end
for path, reason in pairs(EXCEPTIONS) do
  if not used[path] then
    problems[#problems + 1] = ("%s needs no exception (%s)"):format(path, reason)
  end
end
if seen == 0 or layer == 0 then problems[#problems + 1] = "no files found in " .. root end
table.sort(problems)
files.finish("platform", problems)
