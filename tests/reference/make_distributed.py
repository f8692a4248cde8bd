# tests/reference/make_distributed.py: writes values/distributed.json: where two processes of PyTorch
# (gloo) bring the parameters of a small network step by step, with DistributedDataParallel and what
# goes with it. tests/lua/distributed/torch_steps_test.lua makes the same network and data. Needs PyTorch:
#
#     python3 tests/reference/make_distributed.py
import json
import math
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as power
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

SIZE, ROWS, INPUTS, HIDDEN, OUTPUTS = 2, 4, 8, 10, 6


def wave(shape, seed, scale=1.0, dtype=torch.float64):
    count = math.prod(shape)
    values = [scale * math.sin(0.37 * i + 1.3 * seed + 0.011 * i * i) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype)


class Net(nn.Module):
    """Two layers, and three branches of which a call takes one."""

    def __init__(self, branches):
        super().__init__()
        self.a, self.b = nn.Linear(INPUTS, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, OUTPUTS)
        if branches:
            self.left, self.right = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
            self.never = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x, branch=None):
        h = torch.tanh(self.b(torch.tanh(self.a(x))))
        if branch is not None:
            h = getattr(self, branch)(h)
        return self.out(h)


def fill(module, dtype):
    module.to(dtype)
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(wave(p.shape, i + 1, 0.4, dtype))
    return module


def batch(step, rank, dtype, rows=ROWS):
    return (wave((rows, INPUTS), 10 * step + rank, 1.0, dtype),
            wave((rows, OUTPUTS), 100 + 10 * step + rank, 1.0, dtype))


def flat(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).tolist()


def backward(ddp, step, rank, dtype, *more):
    x, y = batch(step, rank, dtype)
    nn.functional.mse_loss(ddp(x, *more), y).backward()


def train(rank, steps, dtype=torch.float64, hook=None, optimizer=None, branches=False, one=None,
          **options):
    """The parameters after each step; `one(ddp, step)` is what a step does before the optimiser."""
    net = fill(Net(branches), dtype)
    ddp = DistributedDataParallel(net, **options)
    if hook:
        ddp.register_comm_hook(*hook)
    opt = optimizer(net.parameters()) if optimizer else torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9)
    out = []
    for step in range(1, steps + 1):
        opt.zero_grad()
        if one:
            one(ddp, step)
        else:
            backward(ddp, step, rank, dtype)
        opt.step()
        out.append(flat(net))
    return out


def no_sync(rank):
    def one(ddp, step):
        with ddp.no_sync():
            backward(ddp, 2 * step, rank, torch.float64)
        backward(ddp, 2 * step + 1, rank, torch.float64)
    return train(rank, 3, one=one)


def unused(rank):
    def one(ddp, step):
        branch = "left" if step < 3 or (rank + step) % 2 == 0 else "right"
        backward(ddp, step, rank, torch.float64, branch)
    return train(rank, 5, branches=True, one=one, find_unused_parameters=True,
                 bucket_cap_mb=0.0005)


def uneven(rank):
    net = fill(Net(False), torch.float64)
    ddp = DistributedDataParallel(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    with ddp.join():
        for step in range(1, (2 if rank == 0 else 4) + 1):
            opt.zero_grad()
            backward(ddp, step, rank, torch.float64)
            opt.step()
    return [flat(net)]


def zero(rank):
    def optimizer(parameters):
        return ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.05, weight_decay=0.01)
    return train(rank, 4, optimizer=optimizer)


def fixed_factors(*shape, device=None, dtype=None):
    return wave(shape[-2:], 3, 1.0, dtype).expand(shape).clone()


def compressed(rank, hook=power.powerSGD_hook, **options):
    state = power.PowerSGDState(process_group=None, start_powerSGD_iter=2, min_compression_rate=1,
                                **options)
    before, torch.randn = torch.randn, fixed_factors
    try:
        return train(rank, 6, hook=(state, hook))
    finally:
        torch.randn = before


def whole_batch_norm(_):
    """What SyncBatchNorm is to give: PyTorch's own is for GPUs, so this is one process."""
    net = fill(nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.Tanh(),
                             nn.Linear(HIDDEN, OUTPUTS)), torch.float64)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    out = []
    for step in range(1, 4):
        parts = [batch(step, r, torch.float64) for r in range(SIZE)]
        opt.zero_grad()
        nn.functional.mse_loss(net(torch.cat([x for x, _ in parts])),
                               torch.cat([y for _, y in parts])).backward()
        opt.step()
        out.append(flat(net) + net[1].running_mean.tolist() + net[1].running_var.tolist())
    return out


CASES = {
    "plain": lambda rank: train(rank, 4),
    "no_sync": no_sync,
    "unused": unused,
    "join": uneven,
    "zero": zero,
    "sync_batch_norm": whole_batch_norm,
    "fp16": lambda rank: train(rank, 4, torch.float32, (None, default_hooks.fp16_compress_hook)),
    "bf16": lambda rank: train(rank, 4, torch.float32, (None, default_hooks.bf16_compress_hook)),
    "powersgd": lambda rank: compressed(rank),
    "powersgd_rank_2": lambda rank: compressed(rank, matrix_approximation_rank=2),
    "powersgd_rank_3": lambda rank: compressed(rank, matrix_approximation_rank=3),
    "powersgd_cold": lambda rank: compressed(rank, matrix_approximation_rank=2, warm_start=False),
    "powersgd_no_feedback": lambda rank: compressed(rank, use_error_feedback=False),
    "powersgd_same_shape": lambda rank: compressed(rank, batch_tensors_with_same_shape=True),
    "powersgd_epsilon": lambda rank: compressed(rank, orthogonalization_epsilon=0.1),
}


def work(rank, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29871", RANK=str(rank),
                      WORLD_SIZE=str(SIZE))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for name, case in CASES.items():
        found[name] = case(rank)
        all_ranks = [None] * SIZE
        dist.all_gather_object(all_ranks, found[name])
        assert all_ranks[0] == all_ranks[1], name
    if rank == 0:
        with open(os.path.join(folder, "found.json"), "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


def rounded(value):
    return [rounded(each) for each in value] if isinstance(value, list) else float(f"{value:.8g}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (folder,), nprocs=SIZE)
        with open(os.path.join(folder, "found.json")) as file:
            values = json.load(file)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "distributed.json")
    lines = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(rounded(step)) for step in steps)
             + "]" for name, steps in values.items()]
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
