-- tests/lua/distributed/mesh_test.lua: DeviceMesh: ranks, coordinates, groups and parts of grids of
-- ranks, and what is refused.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local dist = ml.distributed

local function refuses(pattern, f, ...)
  local good, message = pcall(f, ...)
  expect.truthy(not good and message:find(pattern, 1, true), tostring(message))
end

-- Ends the group of one rank that `f` has made, also after an error.
local function alone(f)
  local good, message = pcall(f)
  if dist.is_initialized() then dist.destroy_process_group() end
  if not good then error(message, 0) end
end

test("one rank has a mesh of any number of dimensions, which starts the group", function()
  alone(function()
    local mesh = dist.init_device_mesh("cpu", { 1, 1, 1 }, { mesh_dim_names = { "a", "b", "c" } })
    expect.truthy(dist.is_initialized())
    expect.equal(mesh.ndim, 3)
    expect.equal(mesh.shape, { 1, 1, 1 })
    expect.equal(mesh:get_coordinate(), { 0, 0, 0 })
    expect.equal(mesh:get_dim_names(), { "a", "b", "c" })
    expect.equal(mesh[{ "a", "c" }].shape, { 1, 1 })
    expect.equal(tostring(mesh), "DeviceMesh of cpu: a 1, b 1, c 1")
    expect.truthy(mesh.b == mesh["b"] and rawequal(mesh.b, mesh.b))
    expect.equal(mesh.b:get_group().size, 1)
    expect.equal(mesh.mesh:tolist(), { { { 0 } } })
  end)
end)

test("grids, names and dimensions that cannot be are refused", function()
  alone(function()
    refuses("there is no process group", dist.DeviceMesh, "cpu", { 0 })
    refuses("a mesh of (2, 3) has 6 ranks, there are 1", dist.init_device_mesh, "cpu", { 2, 3 })
    refuses("at least one dimension", dist.init_device_mesh, "cpu", {})
    refuses("'device_type' must be a type of devices that is there", dist.init_device_mesh, "gpu",
      { 1 })
    refuses("'device_type' must be a type of devices that is there", dist.init_device_mesh, "cpu:0",
      { 1 })
    local function named(...) return dist.init_device_mesh("cpu", { 1, 1 },
      { mesh_dim_names = { ... } }) end
    refuses("a name for each of the 2 dimensions, got 1", named, "dp")
    refuses("'mesh_dim_names' has 'dp' twice", named, "dp", "dp")
    refuses("has 'size', which is no name of a dimension: it is a field of meshes", named, "dp",
      "size")
    refuses("has '', which is no name", named, "dp", "")
    refuses("did you mean 'mesh_dim_names'", dist.init_device_mesh, "cpu", { 1 }, { mesh_dim = {} })
    local mesh = named("dp", "tp")
    refuses("the mesh has no dimension 'pp'", function() return mesh.pp end)
    refuses("the mesh has no dimension 'pp'", mesh.get_group, mesh, "pp")
    refuses("'mesh_dim' must be from 1 to 2, got 3", mesh.size, mesh, 3)
    refuses("'mesh_dim' must be from 1 to 2, got 0", mesh.get_local_rank, mesh, 0)
    refuses("'mesh_dim' must be given for a mesh of 2 dimensions", mesh.get_group, mesh)
    refuses("'dp' does not stand behind 'tp'", function() return mesh[{ "tp", "dp" }] end)
    refuses("at least one dimension must be named", function() return mesh[{}] end)
    refuses("'size' cannot be set", function() mesh.dp.size = 3 end)
    refuses("rank 0 is given twice", dist.DeviceMesh, "cpu", { 0, 0 })
    refuses("a rank must be from 0 to 0, got 1", dist.DeviceMesh, "cpu", { 1 })
    refuses("'mesh' must have ranks in nested arrays", dist.DeviceMesh, "cpu", { { 0 }, { 0, 1 } })
    refuses("'mesh' must have ranks in nested arrays", dist.DeviceMesh, "cpu", 0)
    refuses("'mesh' must have ranks in nested arrays", dist.DeviceMesh, "cpu", ml.tensor { 0.5 })
  end)
end)

test("the grid of 4 ranks: coordinates, groups that add up, parts", function()
  ranks.run_well(4, [[
    local mesh = dist.init_device_mesh("cpu", { 2, 2 }, { mesh_dim_names = { "dp", "tp" } })
    local row, column = rank // 2, rank % 2
    local here = mesh:get_coordinate()
    assert(here[1] == row and here[2] == column)
    assert(mesh:get_local_rank("dp") == row and mesh:get_local_rank(2) == column)
    assert(mesh:size() == 4 and mesh:size(1) == 2 and mesh:size("tp") == 2)
    local x = ml.full({ 3 }, 2.0 ^ rank)
    dist.all_reduce(x, { group = mesh:get_group("tp") })
    assert(x[1]:item() == (row == 0 and 3 or 12))
    x:fill_(2.0 ^ rank)
    dist.all_reduce(x, { group = mesh.dp:get_group() })
    assert(x[1]:item() == (column == 0 and 5 or 10))
    assert(mesh.tp:get_coordinate()[1] == column and mesh.tp:size() == 2)
    assert(ml.equal(mesh.tp.mesh, ml.tensor { 2 * row, 2 * row + 1 }))
    assert(ml.equal(mesh.dp.mesh, ml.tensor { column, column + 2 }))
    assert(rawequal(mesh:get_all_groups()[2], mesh.tp:get_group()))
    local three = dist.init_device_mesh("cpu", { 2, 1, 2 }, { mesh_dim_names = { "a", "b", "c" } })
    assert(ml.equal(three[{ "a", "c" }].mesh, ml.tensor { { 0, 1 }, { 2, 3 } }))
    assert(ml.equal(three[{ "b", "c" }].mesh, ml.tensor { { 2 * row, 2 * row + 1 } }))
    assert(three[{ "b", "c" }]:get_group("c").size == 2)
    dist.destroy_process_group()
  ]])
end)

test("a mesh of some of the ranks, which the others make too", function()
  ranks.run_well(3, [[
    dist.init_process_group()
    local mesh = dist.DeviceMesh("cpu", { { 0 }, { 2 } }, { mesh_dim_names = { "dp", "tp" } })
    assert(mesh:size() == 2 and mesh.shape[1] == 2)
    if rank == 1 then
      assert(mesh:get_coordinate() == nil)
      for _, f in ipairs { function() return mesh:get_group(1) end, function() return mesh.dp end,
          function() return mesh:get_local_rank(1) end } do
        local good, message = pcall(f)
        assert(not good and message:find("rank 1 is none of the mesh's, which are 0, 2", 1, true),
          message)
      end
    else
      local x = ml.ones(1) * rank
      dist.all_reduce(x, { group = mesh:get_group("dp") })
      assert(x:item() == 2 and mesh:get_local_rank("dp") == rank // 2)
    end
    local good, message = pcall(dist.DeviceMesh, "cpu", { 2, 0 })
    assert(not good and message:find("got 0 behind 2 in dimension 1", 1, true), message)
    good, message = pcall(dist.init_device_mesh, "cpu", { 2, 2 })
    assert(not good and message:find("a mesh of (2, 2) has 4 ranks, there are 3", 1, true), message)
    dist.destroy_process_group()
  ]])
end)

harness.run()
