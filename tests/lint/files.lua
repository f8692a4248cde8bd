-- tests/lint/files.lua: the project's own source files, for the checks of the tree.

local files = {}

-- Every file git tracks or would, relative to `root`; without git, what find gives.
function files.list(root)
  local command = ("cd '%s' && (git ls-files --cached --others --exclude-standard 2>/dev/null ||" ..
    " find . -type f -not -path './build*' | sed 's|^./||')"):format(root)
  local out = {}
  for line in assert(io.popen(command)):lines() do out[#out + 1] = line end
  table.sort(out)
  return out
end

function files.read(root, path)
  local file = io.open(root .. "/" .. path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

-- Whether a path is source code: C++, CUDA or Lua.
function files.is_source(path)
  return path:find "%.cpp$" or path:find "%.h$" or path:find "%.cu$" or path:find "%.cuh$" or path:find "%.lua$"
end

-- Prints the problems and ends the process: 1 if there are any.
function files.finish(name, problems)
  for _, problem in ipairs(problems) do print(problem) end
  print(("%s: %d problem%s"):format(name, #problems, #problems == 1 and "" or "s"))
  os.exit(#problems == 0 and 0 or 1)
end

return files
