-- stdlib/distributed.lua: ml.distributed: processes that train together: their start, groups,
-- collectives, and what is made of them. Ranks count from 0, as in MPI and in the environment of
-- every launcher.

local options = require "moonlet.options"

local distributed = {}

return options.namespace("distributed", distributed, options.late {
  ["distributed.backends"] = { "is_available", "is_gloo_available", "is_mpi_available",
    "is_nccl_available" },
  ["distributed.groups"] = { "is_initialized", "init_process_group",
    "destroy_process_group", "new_group", "split_group", "get_rank", "get_world_size",
    "get_local_rank", "get_backend", "get_process_group_ranks", "set_debug", "ProcessGroup" },
  ["distributed.stores"] = { "Store", "TCPStore", "FileStore" },
  ["distributed.collectives"] = { "all_reduce", "broadcast", "reduce", "all_gather",
    "all_gather_into_tensor", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor",
    "all_to_all", "all_to_all_single", "barrier", "monitored_barrier" },
  ["distributed.transfers"] = { "send", "recv", "isend", "irecv", "P2POp", "batch_isend_irecv" },
  ["distributed.objects"] = { "all_gather_object", "gather_object", "broadcast_object_list",
    "scatter_object_list", "send_object_list", "recv_object_list" },
  ["distributed.comm_hooks"] = { "comm_hooks" },
  ["distributed.grad_bucket"] = { "GradBucket" },
  ["distributed.zero"] = { "ZeroRedundancyOptimizer" },
  ["distributed.checkpoint"] = { "checkpoint" },
  ["distributed.fully_shard"] = { "fully_shard", "FSDPModule", "MixedPrecisionPolicy" },
  ["distributed.functional"] = { "functional" },
  ["distributed.tensor"] = { "tensor" },
  ["distributed.pipelining"] = { "pipelining" },
  ["distributed.device_mesh"] = { "DeviceMesh", "init_device_mesh" },
})
