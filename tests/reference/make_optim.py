# tests/reference/make_optim.py: prints the table of tests/lua/optim/optim_test.lua: where PyTorch's
# optimisers bring two parameters in 5 steps on a quadratic. Needs PyTorch; run by hand.
import torch

CASES = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1)),
    ("SGD", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.01)),
    ("Adam", dict(lr=0.1)),
    ("Adam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("Adam", dict(lr=0.1, amsgrad=True)),
    ("AdamW", dict(lr=0.1)),
    ("AdamW", dict(lr=0.05, weight_decay=0.3, amsgrad=True)),
    ("Adagrad", dict(lr=0.5)),
    ("Adagrad", dict(lr=0.3, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-6)),
    ("Adagrad", dict(lr=0.1, maximize=True)),
]
# The gradients shrink after the second step, which AMSGrad is about.
SCALES = [1, 10, 0.1, 0.1, 0.1]


def lua(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "{ " + ", ".join(map(repr, value)) + " }"
    return repr(value)


for name, options in CASES:
    w = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    optimizer = getattr(torch.optim, name)([w, b], **options)
    for step in range(5):
        optimizer.zero_grad()
        (SCALES[step] * ((a * w + b - step) ** 2).sum() / 2).backward()
        optimizer.step()
    given = ", ".join(f"{k} = {lua(v)}" for k, v in options.items())
    values = ", ".join(f"{v:.15g}" for v in w.tolist() + [b.item()])
    print(f'  {{ "{name}", {{ {given} }},\n    {{ {values} }} }},')
