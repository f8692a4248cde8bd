# tests/reference/make_fully_shard.py: writes values/fully_shard.json: a small model that PyTorch's
# fully_shard trains on 2 processes by gloo: its first parameters, the tokens, and what each step
# gives. Needs PyTorch; run by hand: python3 tests/reference/make_fully_shard.py
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

RANKS, STEPS, ROWS, TOKENS, WORDS, DIM = 2, 6, 3, 5, 11, 9

# Each case: options of fully_shard, batches whose gradients add up before one step, the limit of
# the norm, and the optimiser.
CASES = {
    "plain": dict(),
    "kept": dict(reshard=False, clip=0.5),
    "accumulated": dict(optimizer="SGD", batches=3, clip=0.4),
    "momentum": dict(optimizer="SGD", clip=10.0),
    "bfloat16": dict(policy=dict(param_dtype="bfloat16", reduce_dtype="float32",
                                 output_dtype="float32")),
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.a = nn.Linear(DIM, 3 * DIM)
        self.b = nn.Linear(3 * DIM, DIM)

    def forward(self, x):
        return x + self.b(nn.functional.gelu(self.a(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(DIM, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids).cumsum(1)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def whole(p):
    return (p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten().tolist()


def train(rank, case, first, tokens):
    net = Net()
    net.load_state_dict(first)
    mesh = init_device_mesh("cpu", (RANKS,))
    options = dict(mesh=mesh)
    if case.get("reshard") is not None:
        options["reshard_after_forward"] = case["reshard"]
    of_blocks = dict(options)
    if "policy" in case:
        policy = {name: getattr(torch, dtype) for name, dtype in case["policy"].items()}
        options["mp_policy"] = MixedPrecisionPolicy(**policy)
        del policy["output_dtype"]
        of_blocks["mp_policy"] = MixedPrecisionPolicy(**policy)
    for block in net.blocks:
        fully_shard(block, **of_blocks)
    fully_shard(net, **options)
    if case.get("optimizer") == "SGD":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    steps, batches = [], case.get("batches", 1)
    for step in range(STEPS):
        optimizer.zero_grad()
        losses = []
        for batch in range(batches):
            net.set_requires_gradient_sync(batch == batches - 1)
            rows = tokens[step][batch][rank * ROWS:(rank + 1) * ROWS]
            scores = net(rows[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            loss.backward()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / RANKS)
        norm = None
        if "clip" in case:
            norm = nn.utils.clip_grad_norm_(net.parameters(), case["clip"]).full_tensor().item()
        optimizer.step()
        shown = {name: whole(p) for name, p in net.named_parameters()} if step in (0, STEPS - 1) else None
        steps.append(dict(losses=losses, norm=norm, parameters=shown))
    return steps


def run(rank, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK=str(rank),
                      WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    first = Net().state_dict()
    tokens = torch.randint(WORDS, (STEPS, 3, RANKS * ROWS, TOKENS + 1))
    cases = {name: dict(case, steps=train(rank, case, first, tokens)) for name, case in CASES.items()}
    if rank == 0:
        out = dict(
            pytorch=torch.__version__, rows=ROWS, words=WORDS, dim=DIM, tokens=(tokens + 1).tolist(),
            first={name: dict(shape=list(x.shape), data=x.flatten().tolist())
                   for name, x in first.items()}, cases=cases)
        with open(path, "w") as file:
            json.dump(out, file, separators=(",", ":"))
            file.write("\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values")
    mp.spawn(run, args=(os.path.join(folder, "fully_shard.json"),), nprocs=RANKS)
    sys.exit(0)
