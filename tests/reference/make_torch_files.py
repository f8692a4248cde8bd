"""tests/reference/make_torch_files.py: writes the files of tests/reference/torch_files with torch.save:
what tests/lua/torch_file_test.lua reads.  usage: python3 tests/reference/make_torch_files.py
"""
import collections, os
import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_files")

def save(name, value, **options):
    torch.save(value, os.path.join(FOLDER, name), **options)

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
with torch.no_grad():
    for i, p in enumerate(net.parameters()): p.copy_(torch.arange(p.numel()).reshape(p.shape) + i)
save("state_dict.pt", net.state_dict())

net(torch.ones(4, 3)).sum().backward()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
optimizer.step()
base = torch.arange(12.0)
save("checkpoint.pt", {
    "epoch": 3, "rate": 0.25, "name": "net/é", "done": True, "none": None, "big": 2 ** 40, "negative": -7,
    "list": [1, None, "three"], "tuple": (torch.tensor(1.5),), "optimizer": optimizer.state_dict(),
    "view": base.reshape(3, 4).t(), "same": base, "empty": torch.empty(0, 3),
    "parameter": torch.nn.Parameter(torch.ones(2)), "ordered": collections.OrderedDict(a=1, b=[2.5]),
    "size": torch.Size([2, 3])})

dtypes = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128"]
save("dtypes.pt", {name: torch.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(torch, name)) for name in dtypes})
save("protocol4.pt", {"x": torch.ones(2, 2), "names": ["a", "b"]}, pickle_protocol=4)
save("module.pt", net)
shared = torch.arange(4.0)
save("legacy.pt", {"whole": shared, "part": shared[1:].reshape(3, 1), "half": torch.ones(2, dtype=torch.bfloat16),
                   "bytes": b"\xff\x00a", "complex": 1 - 2j, "device": torch.device("cuda:1"), "epoch": 3},
     _use_new_zipfile_serialization=False)
