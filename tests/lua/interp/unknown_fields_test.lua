-- tests/lua/interp/unknown_fields_test.lua: options that nobody knows, and fields that objects of the
-- library do not have, are errors that say the nearest known one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local samples = require "op_samples"
local signature = require "moonlet.signature"
local test, expect = harness.test, harness.expect
local class, nn, optim, data = ml.class, ml.nn, ml.optim, ml.data

local reference = require "moonlet.reference"

-- What a name of the reference stands for, or nil.
local function value_of(name)
  local ok, value = pcall(function()
    local at = ml
    for part in name:gmatch "[^.]+" do at = at[part] end
    return at
  end)
  return ok and value or nil
end

-- The entries of the library's functions and classes, whose modules are loaded by that.
local function public(kind)
  local out = {}
  for _, entry in ipairs(reference) do
    if entry.kind ~= "op" and not entry.name:find "::" then
      local value = value_of(entry.name)
      if entry.kind == kind and value ~= nil and not entry.same_as then
        out[#out + 1] = { entry = entry, value = value }
      end
    end
  end
  return out
end

test("everything that declares its arguments refuses an unknown name", function()
  public "function"
  for _, part in ipairs { "state", "convert", "copy", "hooks", "lookup", "summary" } do
    require("moonlet.nn." .. part)
  end
  local count = 0
  for name, declared in pairs(signature.all) do
    local last = #declared.parameters + 1
    local given = { [last] = { zzqq_option = 1 } }
    local message = expect.error(function() declared(table.unpack(given, 1, last)) end,
      "unknown option 'zzqq_option'", name)
    expect.truthy(#declared.names == 0 or message:find("it takes", 1, true), name)
    count = count + 1
  end
  expect.truthy(count > 800, count)
end)

test("every op refuses an unknown name", function()
  local count = 0
  for _, case in ipairs(dofile(os.getenv "MOONLET_OP_CASES")) do
    local callable = case.samples[1] and type(samples.find(case, "")) == "function"
    if callable then
      local args = samples.arguments(case, 1)
      local last = args[args.n]
      if type(last) == "table" and not getmetatable(last) and type(next(last)) == "string" then
        last.zzqq_option = 1
      else
        args.n = args.n + 1
        args[args.n] = { zzqq_option = 1 }
      end
      local ok, message = pcall(samples.call, case, args)
      expect.equal(ok, false, case.name)
      -- Where one of several forms was meant the message shows them all.
      local told = message:find "zzqq_option" or message:find "too many arguments; use: "
      for name in pairs(args[args.n]) do told = told or message:find("unknown option '" .. name .. "'", 1, true) end
      expect.truthy(told, case.name .. ": " .. message)
      count = count + 1
    end
  end
  expect.truthy(count > 700, count)
end)

-- Classes that take no options, or anything: containers, bases, and what passes arguments on.
local NO_OPTIONS = { ["nn.Identity"] = "takes any arguments, as PyTorch's",
  ["nn.utils.prune.CustomFromMask"] = "takes a mask alone", ["plot.Figure"] = "is made by functions",
  ["data.Tokenizer"] = "takes what a file holds" }

-- Those that take no arguments, or values that a table is not: they refuse it without its name.
local REFUSED = {}
for name in ([[ nn.Module nn.Sequential nn.utils.prune.BasePruningMethod nn.utils.prune.Identity
  nn.utils.prune.L1Unstructured nn.utils.prune.LnStructured nn.utils.prune.PruningContainer
  nn.utils.prune.RandomStructured nn.utils.prune.RandomUnstructured optim.Optimizer data.ByteLevelBPE
  data.Dataset data.IterableDataset data.Sampler distributions.constraints.Constraint
  metrics.Metric distributed.ProcessGroup distributed.Store distributed.FSDPModule
  distributed.checkpoint.AsyncSave ]]):gmatch "%S+" do REFUSED[name] = true end

test("every public class refuses an unknown option", function()
  local count = 0
  for _, each in ipairs(public "class") do
    local name = each.entry.name
    if not NO_OPTIONS[name] and class.is_class(each.value) then
      local ok, message = pcall(each.value, { zzqq_option = 1 })
      expect.equal(ok, false, name)
      local told = tostring(message):find "zzqq_option" ~= nil
      expect.equal(told, not REFUSED[name], name .. ": " .. tostring(message))
      count = count + 1
    end
  end
  expect.truthy(count > 300, count)
end)

test("tables of options inside of arguments are read, too", function()
  local net = nn.Linear(2, 1)
  local weights = net:parameters()
  local function refuses(f, name) expect.error(f, ("unknown option '%s'"):format(name)) end
  local sgd = optim.SGD(weights, { lr = 1 })
  refuses(function() optim.SGD({ { params = weights, momentumm = 1 } }) end, "momentumm'; did you mean 'momentum")
  refuses(function() sgd:add_param_group { params = weights, lrr = 1 } end, "lrr'; did you mean 'lr")
  refuses(function() data.audio.MFCC { melkwargs = { n_mel = 3 } } end, "n_mel'; did you mean 'n_mels")
  refuses(function() nn.utils.skip_init(nn.Linear, 2, 3, { biass = false }) end, "biass'; did you mean 'bias")
  refuses(function()
    ml.utils.checkpoint.checkpoint_sequential({ net }, 1, ml.ones(1, 2), { use_reentrantt = true })
  end, "use_reentrantt")
  refuses(function() ml.tensor { dtyp = "int8" } end, "dtyp'; did you mean 'dtype")
  refuses(function() ml.tensor { 1, 2, zzqq = 1 } end, "zzqq")
  refuses(function() ml.Storage { sise = 1 } end, "sise'; did you mean 'size")
  refuses(function() ml.Generator("cpu", { sed = 1 }) end, "sed'; did you mean 'seed")
  refuses(function() ml.set_rng_state { seed = 1, offset = 2, ofset = 3 } end, "ofset'; did you mean 'offset")
  expect.equal(ml.tensor({ dtype = "int8" }).dtype, "int8")
  expect.equal(ml.tensor(ml.ones(2, 3).shape):tolist(), { 2, 3 })
  expect.error(function() return ml.device end, "PyTorch's 'device' is a string, \"cpu\" or \"cuda:0\", here")
end)

test("objects of the library have no other fields than theirs", function()
  local weights = { nn.Parameter(ml.ones(2)) }
  local set = data.TensorDataset(ml.ones(4, 2))
  local loader = data.DataLoader(set, { batch_size = 2 })
  local sgd = optim.SGD(weights, { lr = 0.1 })
  local path = os.tmpname()
  local objects = { loader, sgd, optim.lr_scheduler.StepLR(sgd, 2), ml.amp.GradScaler(),
    optim.lr_scheduler.ReduceLROnPlateau(sgd), ml.train.EarlyStopping(), ml.train.Checkpoint(path),
    ml.train.CSVLog(path), ml.metrics.Accuracy() }
  for _, name in ipairs { "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS", "SparseAdam", "Lion" } do
    objects[#objects + 1] = optim[name](weights, { lr = 0.1 })
  end
  for _, object in ipairs(objects) do
    local wanted = class.name(class.of(object)) .. " has no field 'zzqq'"
    expect.error(function() return object.zzqq end, wanted)
    expect.error(function() object.zzqq = 1 end, wanted)
    expect.equal(rawget(object, "zzqq"), nil)
    expect.equal(object.__zzqq, nil)
    expect.truthy(object.is_a)
  end
  expect.error(function() return loader.batchsize end, "DataLoader has no field 'batchsize'; did you mean 'batch_size'")
  expect.error(function() sgd.lr = 1 end, "SGD has no field 'lr'; each group has its own: param_groups%[1%].lr")
  expect.error(function() return optim.Adam(weights).betas end, "param_groups%[1%].betas")
  expect.equal(loader.generator, nil)
  expect.equal(ml.train.EarlyStopping().best, nil)
  loader.collate_fn = function(list) return #list end
  expect.equal(loader.collate_fn {}, 0)
  sgd.step = function() return "stepped" end
  expect.equal(sgd:step(), "stepped")
  os.remove(path)
end)

test("classes of a script may have any field", function()
  local Mine = class("Mine", optim.SGD)
  local mine = Mine({ nn.Parameter(ml.ones(2)) }, { lr = 0.1 })
  expect.equal(mine.cache, nil)
  mine.cache = 5
  expect.equal(mine.cache, 5)
  local Schedule = class("Schedule", optim.lr_scheduler.LRScheduler)
  function Schedule:get_lr() return { self.factor and 2 or 1 } end
  local schedule = Schedule(mine)
  expect.equal(schedule.warm, nil)
  schedule.factor = true
  schedule:step()
  expect.equal(mine.param_groups[1].lr, 2)
  local Count = class("Count", ml.metrics.Metric)
  function Count:init() self:reset() end
  function Count:clear() self.seen = self.other and 1 or 0 end
  expect.equal(Count().seen, 0)
  local net = nn.Linear(2, 1)
  expect.equal(net.downsample, nil)
end)

harness.run()
