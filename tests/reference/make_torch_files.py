"""tests/reference/make_torch_files.py: writes the files of tests/reference/torch_files with torch.save:
what tests/lua/files/torch_file_test.lua reads.  usage: python3 tests/reference/make_torch_files.py
"""
import argparse, collections, datetime, json, os, pathlib
import numpy as np
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

# What is beside tensors, each also in the format before PyTorch 1.6.
def save_both(name, value):
    save(name + ".pt", value)
    save(name + "_legacy.pt", value, _use_new_zipfile_serialization=False)

z = torch.tensor([1 + 2j, 3 - 4j])
save_both("lazy", {"conj": z.conj(), "neg": torch._neg_view(torch.tensor([1.0, 3.0])),
    "both": torch._neg_view(z.conj()), "imag": torch.tensor([1 + 2j, 3 - 5j]).conj().imag,
    "parameter": torch.nn.Parameter(z.conj())})
plain = {"z": 1, "set": {5}, "counter": collections.Counter("aba"),
    "default": collections.defaultdict(list, {"x": [1]}), "ordered": collections.OrderedDict([("q", 1), ("b", 2)]),
    ("t", 1): "tuple key", "big": 2 ** 70, "inexact": -2 ** 70 - 1, "huge": 3 ** 900, "size": torch.Size([2, 3]),
    "device": torch.device("cuda", 1), "dtype": torch.float16, torch.int8: "dtype key", "tuple": (1, (2, None)),
    "no_items": (), "no_list": [], "no_dict": {}, "holes": [1, None, 3], "none": None, "array": bytearray(b"x\xff"),
    "frozen": frozenset([1]), None: "none key", "a": 2}
save_both("plain", plain)
save("plain5.pt", plain, pickle_protocol=5)
arrays = {"double": np.float64(1.5), "long": np.int64(-3), "bool": np.bool_(True), "complex": np.complex64(1 + 2j),
    "text": np.str_("hé"), "dtype": np.dtype("float32"), "array": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "big": np.arange(3, dtype=">i4"),
    "unsigned": np.array([1, 65535], dtype=np.uint16), "empty": np.zeros((0, 3)), "zero": np.array(3.0),
    "texts": np.array(["a"]), "objects": np.array([{}, 1], dtype=object), "date": np.datetime64("2020-01-01"),
    "record": np.zeros(2, dtype=[("a", "i4")])}
save_both("arrays", arrays)
save("arrays5.pt", arrays, pickle_protocol=5)
save_both("objects", {"w": torch.ones(2), "args": argparse.Namespace(lr=0.1, x=torch.ones(1)),
    "when": datetime.datetime(2026, 1, 2), "path": pathlib.PurePosixPath("/a"), "class": torch.optim.Adam,
    "nested": [1, argparse.Namespace(), {"day": datetime.date(2026, 1, 2), "kept": 3}]})
bytes_of = torch.arange(256, dtype=torch.uint8)
save_both("foreign", {**{name: bytes_of.view(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32")},
    "uint64": torch.tensor([1, 2 ** 62]).view(torch.uint64), "beyond": torch.tensor([-1]).view(torch.uint64),
    "complex32": torch.tensor([1 + 2j, -0.5j]).to(torch.complex32), "part": bytes_of.view(torch.uint16)[2:6].view(2, 2).t(),
    "float4": torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)})
floats = {name: [None if v != v else "inf" if v == float("inf") else "-inf" if v == -float("inf") else v
    for v in bytes_of.view(getattr(torch, name)).double().tolist()]
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")}
with open(os.path.join(FOLDER, "floats.json"), "w") as file: json.dump(floats, file)
x = torch.tensor([[0, 1.0, 0], [2, 0, 3]])
save_both("layouts", {"coo": x.to_sparse(), "csr": x.to_sparse_csr(), "csc": x.to_sparse_csc(),
    "hybrid": torch.sparse_coo_tensor(torch.tensor([[0, 1, 1]]), torch.tensor([[1.0, 2], [3, 4], [5, 6]]), (3, 2)),
    "blocks": torch.ones(4, 4).to_sparse_bsr((2, 2)), "meta": torch.empty(3, device="meta"),
    "tensor": torch.quantize_per_tensor(torch.tensor([[1.0, -2], [0.5, 3]]), 0.5, 10, torch.quint8),
    "channel": torch.quantize_per_channel(torch.tensor([[1.0, -2], [0.5, 3]]), torch.tensor([0.5, 0.25]),
        torch.tensor([3, 5]), 0, torch.qint8)})
# Without the source of the classes, which the old format has where it finds it.
torch.serialization.get_source_lines_and_file = None
inner = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.BatchNorm1d(1))
inner.register_buffer("scratch", torch.ones(1), persistent=False)
save_both("whole", {"net": inner, "epoch": 3})
save("module_legacy.pt", inner, _use_new_zipfile_serialization=False)
save("optimizer.pt", torch.optim.SGD(inner.parameters(), lr=0.1))
