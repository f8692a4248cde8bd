-- stdlib/cuda/graphs.lua: ml.cuda.CUDAGraph and graph: the work of a device recorded once and done
-- again by one call.

local class = require "moonlet.class"
local ml = require "moonlet"
local signature = require "moonlet.signature"

local native = ml._cuda_graphs
local graphs = {}

--- A CUDA graph: work on a device that is recorded once, and done again by each `replay` in one
--- call, without the time that Lua and launches take: `g:capture_begin()`, the ops,
--- `g:capture_end()`, `g:replay()`. `ml.cuda.graph` does the first three. What is recorded is not
--- done; its tensors hold numbers after the first replay, and each replay reads and writes the same
--- memory. Random numbers of the default generator are new at each replay, as they would be without
--- the graph.
--- > x = ml.ones(2, { device = "cuda" })  -- needs cuda
--- > g = ml.cuda.CUDAGraph()
--- > g:capture_begin()
--- > y = x * 2
--- > g:capture_end()
--- > g:replay()
--- > y:tolist()
---   {2.0, 2.0}
local CUDAGraph = class("CUDAGraph")

local read_new = signature "cuda.CUDAGraph()"

function CUDAGraph:init(...)
  read_new(...)
  self._graph = native.new()
end

local read_begin = signature "CUDAGraph:capture_begin(int>=1? pool=nil, int>=0? device=nil)"

--- Begins to record what the script has a device do, instead of doing it. What waits for the
--- device, and copies between it and the host, are errors meanwhile. Tensors made meanwhile have
--- memory of the graph's own or of `pool`. A stream that waits for the current one is recorded
--- too, until the end, before which the current one must wait for it.
--- > g = ml.cuda.CUDAGraph()  -- needs cuda
--- > g:capture_begin()
--- > y = ml.ones(2, { device = "cuda" })
--- > g:capture_end()
---@param pool? integer the memory to use, another graph's `pool()` or `graph_pool_handle()`,
---   which graphs that are replayed in the order of their captures can share
---@param device? integer number of the device; the current one unless given
function CUDAGraph:capture_begin(...)
  local pool, device = read_begin(...)
  native.begin(self._graph, device or ml.cuda.current_device(), pool or 0)
end

local read_end = signature "CUDAGraph:capture_end()"

--- Ends the recording.
--- > g = ml.cuda.CUDAGraph()  -- needs cuda
--- > g:capture_begin()
--- > y = ml.ones(2, { device = "cuda" })
--- > g:capture_end()
function CUDAGraph:capture_end(...)
  read_end(...)
  native.stop(self._graph)
end

local read_replay = signature "CUDAGraph:replay()"

--- Does what was recorded, without waiting for it.
--- > g = ml.cuda.graph(function() return ml.ones(2, { device = "cuda" }) end)  -- needs cuda
--- > g:replay()
function CUDAGraph:replay(...)
  read_replay(...)
  native.replay(self._graph)
end

local read_reset = signature "CUDAGraph:reset()"

--- Frees what was recorded, and its memory but for that of tensors that are still there. Waits for
--- the device.
--- > g = ml.cuda.graph(function() return ml.ones(2, { device = "cuda" }) end)  -- needs cuda
--- > g:reset()
function CUDAGraph:reset(...)
  read_reset(...)
  native.reset(self._graph)
end

local read_pool = signature "CUDAGraph:pool()"

--- The number of the memory that the graph uses, for further captures.
--- > g = ml.cuda.graph(function() return ml.ones(2, { device = "cuda" }) end)  -- needs cuda
--- > math.type(g:pool())
---   integer
---@return integer
function CUDAGraph:pool(...)
  read_pool(...)
  return native.pool(self._graph)
end

local read_graph = signature("cuda.graph(function f, int>=1? pool=nil, int>=0? device=nil)")

--- Calls `f` and records what it has a CUDA device do, instead of doing it: a whole step of
--- training, with `backward` and a `capturable` optimiser. Returns the graph and the results of
--- `f`, which hold numbers after `g:replay()`. A step is run once or more before it is recorded, so
--- that what its first run makes (the optimiser's states) exists; inputs are changed in place
--- between replays. An error in `f` ends the recording, and nothing has been done.
--- > x = ml.ones(2, { device = "cuda" })  -- needs cuda
--- > g, y = ml.cuda.graph(function() return x * 3 end)
--- > g:replay()
--- > y:tolist()
---   {3.0, 3.0}
---@param f fun(): any the function to record
---@param pool? integer the memory to use, as for `CUDAGraph:capture_begin`
---@param device? integer number of the device; the current one unless given
---@return moonlet.cuda.CUDAGraph graph
---@return any ... what `f` returns
function graphs.graph(...)
  local f, pool, device = read_graph(...)
  local g = CUDAGraph()
  g:capture_begin(pool, device)
  local results = table.pack(pcall(f))
  if not results[1] then
    native.abandon(g._graph)
    error(results[2], 0)
  end
  g:capture_end()
  return g, table.unpack(results, 2, results.n)
end

local read_handle = signature "cuda.graph_pool_handle()"

--- A number that stands for memory of graphs, for the `pool` of captures that are to share it.
--- > math.type(ml.cuda.graph_pool_handle())  -- needs cuda
---   integer
---@return integer
function graphs.graph_pool_handle(...)
  read_handle(...)
  return native.new_pool()
end

local read_capturing = signature "cuda.is_current_stream_capturing()"

--- Whether what the script has a CUDA device do is being recorded.
--- > ml.cuda.is_current_stream_capturing()  -- needs cuda
---   false
---@return boolean
function graphs.is_current_stream_capturing(...)
  read_capturing(...)
  return native.is_capturing()
end

graphs.CUDAGraph = CUDAGraph
return graphs
