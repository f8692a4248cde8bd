# tests/reference/make_sparse_optim.py: prints the table of tests/lua/optim/sparse_optim_test.lua: where
# PyTorch's optimisers bring a table of embeddings in 10 steps with sparse gradients. Needs PyTorch;
# run by hand.
import torch
import torch.nn.functional as F

STEPS = [[1, 3, 3], [2, 6, 1], [5, 5, 5], [3, 1, 4], [2, 2, 6], [1, 1, 3], [4, 5, 6], [6, 3, 2],
         [1, 2, 2], [5, 1, 5]]
CASES = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.01, maximize=True)),
    ("SGD", dict(lr=0.05, momentum=0.9, dampening=0.2)),
    ("SGD", dict(lr=0.05, momentum=0.8, nesterov=True)),
    ("Adagrad", dict(lr=0.1)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5, eps=1e-6, maximize=True)),
    ("SparseAdam", dict(lr=0.1)),
    ("SparseAdam", dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6, maximize=True)),
]

for name, options in CASES:
    w = torch.tensor([[(i * 3 + j) % 7 * 0.25 - 0.5 for j in range(3)] for i in range(6)],
                     dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], **options)
    for k, positions in enumerate(STEPS):
        optimizer.zero_grad()
        y = F.embedding(torch.tensor(positions) - 1, w, sparse=True)
        c = torch.arange(9, dtype=torch.float64).reshape(3, 3) * 0.1 - 0.3 + 0.05 * k
        (((y - c) ** 2).sum() * 0.5 + (y * c).sin().sum()).backward()
        optimizer.step()
    rows = ["{ " + ", ".join(f"{v:.12g}" for v in row) + " }" for row in w.tolist()]
    print(f"  {name}, {options}:\n    {{ {', '.join(rows)} }}")
