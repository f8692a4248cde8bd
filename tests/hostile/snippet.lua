-- tests/hostile/snippet.lua: runs snippets of a family inside the interpreter under attack.
-- usage: moonlet snippet.lua FAMILY RESULTS FIRST NAME-PART   those that share a process
--        moonlet snippet.lua FAMILY alone NUMBER              one that has the process for itself
-- The first form appends two lines for each snippet to the file RESULTS: "run NUMBER" before it,
-- "passed" or "failed: REASON" after, so that the last line tells what was running at a crash. It
-- begins with the snippet numbered FIRST.

local family, results_path, number, part = arg[1], arg[2], tonumber(arg[3]), arg[4]
package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local words = require "words"
local snippets = dofile(family)
local ml = require "moonlet"

local function chunk_of(snippet)
  return assert(load(snippet[2], "=snippet", "t", setmetatable({}, { __index = words })))
end

local function show_all(...)
  local shown = table.pack(...)
  for i = 1, shown.n do
    local ok, text = pcall(tostring, shown[i])
    shown[i] = ok and text or "a value whose __tostring raises"
  end
  return table.concat(shown, ", ")
end

-- What every snippet must leave as it found it; a description of what it did not.
local function disturbed()
  if not ml.is_grad_enabled() then return "gradients stay off" end
  if ml.is_autocast_enabled() then return "autocast stays on" end
  if ml.get_default_dtype() ~= ml.float32 then return "the default dtype stays changed" end
  local seen = 0
  ml.override(function(_, arguments, call)
    seen = seen + 1
    return call(arguments)
  end, function() return ml.ones(2) + 1 end)
  if seen < 1 then return "ops do not come to an override any more" end
  local x = ml.ones { 3, requires_grad = true }
  local loss = (x * 2 + 1):sum()
  loss:backward()
  if loss:item() ~= 9 or x.grad:sum():item() ~= 6 then return "ops compute wrong results" end
  return nil
end

-- Nil when the snippet did what it must, else what it did.
local function verdict(snippet, ok, text)
  if snippet.fails then
    -- What Lua says when the stack is at its end in the handler of errors as well.
    text = text:gsub("^error in error handling$", "stack overflow")
    if ok then return ("no error, but %s; expected one like %q"):format(text, snippet.fails) end
    return not text:find(snippet.fails) and ("the error %q; expected one like %q"):format(text, snippet.fails) or nil
  end
  if not ok then return "the error " .. text end
  return text ~= snippet.gives and ("gives %q; expected %q"):format(text, snippet.gives) or nil
end

local function run_shared(snippet)
  local outcome = table.pack(pcall(chunk_of(snippet)))
  local ok = outcome[1]
  local reason = verdict(snippet, ok, show_all(table.unpack(outcome, 2, outcome.n)))
  outcome = nil -- luacheck: ignore
  debug.sethook()
  words.finish()
  return reason or disturbed()
end

if results_path == "alone" then
  local chunk = chunk_of(snippets[number])
  snippets, words = nil, nil -- luacheck: ignore
  return chunk()
end

local results = assert(io.open(results_path, "a"))
results:setvbuf "no"
for i = number, #snippets do
  if not snippets[i].exit and snippets[i][1]:find(part, 1, true) then
    results:write("run ", i, "\n")
    local reason = run_shared(snippets[i])
    results:write(reason and "failed: " .. reason:gsub("\n", " | ") or "passed", "\n")
  end
end
results:write "done\n"
