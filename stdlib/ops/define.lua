-- stdlib/ops/define.lua: ml.ops.define: ops that are made of a script's functions, and belong to
-- its interpreter. What a call does is in interp/binding/defined_ops.cpp.

local defined = require "moonlet.ops.defined"
local derivative = require "moonlet.ops.derivative"
local ml = require "moonlet"
local options = require "moonlet.options"
local schema = require "moonlet.ops.schema"
local signature = require "moonlet.signature"
local fail = options.fail

local ops = {}

-- Where it is to be called: `ml` or a library of `ml.ops`.
local function home_of(op)
  if not op.space then return ml end
  local of_ops = require "moonlet.ops"
  local home = rawget(of_ops, op.space)
  if home == nil then
    home = options.namespace("ops." .. op.space, {})
    rawset(of_ops, op.space, home)
    defined.spaces[home] = true
  elseif not defined.spaces[home] and (type(home) ~= "table"
      or package.loaded["moonlet.ops." .. op.space] ~= home) then
    fail("ops.define: %s: 'ml.ops.%s' is a function of the library, expected another name before "
      .. "the dot", op.name, op.space)
  end
  return home
end

-- Whether a table of the library has the name, which may become a field when it is first named.
local function has(home, name)
  local known, value = pcall(function() return home[name] end)
  return known and value ~= nil
end

local function is_taken(home, name)
  if home ~= ml then return rawget(home, name) ~= nil end
  return ml._late()[name] or ml._is_op_name(name) or has(ml, name)
end

-- Refuses names of the library and, without `replace`, those of other definitions.
local function check_names(op, home, given)
  local before = defined.ops[op.name]
  if before then
    if given.replace then return end
    fail("ops.define: the op '%s' is defined already (%s); replace = true defines it anew", op.name,
      defined.lines[op.name])
  end
  local names = { op.short }
  if given.inplace then names[2] = op.short .. "_" end
  for _, name in ipairs(names) do
    if is_taken(home, name) then
      fail("ops.define: '%s' is a name of the library, expected one that is free; "
        .. "'mylib.%s' defines ml.ops.mylib.%s", name, op.short, op.short)
    end
    if given.method and (has(ml._methods, name) or ml._is_op_name(name)) then
      fail("ops.define: %s: tensors have a method or field '%s' already", op.name, name)
    end
  end
end

local function check_forms(op, given)
  local first = op.arguments[1]
  local takes_tensor = first and first.type == "Tensor"
  local gives_tensor = #op.results == 1 and op.results[1].type == "Tensor"
  if given.inplace and not (takes_tensor and gives_tensor) then
    fail("ops.define: %s: the in-place form is of an op from a Tensor to a Tensor, got %s", op.name,
      op.text)
  end
  if given.method and not (first and (first.type == "Tensor" or first.type == "Operand")) then
    fail("ops.define: %s: a method is of an op whose first argument is a Tensor, got %s", op.name,
      op.text)
  end
  local tensors = #op.results > 0
  for _, result in ipairs(op.results) do tensors = tensors and result.type == "Tensor" end
  if given.out and not tensors then
    fail("ops.define: %s: the out form is of an op that gives tensors, got %s", op.name, op.text)
  end
end

local function policies(op, given)
  local policy = given.autocast
  if type(policy) ~= "table" then return policy, policy end
  options.check(("ops.define: %s: autocast"):format(op.name), policy, { "host", "device" })
  return policy.host, policy.device
end

-- What C++ is told.
local function description(op, given)
  local host, device = policies(op, given)
  local defaults = {}
  for i, argument in ipairs(op.arguments) do defaults[i] = argument.value end
  return { name = op.name, schema = op.text, arguments = op.arguments, defaults = defaults,
    gives_tensor = #op.results == 1 and op.results[1].type == "Tensor",
    result_count = #op.results, dtypes = given.dtypes, autocast_host = host,
    autocast_device = device, differentiable = given.differentiable, out = given.out,
    usage = schema.usage(op.name, op.arguments), in_place_name = op.name .. "_",
    in_place_usage = schema.usage(op.name .. "_", op.arguments) }
end

-- The entry of help, as the reference has those of rows.
local function entry_of(op, given)
  local called = (op.space and "ml.ops." or "ml.") .. op.name
  local entry = { name = op.name, kind = "op", doc = given.doc or "", params = {},
    shapes = given.shapes, calls = { schema.usage(called, op.arguments) },
    formula = given.formula, source = given.source,
    method = given.method, inplace = given.inplace, see = given.see, page = "ops" }
  if given.method then
    local others = table.move(op.arguments, 2, #op.arguments, 1, {})
    entry.calls[2] = schema.usage("x:" .. op.short, others)
  end
  local results = {}
  for i, result in ipairs(op.results) do
    results[i] = result.name or schema.type_text(result.type)
  end
  entry.results = table.concat(results, ", ")
  for i, argument in ipairs(op.arguments) do
    entry.params[i] = { name = argument.name, type = schema.type_text(argument.type),
      default = argument.default, optional = argument.optional or nil,
      text = given.args and given.args[argument.name] or "" }
  end
  local notes = { "defined at " .. defined.lines[op.name] }
  if given.inplace then notes[2] = ("in place: `%s_`"):format(op.short) end
  if given.out then notes[#notes + 1] = "with `out`" end
  entry.notes = table.concat(notes, "; ")
  if given.example then
    entry.examples = { { code = given.example, gives = given.gives or "" } }
  end
  return entry
end

local function check_args(op, given)
  if not given.args then return end
  local names = {}
  for i, argument in ipairs(op.arguments) do names[i] = argument.name end
  options.check(("ops.define: %s: args"):format(op.name), given.args, names)
end

local function publish(op, home, given, call, change)
  rawset(home, op.short, call)
  if given.inplace then rawset(home, op.short .. "_", change) end
  if given.method then
    ml._methods[op.short] = call
    if given.inplace then ml._methods[op.short .. "_"] = change end
  end
end

-- Takes the names of the definition that is replaced away, so that forms it alone had are gone.
local function withdraw(op, home)
  local before = defined.ops[op.name]
  if not before then return end
  for _, name in ipairs { op.short, op.short .. "_" } do
    local function drop(from, f)
      if f and rawequal(rawget(from, name), f) then rawset(from, name, nil) end
    end
    drop(home, name == op.short and before.call or before.change)
    drop(ml._methods, name == op.short and before.call or before.change)
  end
end

local read = signature('ops.define(string schema, function forward, function? backward=nil, '
  .. 'dict? grad=nil, function? setup_context=nil, function? jvp=nil, function? vmap=nil, '
  .. 'string|dict? autocast=nil, string dtypes="any", bool opaque=false, '
  .. 'bool differentiable=true, bool inplace=false, bool out=false, bool method=false, '
  .. 'bool replace=false, string? doc=nil, dict? args=nil, string? formula=nil, '
  .. 'table? shapes=nil, string? example=nil, string? gives=nil, string? source=nil, '
  .. 'table? see=nil)')

--- Defines an op in Lua, which is then one as any other in this interpreter: its arguments are read
--- by position or by name from the schema, dimensions from 1; gradients, tangents and vmap go
--- through the ops that `forward` is made of, unless the definition has rules for them; autocast,
--- `ml.override`, the profiler, `ml.compile` and `ml.export` see it as an op that is made of
--- others, and `help` shows its text. "snake(...)" is called `ml.snake`, "mylib.snake(...)"
--- `ml.ops.mylib.snake`. Types are those of the op table: Tensor, Tensor?, Tensor[], Operand (a
--- tensor or a number), Scalar, int, float, bool, string, Dim, Dim[], Index, DType, Device and
--- others; `Tensor! x` marks one that `forward` changes.
--- > snake = ml.ops.define { "snake(Tensor x, float a=1.0) -> Tensor",
---     forward = function(x, a) return x + (x * a):sin():square() / a end,
---     method = true, inplace = true, replace = true,
---     doc = "Snake activation, which is periodic.",
---   }
--- > x = ml.tensor({ 0.5, 1.0 }, { requires_grad = true })
--- > x:snake { a = 2 }
---   {0.8540, 1.4134}
---   Tensor (2,) float32 grad_fn=AddBackward
--- > ml.grad(x:snake():sum(), x)
---   {1.8415, 1.9093}
---   Tensor (2,) float32
---@param schema string name, arguments and results: "name(Type argument=default, ...) -> Type"
---@param forward fun(...): ... computes the results from all arguments, nil for what is left out
---@param backward? fun(ctx: moonlet.FunctionContext, ...): ... gives the gradients of the arguments
---   from those of the results, as in `ml.autograd.Function`
---@param grad? table in its place, for each differentiable argument an expression of ops in the
---   arguments, the results (`y`) and the gradients `g`, as "g * cos(x)", or a function (g, values)
---@param setup_context? fun(ctx: moonlet.FunctionContext, inputs: any[], outputs: any[]) keeps what
---   `backward` and `jvp` need; without it all tensors are kept, arguments before results, and the
---   other arguments in `ctx.arguments`
---@param jvp? fun(ctx: moonlet.FunctionContext, ...): ... gives the tangents of the results from
---   those of the arguments; else the gradient is differentiated
---@param vmap? fun(info: table, in_dims: any[], ...): ... gives the results for a batch and their
---   batch dimensions; else `forward` runs on batches
---@param autocast? string|table "lower_precision", "float32" or "promote": what `ml.autocast` does
---   with the arguments; or one for each of `host` and `device`
---@param dtypes? string what tensors are taken: "floating", "real", "integral+boolean", ...
---@param opaque? boolean whether `forward` is not made of differentiable ops: then it has no
---   gradient but by `backward` or `grad`, and vmap runs it for one sample after the other
---@param differentiable? boolean false for an op whose results never require a gradient
---@param inplace? boolean whether there is a form `snake_`, which writes over the first argument
---@param out? boolean whether results can be written to given tensors, `{ out = y }`
---@param method? boolean whether tensors have it as a method
---@param replace? boolean whether a definition of that name by a script is replaced
---@param doc? string what help says
---@param args? table what help says of each argument, by name
---@param formula? string the formula, for help
---@param shapes? table lines about shapes, for help
---@param example? string an example, for help
---@param gives? string what the example prints
---@param source? string where it is described, for help
---@param see? table names of what is related, for help
---@return fun(...): ... op
---@error a schema that cannot be read, a name that is taken, rules that do not fit
---@see ops.check autograd.Function override
function ops.define(...)
  local given = read:table(...)
  local op = schema.parse(given.schema)
  op.forward, op.opaque = given.forward, given.opaque
  local home = home_of(op)
  check_names(op, home, given)
  check_forms(op, given)
  check_args(op, given)
  local body = derivative.body(op, given)
  if not given.differentiable then
    if given.backward or given.grad then
      fail("ops.define: %s: 'differentiable = false' and a gradient are given", op.name)
    end
    local inner = body
    body = function(...)
      local _ <close> = ml.no_grad()
      return inner(...)
    end
  end
  local call, change = ml._define_op(description(op, given), body)
  withdraw(op, home)
  publish(op, home, given, call, change)
  defined.lines[op.name] = options.script_line() or "?"
  defined.functions[op.name] = { given.forward, given.backward, given.setup_context, given.jvp,
    given.vmap, given.grad }
  defined.entries[op.name] = entry_of(op, given)
  defined.ops[op.name] = { op = op, given = given, call = call,
    change = given.inplace and change or nil }
  defined.by_function[call] = op.name
  if given.inplace then defined.by_function[change] = op.name end
  return call
end

return options.namespace("ops.define", ops)
