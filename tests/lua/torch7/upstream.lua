-- tests/lua/torch7/upstream.lua: scripts of Torch7's own packages, in the folder that MOONLET_TORCH7 names, run
-- each in a process and a working folder of its own.

local harness = require "harness"
local system = require "moonlet.system"

local upstream = {}

local folder = os.getenv "MOONLET_TORCH7"
if folder == "" then folder = nil end

--- The path of a file or folder of upstream's; a skip of the running test where there is none.
---@param name string such as "torch7/test/test.lua"
function upstream.path(name)
  local path = folder and folder .. "/" .. name
    or harness.skip "MOONLET_TORCH7 names no folder with Torch7's packages"
  if not system.exists(path) then harness.skip(("%s has no %s"):format(folder, name)) end
  return path
end

local function quoted(text) return "'" .. tostring(text):gsub("'", "'\\''") .. "'" end
upstream.quoted = quoted

-- What every script runs first: the packages are found in the folder.
local HEAD = [[
package.path = UPSTREAM .. "/?.lua;" .. UPSTREAM .. "/?/init.lua;" .. package.path
]]

--- What a script under `moonlet --torch7` prints, and whether it succeeded. It finds the folder of the packages in the
--- global UPSTREAM, and may call error() to fail.
---@param script string its text
---@param options? table `arguments` of the script, `flags` of moonlet's, `files` to write beside the script by name
function upstream.run(script, options)
  options = options or {}
  local work = os.tmpname()
  os.remove(work)
  system.make_folder(work, "test")
  local files = { ["driver.lua"] = ("UPSTREAM = %q\n"):format(folder) .. HEAD .. script }
  for name, text in pairs(options.files or {}) do files[name] = text end
  for name, text in pairs(files) do
    if name:find "/" then system.make_folder(work .. "/" .. name:match "^(.*)/", "test") end
    local out <close> = assert(io.open(work .. "/" .. name, "wb"))
    out:write(text)
  end
  local words = {}
  for i, word in ipairs(options.arguments or {}) do words[i] = quoted(word) end
  local command = ("cd %s && OMP_NUM_THREADS=1 %s --torch7 %s driver.lua %s 2>&1; echo status $?"):format(
    quoted(work), quoted(system.executable()), options.flags or "", table.concat(words, " "))
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  os.execute("rm -r " .. quoted(work))
  return text, text:find "status 0\n" ~= nil
end

return upstream
