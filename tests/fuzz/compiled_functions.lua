-- tests/fuzz/compiled_functions.lua: random functions of tensors, as Lua text, with weights,
-- upvalues and fields that they read, and the calls to make of them. (compiled_gradients.lua runs them.)

local ml = require "moonlet"

local functions = {}

-- A generator of its own, so that programs do not depend on what runs between.
local function generator(state)
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
    return (state >> 33) % n + 1
  end
end

-- Statements: %a and %b are tensors there are, %c the new one; all but those of `shapes` keep the
-- shape {n, m}.
local POINTWISE = { "%c = %a + %b", "%c = %a * %b", "%c = %a - s", "%c = %a * s + %b", "%c = %a:relu()",
  "%c = %a:tanh()", "%c = %a:sigmoid() * %b", "%c = (%a * 0.1):exp()", "%c = %a / (%b:abs() + 1)",
  "%c = %a:clamp(-1, 1)", "%c = ml.where(%a:gt(0), %a, %b)", "%c = ml.maximum(%a, %b)",
  "%c = %a:abs():sqrt()", "%c = %a:neg()", "%c = ml.nn.functional.gelu(%a)", "%c = %a:pow(2)",
  "%c = ml.lerp(%a, %b, 0.3)", "%c = ml.addcmul(%a, %b, bias[1], { value = 0.5 })", "%c = %a:floor() + %b" }
local REDUCING = { "%c = %a - %a:mean { dim = 2, keepdim = true }", "%c = %a:softmax(2)",
  "%c = %a / (%a:abs():sum { dim = 1, keepdim = true } + 1)", "%c = %a:log_softmax(1)",
  "%c = %a + %b:amax { dim = 2, keepdim = true }", "%c = %a * %b:sum()", "%c = %a:cumsum(2)",
  "%c = ml.nn.functional.layer_norm(%a, { %a.shape[2] })", "%c = %a - %b:var { dim = 1, keepdim = true }" }
local VIEWS = { "%c = %a:t():contiguous():t()", "%c = %a:flip { 1 }", "%c = ml.cat({ %a, %b }, 1):narrow(1, 1, %a.shape[1])",
  "%c = %a[1]:expand_as(%b) + %b", "%c = %a:reshape(-1):view(%b.shape)", "%c = %a:clone()",
  "%c = %a:unsqueeze(1):transpose(2, 3):transpose(2, 3):squeeze(1)", "%c = ml.stack({ %a, %b }, 1):select(1, 2)",
  "%c = %a:t():t()", "%c = %a:detach() + %b" }
local PRODUCTS = { "%c = %a:matmul(w[%w]) + bias[%w]", "%c = ml.nn.functional.linear(%a, w[%w], bias[%w])",
  "%c = %a:mm(%b:t()):mm(%b) * 0.1", "%c = (%a:t():mm(%b)):sum { dim = 1, keepdim = true } + %a" }
local IN_PLACE = { "%t:add_(1)", "%t:mul_(s)", "%t[1] = 0.5", "%t:clamp_(-2, 2)", "%t[{ {}, 1 }]:add_(%a[{ {}, 1 }])",
  "%t:copy_(%a)", "%t:zero_()", "%t:relu_()" }
local STATE = { "count:add_(1)", "mean:lerp_(%a:detach():mean(), 0.1)", "count:mul_(cfg.decay)" }
local CONTROL = { "if flag then %c = %a * 2 else %c = %a + 1 end", "%c = %a * cfg.scale",
  "if %a.shape[1] > 3 then %c = %a + 1 else %c = %a * 1 end", "%c = %a for i = 1, k do %c = %c * 0.9 + %b end",
  "ml.no_grad(function() %c = %a * 3 end) %c = %c + %b", "if ml.is_grad_enabled() then %c = %a + 2 else %c = %a end" }
local RANDOM = { "%c = ml.nn.functional.dropout(%a, 0.3, flag)", "%c = %a + ml.rand(%a.shape):to(%a.dtype)",
  "%c = %a + ml.randn_like(%a)" }
local BREAKS = { "if %a:sum():item() > 0 then %c = %a + 1 else %c = %a - 1 end", "calls = calls + 1 %c = %a * calls",
  "log[#log + 1] = #log %c = %a", "%c = %a * math.floor(3.5)" }

-- What reads elements: a function with one runs by parts.
local READS = { "if %a:sum():item() > 0 then %c = %a + 1 else %c = %a - 1 end",
  "%c = %a * %b:mean():item()", "calls = math.floor(%a:sum():item() * 8) %c = %a + calls",
  "%t[1] = %a[1]:tolist()[1]", "%c = %b * %a:tolist()[1][1]", "%c = %a + #tostring(%b)",
  "%c = %a * %a:masked_select(%a:gt(0)):sum()", "%c = %b * 0.5 if %a:equal(%b) then %c = %a + 2 end",
  "%c = pcall(ml.gather, %a, 1, ml.full({ 1, 1 }, 9):long()) and %a or %b * 2",
  "log[1] = %a:max():item() %c = %b / (log[1] + 4)", "%c = %a while %c:abs():max():item() > 0.5 do %c = %c * 0.5 end" }

local function statements(random)
  local names, lines, made = { "x", "y" }, {}, 0
  local function pick(list) return list[random(#list)] end
  -- More often what is new.
  local function name() return names[math.max(1, #names - random(4) + 1)] end
  local function add(list)
    local text = pick(list)
    made = made + 1
    local new = "t" .. made
    local target = random(3) == 1 and "x" or name()
    local weight = tostring(random(2))
    local a, b = name(), name()
    text = text:gsub("%%(%a)", { a = a, b = b, c = new, w = weight, t = target })
    if text:find(new .. " =", 1, true) then
      lines[#lines + 1] = "local " .. new
      names[#names + 1] = new
    end
    lines[#lines + 1] = text
  end
  local kinds = { POINTWISE, POINTWISE, POINTWISE, REDUCING, VIEWS, VIEWS, PRODUCTS, IN_PLACE, STATE, CONTROL, RANDOM }
  local breaks, reads = random(12) == 1, random(3) == 1
  for _ = 1, 2 + random(10) do
    add(reads and random(4) == 1 and READS or kinds[random(#kinds)])
  end
  if breaks then add(BREAKS) end
  local last = names[#names]
  local results = { last .. ", " .. name(), last, ("{ a = %s, b = { %s, 3 } }"):format(last, name()),
    last .. ":sum()", last .. ", x", last .. "[1], " .. last, "cfg.scale, " .. last }
  lines[#lines + 1] = "return " .. pick(results)
  return table.concat(lines, "\n  ")
end

local HEAD = [[
local ml, env = ...
local w, bias, count, mean = env.w, env.bias, env.count, env.mean
local s, k, flag, calls, cfg, log = 0.5, 2, true, 0, { scale = 2, decay = 0.5 }, {}
local function f(x, y)
  %s
end
local function set(name, value)
  if name == "s" then s = value elseif name == "k" then k = value elseif name == "flag" then flag = value
  elseif name == "weight" then w[1] = value elseif name == "scale" then cfg.scale = value
  elseif name == "new" then cfg[value] = 1 end
end
return f, set, function() return { w[1], w[2], count, mean, s, calls, #log } end
]]

local function tensor(random, sizes, dtype)
  local n, values = 1, {}
  for _, size in ipairs(sizes) do n = n * size end
  for i = 1, n do values[i] = (random(2001) - 1001) / 400 end
  return ml.tensor(values, { dtype = dtype }):reshape(sizes)
end

local COLUMNS = 4

-- The calls: most as the one before, so that programs are compiled.
-- Every fourth program meets many sizes.
local function calls(random)
  local many = random(4) == 1
  local out, rows, dtype, grad, needs_grad = {}, 1 + random(4), "float32", random(2) == 1, random(2) == 1
  for i = 1, many and 40 or 5 + random(7) do
    local change
    if many and random(2) == 1 then rows = 1 + random(7) end
    if i > 3 and random(many and 12 or 3) == 1 then
      change = ({ "s", "k", "flag", "weight", "scale", "new", "rows", "dtype", "grad", "layout", "refill" })[random(11)]
      if change == "rows" then rows = 1 + random(5) end
      if change == "grad" then grad = not grad end
      if change == "dtype" then dtype = dtype == "float32" and "float64" or "float32" end
    end
    out[i] = { change = change, value = random(3), rows = rows, dtype = dtype, grad = grad, seed = random(1000),
      needs_grad = needs_grad, transposed = change == "layout", data = random(1 << 20), same = random(20) == 1 }
  end
  return out, many
end

--- A program: its `source`, two equal sides of it, its calls, and what changes before one.
---@param seed integer
---@return table
function functions.program(seed)
  local random = generator(seed)
  for _ = 1, 8 do random(10) end
  local program = { source = statements(random) }
  program.calls, program.many = calls(random)
  local text = HEAD:gsub("%%s", function() return program.source end)
  local weights = random(1 << 20)
  local learns = random(2) == 1

  function program.side()
    local draw = generator(weights)
    local env = { w = {}, bias = {}, count = ml.zeros(COLUMNS), mean = ml.zeros({}) }
    for i = 1, 2 do
      env.w[i] = tensor(draw, { COLUMNS, COLUMNS }, "float32"):requires_grad_(learns)
      env.bias[i] = tensor(draw, { COLUMNS }, "float32"):requires_grad_(learns)
    end
    local run, set, state = assert(load(text, "=program"))(ml, env)
    local function drop_gradients(inputs)
      for i = 1, 2 do env.w[i].grad, env.bias[i].grad, inputs[i].grad = nil, nil, nil end
    end
    return { run = run, set = set, env = env, drop_gradients = drop_gradients, state = function()
      local out = state()
      for i = 1, 2 do
        out["grad" .. i], out["bias" .. i] = env.w[i].grad or false, env.bias[i].grad or false
      end
      return out
    end }
  end

  function program.change(side, case)
    local what = case.change
    if what == "s" then side.set("s", case.value / 4)
    elseif what == "k" then side.set("k", case.value)
    elseif what == "flag" then side.set("flag", case.value == 1)
    elseif what == "scale" then side.set("scale", case.value)
    elseif what == "new" then side.set("new", "key" .. case.value)
    elseif what == "weight" then
      side.env.w[1] = tensor(generator(case.data), { COLUMNS, COLUMNS }, "float32"):requires_grad_(learns)
      side.set("weight", side.env.w[1])
    elseif what == "refill" then
      ml.no_grad(function() side.env.w[2]:copy_(tensor(generator(case.data), { COLUMNS, COLUMNS }, "float32")) end)
    end
  end

  -- New for each side, with the same elements.
  function program.inputs(case)
    local draw = generator(case.data)
    local x = tensor(draw, { case.rows, COLUMNS }, case.dtype)
    local y = tensor(draw, { case.rows, COLUMNS }, case.dtype)
    if case.transposed then x = x:t():contiguous():t() end
    if case.same then y = x end
    if case.needs_grad then y:requires_grad_() end
    return { x, y }
  end

  return program
end

return functions
