# tests/reference/make_schedules.py: prints the table of tests/lua/optim/schedule_test.lua: the learning
# rates that PyTorch's schedules give. Needs PyTorch; run by hand.
import textwrap
import warnings

import torch
from torch.optim import lr_scheduler

warnings.simplefilter("ignore")

# Each case: the schedules with their options, and what happens to the rates on the way: {epoch:
# a rate set by hand, or "group" for a group that is added}.
CASES = [
    ([("StepLR", (3,), dict(gamma=0.5))], {}),
    ([("MultiStepLR", ([2, 5, 5],), dict(gamma=0.5))], {}),
    ([("ConstantLR", (), dict(factor=0.25, total_iters=4))], {}),
    ([("LinearLR", (), dict(start_factor=0.25, end_factor=0.75, total_iters=4))], {}),
    ([("ExponentialLR", (0.9,), {})], {}),
    ([("CosineAnnealingLR", (4,), dict(eta_min=0.01))], {}),
    ([("LambdaLR", ("f",), {})], {}),
    ([("MultiplicativeLR", ("f",), {})], {}),
    ([("StepLR", (2,), {}), ("CosineAnnealingLR", (6,), {})], {}),
    ([("LinearLR", (), dict(total_iters=3)), ("ExponentialLR", (0.8,), {})], {}),
    ([("StepLR", (3,), {})], {2: 0.5}),
    ([("CosineAnnealingLR", (8,), {})], {3: 0.05}),
    ([("LambdaLR", ("f",), {})], {2: 0.5}),
    ([("StepLR", (2,), {})], {3: "group"}),
    ([("CosineAnnealingLR", (12,), {})], {3: "group"}),
]
METRICS = [1.0, 0.9, 0.9, 0.9, 0.95, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8]
PLATEAUS = [dict(patience=1), dict(patience=0, cooldown=2, factor=0.5),
            dict(mode="max", patience=2, threshold_mode="abs", threshold=0.05, min_lr=0.03)]
# Schedules one after the other, with their milestones.
SEQUENCES = [
    ([("LinearLR", (), dict(start_factor=0.25, total_iters=3)), ("CosineAnnealingLR", (5,), {})], [3]),
    ([("ConstantLR", (), dict(factor=0.1, total_iters=2)), ("ExponentialLR", (0.9,), {}),
      ("StepLR", (2,), {})], [2, 5]),
    ([("LambdaLR", ("f",), {}), ("LambdaLR", ("f",), {})], [4]),
]


def factor(epoch):
    return 1 / (1 + epoch / 4)


def lua(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {lua(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "{ " + ", ".join(map(lua, value)) + " }"
    return f'"{value}"' if isinstance(value, str) else f"{value:.15g}"


def changes_of(changes):
    return "{ " + ", ".join(f"[{k}] = {lua(v)}" for k, v in changes.items()) + " }"


def wrapped(text):
    return textwrap.fill(text, 110, initial_indent="    ", subsequent_indent="      ")


def optimizer_of():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def make(optimizer, schedules):
    return [getattr(lr_scheduler, name)(optimizer, *(factor if a == "f" else a for a in args), **options)
            for name, args, options in schedules]


print("local kCases = {")
for schedules, changes in CASES:
    optimizer = optimizer_of()
    made = make(optimizer, schedules)
    rates = []
    for epoch in range(10):
        rates.append([group["lr"] for group in optimizer.param_groups])
        change = changes.get(epoch)
        if change == "group":
            optimizer.add_param_group(dict(params=[torch.zeros(2, requires_grad=True)], lr=0.4))
        elif change is not None:
            optimizer.param_groups[0]["lr"] = change
        for schedule in made:
            schedule.step()
    print(f"  {{ {lua(schedules)}, {changes_of(changes)},\n{wrapped(lua(rates))} }},")
print("}\nlocal kPlateaus = {")
for options in PLATEAUS:
    optimizer = optimizer_of()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rates = []
    for metric in METRICS:
        schedule.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    print(f"  {{ {lua(options)},\n{wrapped(lua(rates))} }},")
print("}\nlocal kSequences = {")
for schedules, milestones in SEQUENCES:
    optimizer = optimizer_of()
    sequence = lr_scheduler.SequentialLR(optimizer, make(optimizer, schedules), milestones)
    rates = []
    for epoch in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        sequence.step()
    head = wrapped(f"{lua(schedules)}, {lua(milestones)},")
    print(f"  {{\n{head}\n{wrapped(lua(rates))} }},")
print("}")
