-- tests/lua/harness.lua: the small test runner of all Lua tests. A test file requires it, calls
-- `test(name, f)` and ends with `harness.run()`; a command-line argument runs only the tests
-- whose name contains it.

local harness = {}
local expect = {}
harness.expect = expect

-- What devices compute is compared with the CPU, whose float32 is float32 throughout.
require("moonlet").backends.cudnn.allow_tf32 = false

local tests = {}
local SKIP = {}
local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."

-- Modules that are not built into the interpreter come from the source tree.
local function find_in_tree(name)
  local path = name:match("^moonlet%.(.+)$")
  if not path then return nil end
  path = here .. "/../../stdlib/" .. path:gsub("%.", "/") .. ".lua"
  local loader, message = loadfile(path)
  if loader then return loader, path end
  return "\n\t" .. message
end
table.insert(package.searchers, find_in_tree)

--- Adds a test; it passes when `f` returns.
---@param name string
---@param f fun()
function harness.test(name, f)
  local at = debug.getinfo(2, "Sl")
  tests[#tests + 1] = { name = name, run = f, at = ("%s:%d"):format(at.short_src, at.currentline) }
end

--- Ends the running test as skipped and prints why.
---@param reason string
function harness.skip(reason)
  error({ [SKIP] = true, reason = reason }, 0)
end

--- The value of MOONLET_DATA, the folder of extra data, or a skip of the running test.
---@return string
function harness.data_dir()
  return os.getenv("MOONLET_DATA") or harness.skip("MOONLET_DATA is not set")
end

-- The folder of a locale that writes 1.5 as 1,5, made once and removed at the end; false where it
-- cannot be made.
local locale_folder = setmetatable({}, { __gc = function(self)
  if self.path then os.execute(("rm -rf '%s'"):format(self.path)) end
end })

local function find_locale_folder()
  if locale_folder.path == nil then
    local path = os.tmpname()
    os.remove(path)
    local made = os.execute(("mkdir '%s' && localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' 2>/dev/null")
      :format(path, path))
    if not made then os.execute(("rm -rf '%s'"):format(path)) end
    locale_folder.path = made and path or false
  end
  return locale_folder.path
end

--- What a script prints, errors as well, that runs in an interpreter of its own with a locale that
--- writes 1.5 as 1,5; a skip of the running test where no such locale can be made.
---@param script string without double quotes
---@return string
function harness.run_with_decimal_commas(script)
  if not arg[-1] then harness.skip "the interpreter's path is not known" end
  local folder = find_locale_folder() or harness.skip "localedef cannot make a locale"
  script = "assert(os.setlocale 'de_DE.UTF-8' and ('%.1f'):format(1.5) == '1,5') " .. script
  local command = ("LOCPATH='%s' '%s' -e \"%s\" 2>&1"):format(folder, arg[-1], script)
  local process <close> = assert(io.popen(command))
  return process:read "a"
end

--- Runs `f` with the path of a file that does not exist yet and removes the file after.
---@param f fun(path: string)
function harness.with_temp_file(f)
  local path = os.tmpname()
  os.remove(path)
  local ok, message = pcall(f, path)
  os.remove(path)
  if not ok then error(message, 0) end
end

local function show(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if math.type(value) == "float" then return ("%.17g"):format(value) end
  if type(value) ~= "table" or getmetatable(value) then return tostring(value) end
  local parts = {}
  for key, item in pairs(value) do
    parts[#parts + 1] = ("[%s] = %s"):format(tostring(key), type(item) == "table" and "{...}"
      or show(item))
    if #parts == 20 then break end
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- A difference between two values, or nil; plain tables are compared by content.
local function difference(got, wanted, path)
  if rawequal(got, wanted) then return nil end
  local plain = type(got) == "table" and type(wanted) == "table"
    and not getmetatable(got) and not getmetatable(wanted)
  if not plain then
    if type(got) == type(wanted) and type(got) ~= "userdata" and got == wanted then return nil end
    local where = path ~= "" and path .. ": " or ""
    return ("%sgot %s, expected %s"):format(where, show(got), show(wanted))
  end
  for key, item in pairs(wanted) do
    local found = difference(got[key], item, ("%s[%s]"):format(path, tostring(key)))
    if found then return found end
  end
  for key in pairs(got) do
    if wanted[key] == nil then return ("%s[%s]: not expected"):format(path, tostring(key)) end
  end
  return nil
end

local function fail(message, detail)
  error((detail and detail .. ": " or "") .. message, 3)
end

--- Fails unless `got` equals `wanted`; plain tables are compared by content.
function expect.equal(got, wanted, detail)
  local found = difference(got, wanted, "")
  if found then fail(found, detail) end
end

--- Fails unless two numbers, or two nested arrays of numbers, differ by at most
--- `tolerance` (1e-6), absolute or relative to `wanted`. NaN is near NaN.
function expect.near(got, wanted, tolerance, detail)
  tolerance = tolerance or 1e-6
  local function check(a, b, path)
    if type(b) == "table" then
      if type(a) ~= "table" then fail(path .. "got " .. show(a) .. ", expected a table", detail) end
      if #a ~= #b then fail(("%sgot %d items, expected %d"):format(path, #a, #b), detail) end
      for i = 1, #b do check(a[i], b[i], ("%s[%d] "):format(path, i)) end
      return
    end
    local same = a == b or (a ~= a and b ~= b)
    local near = type(a) == "number" and math.abs(a - b) <= tolerance * math.max(1, math.abs(b))
    if not same and not near then
      error(("%s%sgot %s, expected %s (tolerance %g)"):format(detail and detail .. ": " or "", path,
        show(a), show(b), tolerance), 0)
    end
  end
  local ok, message = pcall(check, got, wanted, "")
  if not ok then error(message, 2) end
end

--- Fails unless `f` raises an error whose text matches `pattern` (a Lua pattern). Returns the text.
function expect.error(f, pattern, detail)
  local ok, message = pcall(f)
  if ok then fail("no error was raised, expected one like " .. show(pattern or ".*"), detail) end
  if type(message) == "table" and message[SKIP] then error(message, 0) end
  message = tostring(message)
  if pattern and not message:find(pattern) then
    fail(("the error was %s, expected one like %s"):format(show(message), show(pattern)), detail)
  end
  return message
end

--- Fails unless `value` is neither nil nor false. Returns it.
function expect.truthy(value, detail)
  if not value then fail("got " .. tostring(value) .. ", expected a true value", detail) end
  return value
end

--- Fails unless `value` is nil or false.
function expect.falsy(value, detail)
  if value then fail("got " .. show(value) .. ", expected nil or false", detail) end
end

-- What another platform has to leave out: the table that MOONLET_TEST_LEFT_OUT names. Its field
-- `absent` has the reasons by patterns of what errors say of what is not there.
local left_out = os.getenv "MOONLET_TEST_LEFT_OUT"
left_out = left_out and dofile(left_out) or {}

local function find_absent(message)
  for pattern, reason in pairs(left_out.absent or {}) do
    if message:find(pattern) then return { [SKIP] = true, reason = reason } end
  end
end

local function on_error(message)
  if type(message) == "table" and message[SKIP] then return message end
  message = tostring(message)
  return find_absent(message) or debug.traceback(message, 2)
end

local function run_one(entry, counts)
  local ok, message = xpcall(entry.run, on_error)
  if ok then
    counts.passed = counts.passed + 1
  elseif type(message) == "table" then
    counts.skipped = counts.skipped + 1
    print(("SKIP %s: %s"):format(entry.name, message.reason))
  else
    counts.failed = counts.failed + 1
    print(("FAIL %s (%s)\n  %s"):format(entry.name, entry.at, (message:gsub("\n", "\n  "))))
  end
end

-- The reasons of tests of this file that are left out, by their names. All of them must be tests.
local function find_reasons()
  local reasons = left_out[arg[0]:match "([%w_]+/[%w_]+)_test%.lua$"] or {}
  local known = {}
  for _, entry in ipairs(tests) do known[entry.name] = true end
  for name in pairs(reasons) do assert(known[name], "no test to leave out: " .. name) end
  return reasons
end

--- Runs the tests, prints failures, skips and the count, and ends the process with status 1 when
--- one failed. `filter` (default: the first command-line argument) is part of a test's name.
---@param filter? string
function harness.run(filter)
  filter = filter or (arg and arg[1])
  local counts = { passed = 0, failed = 0, skipped = 0 }
  local reasons = find_reasons()
  for _, entry in ipairs(tests) do
    local reason = reasons[entry.name]
    if reason then entry.run = function() harness.skip(reason) end end
    if not filter or entry.name:find(filter, 1, true) then run_one(entry, counts) end
  end
  print(("%d passed, %d failed, %d skipped"):format(counts.passed, counts.failed, counts.skipped))
  if filter and counts.passed + counts.failed + counts.skipped == 0 then
    print("no test has a name with " .. filter)
    counts.failed = 1
  end
  io.stdout:flush()
  if counts.failed > 0 then os.exit(1, true) end
end

return harness
