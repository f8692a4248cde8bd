-- tests/hostile/run.lua: attacks the interpreter with the snippets of a family, and checks that each
-- does what its row says and that nothing crashes, hangs or leaves files behind.
-- usage: lua run.lua MOONLET HOSTILE-THREADS FAMILY [NAME-PART]
--
-- tests/hostile/FAMILY.lua returns rows { name, code, ... } with what must come:
--   gives = TEXT       its results, as text, with ", " between them
--   fails = PATTERN    it raises an error that matches
--   exit = STATUS      it runs in a process of its own, which ends so; a list for one of several.
--                      A signal counts as 128 and its number
-- A process of its own may have:
--   out, err = PATTERN   what it writes (default: nothing for `err`); {PATTERN, ...} for several
--   signals = { SECONDS, NAME, ... }   sent one after the other once it has written something
--   setup = COMMANDS   of the shell, in the folder where it runs
--   limit = KIB        of its address space
--   input = TEXT       on its standard input
--   run = ARGUMENTS    of the interpreter; the code is then the file code.lua
--   threads = COUNT    an interpreter for each of so many threads runs code.lua
--   limits = { LUA, TENSORS, MILLISECONDS }   an interpreter with these limits, of MiB, runs code.lua; it
--                      must be usable afterwards
--   peak = MIB, seconds = SECONDS   what such a process may take at most
--   leaves = NAMES     of the files that it must leave behind, sorted, with a space between them
--   may_leave = PATTERN   of names that it may leave behind besides
-- `sanitized = REASON` skips such a row under a sanitizer.

local moonlet, threads_program, family, part = arg[1], arg[2], arg[3], arg[4] or ""
local here = arg[0]:match "^(.*)/" or "."
local sanitized = (os.getenv "MOONLET_SANITIZE" or "none") ~= "none"
local PATIENCE = sanitized and 120 or 40 -- seconds for a process

local function output_of(command)
  local process <close> = assert(io.popen(command))
  local text = process:read "a"
  return text:match "^(.-)\n?$"
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

here = output_of("realpath " .. quote(here))
moonlet = output_of("realpath " .. quote(moonlet))
threads_program = output_of("realpath " .. quote(threads_program))
local folder = output_of "mktemp -d"
local work = folder .. "/work" -- where snippets run
local snippets = dofile(("%s/%s.lua"):format(here, family))
local counts = { passed = 0, failed = 0, skipped = 0 }

local function read(name)
  local file <close> = io.open(folder .. "/" .. name, "rb")
  return file and file:read "a" or ""
end

local function write(name, text)
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  assert(file:write(text))
end

local function fail(row, reason)
  counts.failed = counts.failed + 1
  print(("FAIL %s: %s: %s"):format(family, row[1], reason))
end

-- What no process may write: the end of a program that noticed its own fault.
local ALARMS = { "AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "terminate called",
  "Assertion .* failed", "free%(%): ", "malloc%(%): ", "corrupted", "Segmentation fault", "stack smashing" }

local function alarm_in(text)
  for _, pattern in ipairs(ALARMS) do
    local from = text:find(pattern)
    if from then return text:sub(math.max(1, from - 200), from + 2000) end
  end
  return nil
end

local function matches(text, patterns)
  for _, pattern in ipairs(type(patterns) == "table" and patterns or { patterns }) do
    if not text:find(pattern) then return ("%q is not in %q"):format(pattern, text:sub(1, 600)) end
  end
  return nil
end

-- The names in the folder of the snippets that ran; empties it.
local function leftover()
  local names = output_of(("cd %s && ls -A"):format(work)):gsub("\n", " ")
  assert(os.execute(("chmod -R u+rwx %s; rm -rf %s; mkdir %s"):format(work, work, work)))
  return names
end

-- The shell's commands that send signals to the process once it has written something.
local function signalling(signals)
  local out = { "n=0; while [ ! -s ../out ] && [ $n -lt 2000 ]; do sleep 0.02; n=$((n + 1)); done" }
  for i = 1, #signals, 2 do
    out[#out + 1] = ("sleep %g; kill -s %s $(cat ../pid) 2>../kill"):format(signals[i], signals[i + 1])
  end
  return table.concat(out, "\n")
end

-- Runs an interpreter, and returns the exit status that a shell sees.
local function run_process(row, arguments, program)
  local limit = row.limit and not sanitized and ("ulimit -v %d; "):format(row.limit) or ""
  local script = { ("cd %s; rm -f ../out ../err ../pid"):format(work),
    ("timeout -k 2 %d sh -c 'echo $$ >../pid; %sexec \"$@\"' sh %s %s <../input >../out 2>../err &")
      :format(PATIENCE, limit, program or quote(moonlet), arguments),
    row.signals and signalling(row.signals) or "", "wait $!; echo $?" }
  if row.setup then table.insert(script, 2, row.setup) end
  write("input", row.input or "")
  write("script", table.concat(script, "\n"))
  local status = output_of(("sh %s/script 2>/dev/null"):format(folder))
  return assert(tonumber(status), status)
end

local function wanted_status(row, status)
  for _, wanted in ipairs(type(row.exit) == "table" and row.exit or { row.exit }) do
    if wanted == status then return true end
  end
  return false
end

-- What is wrong with a process that has ended, or nil.
local function complaint(row, status)
  local out, err = read "out", read "err"
  if status == 124 or status == 137 and not wanted_status(row, 137) then return "hangs" end
  local alarm = alarm_in(err)
  if alarm then return alarm end
  if not wanted_status(row, status) then return ("exit status %d; stderr: %s"):format(status, err:sub(1, 800)) end
  local wrong = row.out and matches(out, row.out) or matches(err, row.err or "^$")
  if wrong then return wrong end
  if not row.limits then return nil end
  local peak, seconds = tonumber(out:match "peak (%d+) MiB"), tonumber(out:match "took ([%d.]+) s")
  if not out:find "\ngoes on\n" then return out end
  if row.peak and not sanitized and peak > row.peak then return ("takes %d MiB: %s"):format(peak, out) end
  if row.seconds and not sanitized and seconds > row.seconds then return ("takes %g s: %s"):format(seconds, out) end
  return nil
end

local function run_alone(number, row)
  local status
  if row.run or row.threads or row.limits then
    write("code.lua", row[2])
    local program = row.threads and ("%s %d"):format(quote(threads_program), row.threads)
      or row.limits and ("%s %d %d %d"):format(quote(threads_program), table.unpack(row.limits))
    status = run_process(row, row.run or "../code.lua", program)
  else
    status = run_process(row, ("%s/snippet.lua %s/%s.lua alone %d"):format(quote(here), quote(here), family, number))
  end
  local wrong = complaint(row, status)
  local left = leftover()
  local needed = row.may_leave and left:gsub(" " .. row.may_leave, "") or left
  if not wrong and needed ~= (row.leaves or "") then wrong = "leaves the files " .. left end
  if wrong then return fail(row, wrong) end
  counts.passed = counts.passed + 1
end

-- Counts what the lines about snippets in one process say. Returns the number of the snippet that
-- had not ended, if any.
local function count_results(text)
  local running
  for line in text:gmatch "[^\n]+" do
    local number = tonumber(line:match "^run (%d+)$")
    if number then
      running = number
    elseif line ~= "done" then
      if line == "passed" then counts.passed = counts.passed + 1
      else fail(snippets[running], (line:gsub("^failed: ", ""))) end
      running = nil
    end
  end
  return running
end

-- Runs the snippets that share a process; after a crash goes on behind the one that crashed.
local function run_shared()
  local first = 1
  while first <= #snippets do
    write("results", "")
    local status = run_process({}, ("%s/snippet.lua %s/%s.lua ../results %d %s"):format(quote(here), quote(here),
      family, first, quote(part)))
    local results, err = read "results", read "err"
    local running = count_results(results)
    local alarm = alarm_in(err) or not running and status ~= 0 and ("exit status %d: %s"):format(status, err)
    local what = { "after " .. family, "" }
    if running then fail(snippets[running], ("ends the process, status %d: %s"):format(status, alarm or err))
    elseif alarm then fail(what, alarm) end
    local left = leftover()
    if left ~= "" then fail(what, "files are left: " .. left) end
    first = running and running + 1 or #snippets + 1
  end
end

local function run_or_skip(number, row)
  if not sanitized or not row.sanitized then return run_alone(number, row) end
  counts.skipped = counts.skipped + 1
  print(("SKIP %s: %s"):format(row[1], row.sanitized))
end

assert(os.execute("mkdir " .. work))
run_shared()
for number, row in ipairs(snippets) do
  if row.exit and row[1]:find(part, 1, true) then run_or_skip(number, row) end
end
os.execute("rm -rf " .. folder)
print(("%d passed, %d failed, %d skipped"):format(counts.passed, counts.failed, counts.skipped))
os.exit(counts.failed == 0 and 0 or 1)
