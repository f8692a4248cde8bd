-- tests/fuzz/programs.lua: runs programs of views, in-place changes, hooks, gradients and transforms and
-- compares with PyTorch's answers, which torch_programs.py wrote beside them.
-- usage: moonlet programs.lua FILE [--json]

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local words = require "program_words"

-- What is made inside vmap for a tensor that is the same for all samples is of each sample's own in
-- Moonlet, not in PyTorch, so that more changes in place of such tensors are refused.
local SAME = "is the same for all samples of a vmap"
local CODES = { float64 = "d", float32 = "f", complex128 = "z" }

-- The elements as a flat list, real and imaginary parts side by side.
local function numbers(t)
  t = t:detach():contiguous()
  if t.dtype:find "^complex" then t = ml.view_as_real(t) end
  return t:to "float64":reshape(-1):tolist()
end

-- A number that depends on each element and its position, and the size of its terms.
local function digest(t)
  local total, size = 0.0, 0.0
  for i, v in ipairs(numbers(t)) do
    local term = v * (0.5 + math.fmod(i * 0.6180339887, 1.0))
    total, size = total + term, size + math.abs(term)
  end
  return total, size
end

-- An environment for one program, what its hooks saw of each tensor, and the end of its level of
-- forward mode.
local function fresh()
  local seen, handles, level = {}, {}, nil
  local env = setmetatable({}, { __index = words })
  local function note(x, number, g)
    seen[x] = seen[x] or {}
    table.insert(seen[x], { number, g })
  end
  function env.hook(number, x, factor)
    handles[number] = x:register_hook(function(g)
      note(x, number, g)
      if factor then return g * factor end
    end)
  end
  -- A hook before or after the node that x comes from.
  function env.node_hook(number, x, before, factor)
    local function saw(changed, others)
      local out = {}
      for i = 1, changed.n do
        if changed[i] then note(x, number, changed[i]) end
        out[i] = changed[i] and factor and changed[i] * factor or false
      end
      for i = 1, others and others.n or 0 do
        if others[i] then note(x, number, others[i]) end
      end
      if factor then return out end
    end
    local node = x.grad_fn
    handles[number] = before and node:register_prehook(saw) or node:register_hook(saw)
  end
  -- A hook of a leaf whose gradient was added up.
  function env.grad_hook(number, x, factor)
    handles[number] = x:register_post_accumulate_grad_hook(function(leaf)
      note(x, number, leaf.grad:detach():clone())
      if factor then leaf.grad = leaf.grad:detach() * factor end
    end)
  end
  function env.unhook(number)
    if handles[number] then handles[number].remove() end
  end
  function env.enter() level = ml.autograd.forward_ad.dual_level() end
  return env, seen, function() local _ <close> = level end
end

-- Running ----------------------------------------------------------------------------------------

local function missing_input(text, env)
  local made = text:match "^[%w_.]+%(function%(%) (x%d+) = " or ("\n" .. text):match "\n([x%d, ]+) = " or ""
  local ours = {}
  for name in made:gmatch "x%d+" do ours[name] = true end
  for name in text:gmatch "%f[%w]x%d+" do
    if not ours[name] and not ml.is_tensor(rawget(env, name)) then return true end
  end
end

-- An error message without what differs from program to program.
local function kind_of(message)
  message = message:gsub("^step:%d+: ", ""):gsub("%b()", "(..)"):gsub("%d+", "N")
  return "refused " .. message:sub(1, 70)
end

-- The first difference in how the steps end: its kind and a message; or "stop" when the program ends
-- early as it may.
local function run_steps(program, env)
  for i, text in ipairs(program.steps) do
    local wanted = program.status:sub(i, i)
    if missing_input(text, env) then
      if wanted ~= "s" then
        return "missing", ("step %d (%s): an input is missing"):format(i, text)
      end
    else
      local ok, message = pcall(assert(load(text, "=step", "t", env)))
      if wanted == "s" then
        return "missing", ("step %d (%s): PyTorch had no input for it"):format(i, text)
      elseif ok and wanted == "e" then
        return "accepted", ("step %d (%s): PyTorch refuses it"):format(i, text)
      elseif ok and wanted == "o" then
        return "overlap accepted", ("step %d (%s): its target overlaps itself"):format(i, text)
      elseif wanted == "r" then
        for name in (("\n" .. text):match "\n([x%d, ]+) = " or ""):gmatch "x%d+" do env[name] = nil end
      elseif not ok and tostring(message):find(SAME, 1, true) then
        return "stop"
      elseif not ok and wanted == "." then
        return kind_of(tostring(message)), ("step %d (%s): %s"):format(i, text, message)
      elseif not ok and wanted:find "[b?]" then
        return "stop"
      end
    end
  end
end

local function near(t, wanted, tolerance)
  local dims = {}
  for d = 1, t.ndim do dims[d] = t.shape[d] end
  local head, number = wanted:match "^([^:]*):(%S+)"
  local ours = (CODES[t.dtype] or tostring(t.dtype)) .. table.concat(dims, ",")
  if ours ~= head then return false, ours .. ", expected " .. head end
  if number == "large" then return true end
  local total, size = digest(t)
  local far = math.abs(total - tonumber(number))
  if far <= tolerance * math.max(size, 1) then return true end
  return false, ("%s sums to %.10g, expected %s"):format(json.encode(numbers(t)), total, number)
end

local function check_hooks(list, wanted, tolerance)
  if #list ~= #wanted then
    return ("hooks ran %d times, expected %d"):format(#list, #wanted)
  end
  for i, entry in ipairs(list) do
    local number, digest_text = wanted[i]:match "^(%d+) (.*)"
    if entry[1] ~= tonumber(number) then
      return ("call %d was of hook %d, expected %s"):format(i, entry[1], number)
    end
    local ok, message = near(entry[2], digest_text, tolerance)
    if not ok then return ("call %d of hook %s got %s"):format(i, number, message) end
  end
end

local function check_flags(x, flags)
  local ours = (x.requires_grad and "r" or "") .. (x.is_leaf and "l" or "")
  if flags ~= ours then
    return ("has flags '%s', expected '%s'"):format(ours, flags)
  end
end

-- The first difference between the tensors of `env` and those wanted.
local function check_tensors(program, env, seen)
  local text = table.concat(program.steps, "\n")
  local tolerance = (text:find "float32" or text:find '"whole"') and 1e-3 or 1e-8
  local names = {}
  for name in pairs(program.wanted) do names[#names + 1] = name end
  table.sort(names)
  for _, key in ipairs(names) do
    local wanted = program.wanted[key]
    local name, field = key:match "^(x%d+)%.?(.*)$"
    local x = env[name]
    if not x then return "nil", name .. " is nil" end
    if field == "hooks" then
      local message = check_hooks(seen[x] or {}, wanted, tolerance)
      if message then return "hooks", key .. ": " .. message end
    elseif field == "grad" then
      if not x.grad then return "no grad", key .. " is nil" end
      local ok, message = near(x.grad, wanted, tolerance)
      if not ok then return "grad", key .. ": " .. message end
    elseif field == "tangent" then
      local ok, message = near(words.tangent(x), wanted, tolerance)
      if not ok then return "tangent", key .. ": " .. message end
    else
      local ok, message = near(x, wanted, tolerance)
      if not ok then return "value", key .. ": " .. message end
      message = check_flags(x, wanted:match " (%S*)$")
      if message then return "flags", key .. ": " .. message end
      if x.grad and not program.wanted[key .. ".grad"] then return "a grad", key .. ".grad is not nil" end
      if seen[x] and #seen[x] > 0 and not program.wanted[key .. ".hooks"] then
        return "a hook", key .. ": a hook ran that should not"
      end
    end
  end
end

local function compare(program, env, seen)
  local kind, message = run_steps(program, env)
  if kind == "stop" then return end
  if kind or next(program.wanted) == nil then return kind, message end
  local ok, found, text = pcall(check_tensors, program, env, seen)
  if not ok then return "reading", found end
  return found, text
end

local function check(program)
  local env, seen, leave = fresh()
  ml.set_grad_enabled(true)
  local kind, message = compare(program, env, seen)
  leave()
  -- A gradient made with create_graph refers to its leaf: a cycle that no collector sees.
  for _, x in pairs(env) do
    if ml.is_tensor(x) then x.grad = nil end
  end
  return kind, message
end

-- The command ------------------------------------------------------------------------------------

local as_json = arg[2] == "--json"
local file = assert(io.open(arg[1]))
local count, failed = 0, 0
for line in file:lines() do
  count = count + 1
  local program = json.decode(line)
  local kind, message = check(program)
  if kind then
    failed = failed + 1
    if as_json then
      print(json.encode { program = count, kind = kind, message = message })
    else
      print(("FAIL program %d: %s: %s\n  %s"):format(count, kind, message,
        table.concat(program.steps, "\n  ")))
    end
  end
end
file:close()
if not as_json then print(("%d passed, %d failed, 0 skipped"):format(count - failed, failed)) end
if count == 0 then error "no programs" end
if failed > 0 then os.exit(1, true) end
