# tests/reference/make_parallel.py: writes values/parallel.json: what PyTorch's tensor parallel layers
# and pipelines give step by step on 2 and 4 processes by gloo: first parameters, batches, losses and
# parameters. Needs PyTorch; run by hand: python3 tests/reference/make_parallel.py
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
    parallelize_module)

STEPS, ROWS, TOKENS, WORDS, DIM, HEADS = 4, 4, 4, 12, 8, 4

CASES = {
    "plain 2": dict(ranks=2, kind="plain"),
    "sequence 2": dict(ranks=2, kind="sequence"),
    "sequence 4": dict(ranks=4, kind="sequence"),
    "gpipe 2": dict(ranks=2, kind="ScheduleGPipe", microbatches=4),
    "1f1b 2": dict(ranks=2, kind="Schedule1F1B", microbatches=4),
    "1f1b 4": dict(ranks=4, kind="Schedule1F1B", microbatches=8),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x):
        def split(t):
            return t.view(t.shape[0], t.shape[1], -1, DIM // HEADS).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(
            split(self.q(x)), split(self.k(x)), split(self.v(x)), is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return self.w2(nn.functional.gelu(self.w1(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, DIM)
        self.norm1, self.attention = nn.LayerNorm(DIM), Attention()
        self.norm2, self.ffn = nn.RMSNorm(DIM), FeedForward()
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, WORDS)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.attention(self.norm1(x))
        x = x + self.ffn(self.norm2(x))
        return self.head(self.norm(x))


def plan_of(kind):
    plan = {"attention." + name: ColwiseParallel() for name in "qkv"}
    plan["ffn.w1"] = ColwiseParallel()
    if kind == "plain":
        plan.update({"embedding": RowwiseParallel(input_layouts=Replicate()),
                     "attention.out": RowwiseParallel(), "ffn.w2": RowwiseParallel(),
                     "head": ColwiseParallel(use_local_output=False)})
        return plan
    gather = dict(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan.update({
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm1": SequenceParallel(), "norm2": SequenceParallel(), "norm": SequenceParallel(),
        "attention": PrepareModuleInput(**gather), "ffn": PrepareModuleInput(**gather),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "ffn.w2": RowwiseParallel(output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False)})
    return plan


def whole(p):
    return (p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten().tolist()


def shown(named, step):
    return {name: whole(p) for name, p in named} if step in (0, STEPS - 1) else None


def train_sharded(case, first, tokens):
    mesh = init_device_mesh("cpu", (case["ranks"],))
    net = Net()
    net.load_state_dict(first)
    parallelize_module(net, mesh, plan_of(case["kind"]))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    steps = []
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = tokens[step]
        scores = net(rows[:, :-1])
        with loss_parallel():
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        value = loss.full_tensor() if isinstance(loss, DTensor) else loss
        steps.append(dict(losses=[value.item()], parameters=shown(net.named_parameters(), step)))
    return steps


def layers():
    return [nn.Sequential(nn.Linear(3 if i == 0 else 5, 2 if i == 3 else 5), nn.Tanh())
            for i in range(4)]


def train_piped(rank, case, first, batches):
    count = case["ranks"]
    net = nn.ModuleList(layers())
    net.load_state_dict(first)
    each = 4 // count
    own = nn.Sequential(*net[rank * each:(rank + 1) * each])
    stage = PipelineStage(own, rank, count, torch.device("cpu"))
    make = dict(ScheduleGPipe=ScheduleGPipe, Schedule1F1B=Schedule1F1B)[case["kind"]]
    schedule = make(stage, case["microbatches"], loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(own.parameters(), lr=0.01)
    steps = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batches[step]
        losses = []
        if rank == 0:
            schedule.step(x)
        elif rank == count - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        found = [None] * count
        names = {id(p): name for name, p in net.named_parameters()}
        named = [(names[id(p)], p) for p in own.parameters()]
        dist.all_gather_object(found, (shown(named, step), [loss.item() for loss in losses]))
        parameters = {}
        for part, _ in found:
            parameters.update(part or {})
        steps.append(dict(losses=found[-1][1], parameters=parameters or None))
    return steps


def run(rank, name, path):
    case = CASES[name]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613", RANK=str(rank),
                      WORLD_SIZE=str(case["ranks"]))
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    given = torch.load(path)
    if case["kind"].startswith("Schedule"):
        steps = train_piped(rank, case, given["layers"], given["batches"])
    else:
        steps = train_sharded(case, given["net"], given["tokens"])
    if rank == 0:
        torch.save(steps, path + name)
    dist.destroy_process_group()


def text(state):
    return {name: dict(shape=list(x.shape), data=x.flatten().tolist()) for name, x in state.items()}


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values")
    path = os.path.join(folder, "parallel.tmp")
    torch.manual_seed(1)
    given = dict(net=Net().state_dict(), layers=nn.ModuleList(layers()).state_dict(),
                 tokens=torch.randint(WORDS, (STEPS, ROWS, TOKENS + 1)),
                 batches=[(torch.randn(8, 3), torch.randn(8, 2)) for _ in range(STEPS)])
    torch.save(given, path)
    cases = {}
    for name, case in CASES.items():
        mp.spawn(run, args=(name, path), nprocs=case["ranks"])
        cases[name] = dict(case, steps=torch.load(path + name))
        os.remove(path + name)
    os.remove(path)
    out = dict(pytorch=torch.__version__, words=WORDS, dim=DIM, heads=HEADS,
               tokens=(given["tokens"] + 1).tolist(), net=text(given["net"]),
               batches=[[x.tolist(), y.tolist()] for x, y in given["batches"]],
               layers=text(given["layers"]), cases=cases)
    with open(os.path.join(folder, "parallel.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
    sys.exit(0)
