-- tests/lua/distributed/checkpoint_test.lua: checkpoints of several ranks: read by other numbers of
-- them, written by a thread, cut off in the middle, and files that are not what they should be.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local ranks = require "distributed_ranks"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local checkpoint = ml.distributed.checkpoint

local HEAD = [[
dist.init_process_group()
local size = dist.get_world_size()
local nn, checkpoint = ml.nn, dist.checkpoint
local function make(seed)
  ml.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Sequential(nn.Linear(50, 51)),
    nn.BatchNorm1d(51), nn.Linear(51, 2))
  for i = 1, 5, 2 do
    if #net[i]:parameters() > 0 then dist.fully_shard(net[i]) end
  end
  dist.fully_shard(net)
  return net, ml.optim.AdamW(net:parameters(), { lr = 0.01 })
end
local function step(net, opt, number)
  local g = ml.Generator():manual_seed(number)
  local x = ml.randn(12, 6, { generator = g })
  opt:zero_grad()
  net(x):square():mean():backward()
  opt:step()
end
local function states(net, opt)
  local model, optim = checkpoint.get_state_dict(net, opt)
  return { model = model, optim = optim, step = 3, name = "run", best = 1 / 3,
    limits = { math.huge, -1, true } }
end
local function whole(net, opt)
  return checkpoint.get_model_state_dict(net, { full_state_dict = true }),
    checkpoint.get_optimizer_state_dict(net, opt, { full_state_dict = true })
end
]]

local function run(count, script, options)
  return ranks.run_well(count, HEAD .. script .. "\ndist.destroy_process_group()\n", options)
end

local function in_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  local _ <close> = setmetatable({}, { __close = function()
    os.execute(("rm -rf '%s'"):format(folder))
  end })
  f(folder)
end

local SAVE = [[
local net, opt = make(3)
for i = 1, 3 do step(net, opt, i) end
checkpoint.save(states(net, opt), { checkpoint_id = FOLDER })
local model, optim = whole(net, opt)
if rank == 0 then ml.save(FOLDER .. ".model", model) ml.save(FOLDER .. ".optim", optim) end
]]

local LOAD = [[
local net, opt = make(4)
local state = states(net, opt)
state.step, state.name, state.best, state.limits = 0, "", 0, {}
checkpoint.load(state, { checkpoint_id = FOLDER })
assert(state.step == 3 and state.name == "run" and state.best == 1 / 3)
assert(state.limits[1] == math.huge and state.limits[2] == -1 and state.limits[3] == true)
checkpoint.set_state_dict(net, opt, state.model, state.optim, {})
local model, optim = whole(net, opt)
local wanted = ml.load(FOLDER .. ".model")
for name, x in pairs(wanted) do assert(ml.equal(x, model[name]), name) end
for name in pairs(model) do assert(wanted[name], name) end
for name, of in pairs(ml.load(FOLDER .. ".optim").state) do
  for key, x in pairs(of) do
    local y = optim.state[name][key]
    assert(ml.is_tensor(x) and ml.equal(x, y) or x == y, name .. " " .. key)
  end
end
step(net, opt, 4)
]]

local function with_folder(folder, script)
  return ("local FOLDER = %q\n"):format(folder) .. script
end

for _, writers in ipairs { 1, 3 } do
  test(("%d ranks write, 1, 2 and 4 read"):format(writers), function()
    in_folder(function(folder)
      run(writers, with_folder(folder, SAVE))
      local files = #system.list(folder)
      expect.equal(files, writers + 1)
      for _, readers in ipairs { 1, 2, 4 } do run(readers, with_folder(folder, LOAD)) end
      os.remove(folder .. ".model")
      os.remove(folder .. ".optim")
    end)
  end)
end

test("what all ranks have is written once, what one has is kept", function()
  in_folder(function(folder)
    run(2, with_folder(folder, [[
      local state = { both = ml.arange(1000), list = { ml.ones(2), ml.ones(3) }, n = 7,
        empty = {}, none = ml.ones(0, 3), one = ml.tensor(2.5), ["of " .. rank] = ml.full({ 2 }, rank) }
      checkpoint.save(state, { checkpoint_id = FOLDER })
    ]]))
    local index = json.decode(assert(io.open(folder .. "/index.json")):read "a")
    expect.equal(#index.tensors.both.parts, 1)
    local all = {}
    checkpoint.load(all, { checkpoint_id = folder })
    expect.equal(all.both:sum():item(), 500500)
    expect.equal(all["of 1"]:tolist(), { 1, 1 })
    expect.equal(all["of 0"]:tolist(), { 0, 0 })
    expect.equal(all.none.shape:totable(), { 0, 3 })
    expect.equal(all.one:item(), 2.5)
    expect.equal(next(all.empty), nil)
    expect.equal(#all.list[2], 3)
    expect.equal(all.n, 7)
  end)
end)

test("full states of rank 0 reach all ranks, whole ones on the host only rank 0", function()
  in_folder(function(folder)
    run(2, with_folder(folder, SAVE .. [[
      local only = { full_state_dict = true, cpu_offload = true }
      local at_0 = checkpoint.get_model_state_dict(net, only)
      assert((next(at_0) ~= nil) == (rank == 0))
      local other, its = make(9)
      dist.barrier()
      local empty = { state = {}, param_groups = {} }
      checkpoint.set_state_dict(other, its, rank == 0 and ml.load(FOLDER .. ".model") or {},
        rank == 0 and ml.load(FOLDER .. ".optim") or empty,
        { full_state_dict = true, broadcast_from_rank0 = true })
      local a, b = whole(net, opt)
      local c, d = whole(other, its)
      for name, x in pairs(a) do assert(ml.equal(x, c[name]), name) end
      assert(ml.equal(b.state["0.weight"].exp_avg, d.state["0.weight"].exp_avg))
      local message = select(2, pcall(checkpoint.set_model_state_dict, net, {},
        { broadcast_from_rank0 = true }))
      assert(message:find("is for full states", 1, true), message)
    ]]))
    os.remove(folder .. ".model")
    os.remove(folder .. ".optim")
  end)
end)

test("a thread writes what the tensors were, and the next save waits for it", function()
  in_folder(function(folder)
    run(2, with_folder(folder, [[
      local x = ml.ones(1000)
      local saving = checkpoint.async_save({ x = x, step = 1 }, { checkpoint_id = FOLDER })
      x:fill_(9)
      saving:wait()
      assert(saving:is_completed())
      saving:wait()
      local got = { x = ml.zeros(1000), step = 0 }
      checkpoint.load(got, { checkpoint_id = FOLDER })
      assert(got.x:sum():item() == 1000 and got.step == 1)
      checkpoint.async_save({ x = x, step = 2 }, { checkpoint_id = FOLDER })
      checkpoint.async_save({ x = x, step = 3 }, { checkpoint_id = FOLDER })
      checkpoint.load(got, { checkpoint_id = FOLDER })
      assert(got.x:sum():item() == 9000 and got.step == 3)
      -- One rank cannot write: all say so when they wait, and what there was stays.
      local system = require "moonlet.system"
      system.make_folder(FOLDER .. ("/shard-%06d-00001.safetensors"):format(4))
      local bad = checkpoint.async_save({ ["part " .. rank] = x }, { checkpoint_id = FOLDER })
      local good, message = pcall(bad.wait, bad)
      assert(not good and message:find("checkpoint.async_save: rank 1: ", 1, true)
        and message:find("shard-000004-00001", 1, true), message)
      checkpoint.load(got, { checkpoint_id = FOLDER })
      assert(got.step == 3)
      local path = FOLDER .. "/blocked"
      local file <close> = io.open(path, "w")
      good, message = pcall(checkpoint.save, { x = x }, { checkpoint_id = path })
      assert(not good and message:find("checkpoint.save: rank 0: ", 1, true), message)
    ]]))
  end)
end)

test("a rank that ends in the middle leaves the last checkpoint whole", function()
  in_folder(function(folder)
    run(2, with_folder(folder, SAVE))
    for _, when in ipairs { "begin", "written" } do
      local _, statuses = ranks.run(2, HEAD .. with_folder(folder, ([[
        local net, opt = make(5)
        local state = states(net, opt)
        state.step = 99
        local write = require "moonlet.distributed.checkpoint.write"
        local job = write.begin("checkpoint.save", nil or dist.new_group(), FOLDER, state)
        local function die()
          if rank == 1 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
        end
        if %q == "begin" then die() end
        write.finish(job, function(path, own)
          ml.save(path, own)
          die()
        end)
      ]]):format(when)))
      expect.truthy(statuses[0] ~= 0 and statuses[1] ~= 0)
      run(2, with_folder(folder, LOAD))
    end
    expect.truthy(#system.list(folder) > 3)
    run(2, with_folder(folder, SAVE))
    expect.equal(#system.list(folder), 3)
    os.remove(folder .. ".model")
    os.remove(folder .. ".optim")
  end)
end)

test("values that cannot be saved, on one rank, are told on all", function()
  in_folder(function(folder)
    run(2, with_folder(folder, [[
      local good, message = pcall(checkpoint.save, { a = { b = rank == 1 and print or 1 } },
        { checkpoint_id = FOLDER })
      assert(not good and message:find("checkpoint.save: rank 1: ", 1, true)
        and message:find("'a/b' is a function", 1, true), message)
      good, message = pcall(checkpoint.save, { x = ml.ones(2 + rank) }, { checkpoint_id = FOLDER })
      assert(not good and message:find("'x' is float32 (2) on one rank and float32 (3)", 1, true),
        message)
      good, message = pcall(checkpoint.load, { x = ml.ones(1) }, { checkpoint_id = FOLDER })
      assert(not good and message:find("has no checkpoint: there is no index.json", 1, true), message)
    ]]))
  end)
end)

test("what does not fit is listed, and nothing is changed", function()
  in_folder(function(folder)
    checkpoint.save({ x = ml.ones(2), y = ml.ones(3), n = 1, t = { a = 1 } },
      { checkpoint_id = folder })
    local state = { x = ml.zeros(2), y = ml.zeros(4), n = ml.ones(1), z = 5, t = 2 }
    local message = expect.error(function() checkpoint.load(state, { checkpoint_id = folder }) end)
    for _, text in ipairs { "checkpoint.load: ", "'y' has shape (4), in the checkpoint (3)",
        "'n' is a tensor, in the checkpoint a value", "'z' is not in the checkpoint",
        "'t' is a value, in the checkpoint a table" } do
      expect.truthy(message:find(text, 1, true), message)
    end
    expect.equal(state.x:sum():item(), 0)
    local half = { x = ml.zeros(2, { dtype = ml.float16 }) }
    checkpoint.load(half, { checkpoint_id = folder })
    expect.equal(half.x:tolist(), { 1, 1 })
  end)
end)

-- Changes of the index of { x = ml.ones(4, 2), n = 1 }, and what is said of them.
local WRONG = {
  { function() return "{" end, "index.json'" },
  { function() return "[]" end, "it is none of a checkpoint" },
  { function(i) i.version = 2 end, "it has version 2, this library reads version 1" },
  { function(i) i.tree = nil end, "no tensors or no tree" },
  { function(i) i.tree = "{}" end, "a bad value" },
  { function(i) i.tree = '{"t":[["x",{"x":"y"}]]}' end, "tensor 'y' is missing" },
  { function(i) i.tensors.x.dtype = "float99" end, "is no tensor of a known dtype" },
  { function(i) i.tensors.x.shape = { 4, -2 } end, "has no shape" },
  { function(i) i.tensors.x.shape = { 1 << 40, 1 << 40 } end, "" },
  { function(i) i.tensors.x.parts[1].file = "../shard-000001-00000.safetensors" end,
    "names no file of a checkpoint" },
  { function(i) i.tensors.x.parts[1].file = "/etc/passwd" end, "names no file of a checkpoint" },
  { function(i) i.tensors.x.parts[1].file = "shard-000009-00000.safetensors" end, "shard-000009" },
  { function(i) i.tensors.x.parts[1].key = "other" end, "has no tensor 'other'" },
  { function(i) i.tensors.x.parts[1].first = { 2, 1 } end, "lies outside of it" },
  { function(i) i.tensors.x.parts[1].first = { 1.5, 1 } end, "has no position" },
  { function(i) i.tensors.x.parts[2] = i.tensors.x.parts[1] end, "have 16 elements, it has 8" },
  { function(i)
      i.tensors.x.parts[1].shape = { 2, 2 }
      i.tensors.x.parts[2] = i.tensors.x.parts[1]
    end, "have elements in common" },
  { function(i) i.tensors.x.parts = {} end, "have 0 elements, it has 8" },
  { function(i) i.tensors.x.shape, i.tensors.x.parts[1].shape = { 2, 4 }, { 2, 4 } end,
    "(2, 4)" },
  { function(i) i.tensors.x.dtype = "int64" end, "by the index it is int64" },
}

test("an index or a file that is not what it should be is an error, and leads nowhere", function()
  in_folder(function(folder)
    checkpoint.save({ x = ml.ones(4, 2), n = 1 }, { checkpoint_id = folder })
    local path = folder .. "/index.json"
    local text = assert(io.open(path)):read "a"
    for number, wrong in ipairs(WRONG) do
      local index = json.decode(text)
      local changed = wrong[1](index) or json.encode(index)
      local file = assert(io.open(path, "w"))
      file:write(changed)
      file:close()
      local state = { x = ml.zeros(4, 2), n = 0 }
      local message = expect.error(function() checkpoint.load(state, { checkpoint_id = folder }) end)
      expect.truthy(message:find("checkpoint.load: ", 1, true)
        and message:find(wrong[2], 1, true), ("%d: %s"):format(number, message))
      message = expect.error(function() checkpoint.load({}, { checkpoint_id = folder }) end)
      expect.truthy(message:find("checkpoint.load: ", 1, true), message)
    end
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    local shard = folder .. "/shard-000001-00000.safetensors"
    local bytes = assert(io.open(shard, "rb")):read "a"
    file = assert(io.open(shard, "wb"))
    file:write(bytes:sub(1, #bytes - 5))
    file:close()
    local message = expect.error(function()
      checkpoint.load({ x = ml.zeros(4, 2) }, { checkpoint_id = folder })
    end)
    expect.truthy(message:find("shard-000001", 1, true), message)
  end)
end)

test("moonlet convert makes one file of a checkpoint", function()
  in_folder(function(folder)
    run(3, with_folder(folder, SAVE))
    local file = folder .. ".safetensors"
    local function convert(words)
      local pipe <close> = assert(io.popen(("'%s' convert %s 2>&1; echo $?"):format(arg[-1], words)))
      return pipe:read "a"
    end
    local text = convert(("--key model '%s' '%s'"):format(folder, file))
    expect.truthy(text:find ": 11 tensors\n0\n$", text)
    local got, wanted = ml.load(file), ml.load(folder .. ".model")
    for name, x in pairs(wanted) do expect.truthy(ml.equal(got[name], x), name) end
    text = convert(("'%s' '%s.pt'"):format(folder, folder))
    expect.truthy(text:find "\n0\n$", text)
    local all = ml.load(folder .. ".pt")
    expect.equal(all.step, 3)
    expect.truthy(ml.equal(all.model["0.weight"], wanted["0.weight"]))
    text = convert(("--key none '%s' '%s.pt'"):format(folder, folder))
    expect.truthy(text:find("convert: the checkpoint has no table 'none'\n1\n", 1, true), text)
    text = convert(("'%s' '%s.pt'"):format("/", folder))
    expect.truthy(text:find("moonlet: convert: '/' has no checkpoint", 1, true), text)
    checkpoint.dcp_to_torch_save(folder, file)
    expect.equal(ml.load(file).step, 3)
    for _, ending in ipairs { ".model", ".optim", ".safetensors", ".pt" } do
      os.remove(folder .. ending)
    end
  end)
end)

harness.run()
