-- tests/fuzz/readers.lua: the files of tests/fuzz/corpus, each as it is and changed in many ways: every
-- reader gives a value or an error that can be caught and says what it is about.
-- usage: moonlet readers.lua [CHANGES_PER_FILE [SEED [KIND]]]
-- MOONLET_FUZZ_LOG names a file that holds the bytes that are read, for when the process dies.
-- The files are read in a process whose address space is limited, and none may make it take more than
-- 1.5 GiB, or read for longer than anybody waits.

local here = arg[0]:match "^(.*)/" or "."
-- A sanitizer maps terabytes.
local limited = (os.getenv "MOONLET_SANITIZE" or "none") == "none"
if limited and not os.getenv "MOONLET_FUZZ_LIMITED" then
  local words = { arg[-1], arg[0], table.unpack(arg) }
  for i, word in ipairs(words) do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local _, _, status = os.execute("ulimit -v 4194304; MOONLET_FUZZ_LIMITED=1 exec " .. table.concat(words, " "))
  os.exit(status)
end
package.path = here .. "/?.lua;" .. package.path
local read_one = require "read_one"
local system = require "moonlet.system"

local changes, seed, only = tonumber(arg[1]) or 60, tonumber(arg[2]) or 1, arg[3]
local log_path = os.getenv "MOONLET_FUZZ_LOG"
local folder = here .. "/corpus"
warn "@off"  -- what is left out is no news here

local scratch = log_path and log_path .. ".readers" or os.tmpname()
local count, problems = 0, 0

local function write(path, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(bytes)
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local MOST_MIB, MOST_SECONDS = 1536, 60

-- What this process has taken at most, in MiB, where the system tells.
local function peak()
  local file <close> = io.open "/proc/self/status"
  return file and (tonumber(file:read "a":match "VmHWM:%s+(%d+)") or 0) // 1024 or 0
end

local most = MOST_MIB
local function check(bytes, kind, name)
  local path = scratch .. "." .. kind
  write(path, bytes)
  local start = os.clock()
  local wrong = read_one(path, kind)
  count = count + 1
  if limited and peak() > most then
    wrong = wrong or ("a file of %d bytes takes %d MiB"):format(#bytes, peak())
    most = math.huge -- the peak stays
  elseif limited and os.clock() - start > MOST_SECONDS then
    wrong = wrong or ("a file of %d bytes takes %.0f seconds"):format(#bytes, os.clock() - start)
  end
  if wrong then
    problems = problems + 1
    local kept = ("%s.problem%d.%s"):format(scratch, problems, kind)
    os.rename(path, kept)
    print(("FAIL %s, kept as %s:\n  %s"):format(name, kept, wrong))
  end
  os.remove(path)
end

-- Numbers that sizes and offsets are likely to be wrong about.
local EDGES = { 0, 1, -1, 127, 255, 32767, 65535, (1 << 31) - 1, 1 << 31, 0xffffffff, 1 << 32, math.maxinteger,
  math.mininteger }
local WIDTHS = { 1, 2, 4, 8 }

local function pick(list) return list[math.random(#list)] end

-- One change of bytes, of those that are longer than none.
local CHANGES = {
  function(bytes, at) return bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1) end,
  function(bytes, at) return bytes:sub(1, at - 1) end,
  function(bytes, at) return bytes:sub(1, at - 1) .. bytes:sub(at + math.random(8)) end,
  function(bytes, at)
    local to = math.random(#bytes)
    return bytes:sub(1, at) .. bytes:sub(to, to + math.random(64)) .. bytes:sub(at + 1)
  end,
  function(bytes, at)
    local width = pick(WIDTHS)
    local number = (pick { "<i8", ">i8" }):pack(pick(EDGES))
    return bytes:sub(1, at - 1) .. number:sub(1, width) .. bytes:sub(at + width)
  end,
  -- What is repeated asks for much.
  function(bytes, at)
    local part = bytes:sub(at, at + math.random(40))
    return bytes:sub(1, at - 1) .. part:rep(math.random(2000)) .. bytes:sub(at)
  end,
}

local function changed(bytes)
  for _ = 1, math.random(3) do
    if #bytes > 0 then bytes = pick(CHANGES)(bytes, math.random(#bytes)) end
  end
  return bytes
end

for _, kind in ipairs(system.list(folder)) do
  kind = kind:gsub("/$", "")
  if not only or kind == only then
    local names = system.list(folder .. "/" .. kind)
    table.sort(names)
    for _, name in ipairs(names) do
      local bytes = read(("%s/%s/%s"):format(folder, kind, name))
      math.randomseed(seed)
      check(bytes, kind, name)
      for i = 1, changes do check(changed(bytes), kind, ("%s, change %d"):format(name, i)) end
    end
  end
end
if not log_path then os.remove(scratch) end
print(("%d files read, %d problems"):format(count, problems))
os.exit(problems == 0 and count > 0 and 0 or 1)
