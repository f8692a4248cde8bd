#!/usr/bin/env python3
# tests/bench/all_reduce.py: the same as all_reduce.lua by torch.distributed with Gloo:
#
#     RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python3 tests/bench/all_reduce.py
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28]:
    x = torch.ones(size // 4)
    runs = 400 if size <= 1 << 16 else 100 if size <= 1 << 20 else 20 if size <= 1 << 24 else 4
    least = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        least = min(least, time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(f"{size >> 10:9d} KiB {least * 1e6:12.1f} us")
dist.destroy_process_group()
