-- tests/fuzz/library_calls.lua: calls functions of `string` and `table` with drawn arguments and prints
-- what comes, the same in every Lua 5.4: `library_test.sh` compares Moonlet's functions with Lua's.
-- usage: library_calls.lua COUNT SEED

local count, seed = tonumber(arg[1]), tonumber(arg[2])

local function draw(n) -- 1 to n, without math.random, which differs between builds
  seed = (seed * 6364136223846793005 + 1442695040888963407)
  return (seed >> 33) % n + 1
end

local function pick(list) return list[draw(#list)] end

local function repeated(most, f)
  local out = {}
  for i = 1, draw(most + 1) - 1 do out[i] = f() end
  return table.concat(out)
end

local function show(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) == "table" or type(value) == "function" then return type(value) end
  return tostring(value)
end

local function record(...)
  local out = table.pack(...)
  for i = 1, out.n do out[i] = show(out[i]) end
  print(table.concat(out, " ", 1, out.n))
end

-- --- patterns ------------------------------------------------------------------------------------

local LETTERS = { "a", "b", "ab", "aab", "c", "(", ")", "[", "]", "%", "-", "^", "$", ".", "0", "1", " ", "\0", "\n",
  "A", "Z", "_", "\xe4", "\xff", "f", "x" }
local CLASSES = { "%a", "%c", "%d", "%g", "%l", "%p", "%s", "%u", "%w", "%x", "%A", "%C", "%D", "%G", "%L", "%P",
  "%S", "%U", "%W", "%X", "%z", "%Z", "%.", "%%", "%]", "%[", "%-", "%^", "%\0", "%\xe4", "%1x" }
local SUFFIXES = { "", "", "", "*", "+", "-", "?", "**", "$" }
local RANGES = { "a-c", "A-Z", "0-9", "-", "a-", "-a", "]", "^", "%a", "%]", "\0-\xff", "c-a", "%-", "a-%", "%a-z" }

local function set()
  return (draw(20) > 1 and "[" or "") .. (draw(3) == 1 and "^" or "") .. repeated(3, function()
    return draw(2) == 1 and pick(RANGES) or pick(LETTERS)
  end) .. (draw(20) > 1 and "]" or "")
end

local function item()
  local kind = draw(8)
  if kind <= 3 then return pick(LETTERS) end
  if kind == 4 then return "." end
  if kind <= 6 then return pick(CLASSES) end
  return set()
end

local function pattern(depth)
  return repeated(4, function()
    local kind = draw(24)
    if kind == 1 then return "%b" .. pick { "()", "ab", "xx", "\0a", "(", "" } end
    if kind == 2 then return "%f" .. (draw(12) > 1 and set() or pick { "a", "%a", "" }) end
    if kind == 3 then return "()" end
    if kind == 4 then return "%" .. draw(10) - 1 end
    if kind <= 9 and depth < 4 then
      return (draw(20) > 1 and "(" or "") .. pattern(depth + 1) .. (draw(20) > 1 and ")" or "")
    end
    if kind == 10 and draw(30) == 1 then
      return pick { "a-", "(", "()", "a?", "a*", ".-", "[ab]+" }:rep(draw(260))
    end
    return item() .. pick(SUFFIXES)
  end)
end

local function subject() return repeated(draw(3) == 1 and 40 or 8, function() return pick(LETTERS) end) end
local function whole_pattern() return (draw(6) == 1 and "^" or "") .. pattern(0) .. (draw(8) == 1 and "$" or "") end
local function position() return pick { 1, 1, 0, -1, 2, 3, -3, 100, -100, math.maxinteger, math.mininteger } end

local function template()
  return repeated(3, function() return pick { "%0", "%1", "%2", "%9", "%%", "%", "x", "%a", "\0" } end)
end

local REPLACEMENTS = {
  template, template, template,
  function() return { a = "A", ab = false, b = 7, [1] = "one" } end,
  function() return function(...) record("called", ...) return pick { "r", false, 12, 1.5 } end end,
  function() return function(a) return a end end,
  function() return function() return {} end end,
  function() return 12 end,
  function() return nil end,
}

local function iterate(s, p, init)
  local n = 0
  for a, b, c in s:gmatch(p, init) do
    record("next", a, b, c)
    n = n + 1
    if n == 20 then return "many" end
  end
  return n
end

-- --- tables --------------------------------------------------------------------------------------

local function numbers()
  local t = {}
  local size = draw(12) == 1 and draw(600) or draw(12)
  for i = 1, size do t[i] = draw(draw(2) == 1 and 4 or 1000) end
  if draw(10) == 1 then t[draw(size)] = pick { "text", false, 1.5 } end
  return t
end

-- Says what is asked of it.
local function proxy()
  local inner = numbers()
  local size = #inner
  return setmetatable({}, {
    __len = function() return pick { size, size, size, 0, 3, 2.0 } end,
    __index = function(_, k) record("read", k) return inner[k] end,
    __newindex = function(_, k, v) record("write", k, v) inner[k] = v end,
  })
end

local function some_table() return draw(6) == 1 and proxy() or draw(40) == 1 and pick { "text", 5, print } or numbers() end

local function contents(t)
  if type(t) ~= "table" or getmetatable(t) then return end
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, k in ipairs(keys) do keys[i] = tostring(k) .. "=" .. tostring(t[k]) end
  print("  " .. table.concat(keys, " "))
end

local ORDERS = {
  function() return nil end, function() return nil end,
  function() return function(a, b) return tostring(a) < tostring(b) end end,
  function() return function(a, b) return tostring(a) > tostring(b) end end,
  function() return function(a, b) return tostring(a) <= tostring(b) end end,
  function() return function() return true end end,
  function() return function() return false end end,
  function() return function() return draw(2) == 1 end end,
  function() return function(a, b) record("order", a, b) return a < b end end,
}

local function index() return pick { 1, 2, 3, 0, -1, 5, 11, 1000, 2.0, "2", 1.5, math.maxinteger, math.mininteger } end

local function with_table(f, ...)
  local t = some_table()
  record(pcall(f, t, ...))
  contents(t)
end

local CALLS = {
  function() return string.find, subject(), whole_pattern(), position(), pick { false, false, false, true } end,
  function() return string.match, subject(), whole_pattern(), position() end,
  function() return string.match, subject(), whole_pattern() end,
  function() return iterate, subject(), whole_pattern(), position() end,
  function() return string.gsub, subject(), whole_pattern(), pick(REPLACEMENTS)(), pick { nil, 1, 3, 0, -1 } end,
  function() return string.gsub, subject(), whole_pattern(), pick(REPLACEMENTS)() end,
  function()
    return string.rep, subject(), pick { 0, 1, 2, 3, 7, -1, math.mininteger, 2.0, "3", 1.5 }, pick { "", ",", "ab" }
  end,
  function() return string.rep, "x", pick { 1 << 31, 1 << 40, math.maxinteger }, "," end,
  function()
    local f = pick { string.find, string.match, string.gmatch, string.gsub, string.rep, table.concat, table.insert,
      table.remove, table.move, table.sort }
    return f, pick { 1, "a", print, false }, pick { 1, "(", {}, false }, pick { 1, "x", {}, false }
  end,
  function() return with_table, table.concat, pick { ", ", "", 1, nil }, index(), pick { 1, 2, 3, 0, 5, 12 } end,
  function() return with_table, table.concat end,
  function() return with_table, table.insert, "new" end,
  function() return with_table, table.insert, index(), "new" end,
  function() return with_table, table.remove end,
  function() return with_table, table.remove, index() end,
  function()
    return with_table, table.move, pick { 1, 2, 5, 0, -3 }, pick { 1, 3, 9, 0, -2 }, pick { 1, 2, 7, -1 },
      draw(3) == 1 and some_table() or nil
  end,
  function()
    return with_table, table.move, pick { 1, math.mininteger, -1 }, math.maxinteger, pick { 2, math.maxinteger }
  end,
  function() return with_table, table.sort, pick(ORDERS)() end,
  function() return with_table, table.sort, pick(ORDERS)() end,
}

for i = 1, count do
  local call = table.pack(pick(CALLS)())
  record(i, table.unpack(call, 2, call.n))
  record(pcall(table.unpack(call, 1, call.n)))
end
