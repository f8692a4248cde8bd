"""tests/reference/make_differentiable.py: writes tests/reference/values/differentiable.json, what
tests/lua/optim/optim_modes_test.lua compares with: PyTorch's derivatives through steps of optimisers. Needs
PyTorch; run by hand.
usage: python3 tests/reference/make_differentiable.py
"""
import json
import os

import torch

torch.set_default_dtype(torch.float64)  # steps are counted in it
CASES = [
    ("SGD", {}), ("SGD", dict(momentum=0.9, dampening=0.2)), ("SGD", dict(momentum=0.8, nesterov=True, weight_decay=0.1)),
    ("Adam", {}), ("Adam", dict(amsgrad=True, weight_decay=0.1)), ("Adam", dict(maximize=True)), ("AdamW", {}),
    ("Adagrad", dict(lr_decay=0.1, weight_decay=0.1)), ("Adadelta", {}), ("Adadelta", dict(weight_decay=0.1)),
    ("Adamax", {}), ("ASGD", dict(lambd=0.1, t0=1)), ("NAdam", {}), ("NAdam", dict(weight_decay=0.1)), ("RAdam", {}),
    ("RAdam", dict(betas=(0.8, 0.99))), ("RMSprop", {}), ("RMSprop", dict(momentum=0.9, centered=True)), ("Rprop", {}),
]
# Those whose step PyTorch can derive by a rate that is a tensor.
BY_RATE = {"SGD", "Adam", "AdamW"}


def run(name, options, by_rate, steps):
    start = torch.tensor([0.7, -1.2, 0.4], dtype=torch.float64, requires_grad=True)
    rate = torch.tensor(0.1, dtype=torch.float64, requires_grad=True) if by_rate else 0.1
    p = start.clone()
    optimizer = getattr(torch.optim, name)([p], lr=rate, differentiable=True, **options)
    for step in range(steps):
        q = p.clone()
        loss = ((q * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) - 0.3 * step) ** 4).sum() * 0.02
        p.grad = torch.autograd.grad(loss, q, create_graph=True)[0]
        optimizer.step()
    total = (p ** 3).sum()
    wanted = [start, rate] if by_rate else [start]
    grads = torch.autograd.grad(total, wanted)
    return dict(steps=steps, values=p.tolist(), start=grads[0].tolist(), rate=grads[1].item() if by_rate else None)


out = []
for name, options in CASES:
    for by_rate in (False, True) if name in BY_RATE else (False,):
        for steps in (7, 3, 1):
            try:
                case = run(name, options, by_rate, steps)
                break
            except RuntimeError:  # a step overwrites what the derivative of the one before needs
                continue
        out.append(dict(name=name, options=options, by_rate=by_rate, **case))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "differentiable.json")
with open(path, "w") as file:
    json.dump([{k: v for k, v in case.items() if v is not None} for case in out], file, separators=(",", ":"))
    file.write("\n")
