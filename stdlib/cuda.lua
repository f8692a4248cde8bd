-- stdlib/cuda.lua: ml.cuda: CUDA devices: which there are, their memory, streams, events, graphs.
-- A device is a number from 0 or "cuda:N"; "cuda" and none are the current one.

local ml = require "moonlet"
local options = require "moonlet.options"

-- What C++ gives is there at once.
local cuda = {}
for name, value in pairs(ml._cuda) do cuda[name] = value end

return options.namespace("cuda", cuda, options.late {
  ["cuda.graphed"] = { "make_graphed_callables" },
  ["cuda.graphs"] = { "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing" },
  ["cuda.streams"] = { "Stream", "Event", "stream", "set_stream", "current_stream",
    "default_stream" },
  ["cuda.devices"] = { "current_device", "set_device", "device", "device_of", "get_device_name",
    "get_device_properties", "get_device_capability", "can_device_access_peer" },
  ["cuda.comm"] = { "comm" },
  ["cuda.elementwise"] = { "elementwise_kernel", "ElementwiseKernel" },
  ["cuda.kernels"] = { "kernel", "Kernel" },
  ["cuda.memory"] = { "memory_allocated", "max_memory_allocated", "memory_reserved",
    "max_memory_reserved", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    "memory_stats", "memory_summary", "memory_snapshot", "record_memory_history", "dump_snapshot",
    "memory_page", "mem_get_info", "empty_cache", "set_per_process_memory_fraction",
    "get_per_process_memory_fraction" },
  ["cuda.prefetch"] = { "prefetch" },
})
