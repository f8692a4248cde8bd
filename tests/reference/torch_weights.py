# tests/reference/torch_weights.py: exchanges weights with Moonlet. Needs PyTorch; run by hand.
#   torch_weights.py               writes torch_weights.safetensors beside it, which
#                                  tests/lua/nn/torch_weights_test.lua reads
#   torch_weights.py MOONLET       checks that PyTorch reads what Moonlet writes
# The format is written out here: 8 bytes of size, a JSON header, the bytes of the tensors.
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {torch.float32: "F32", torch.int64: "I64"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Sequential(nn.Conv2d(4, 4, 1), nn.Tanh()))
        self.blocks = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])
        self.scales = nn.ParameterList([torch.ones(16), torch.ones(16)])
        self.heads = nn.ModuleDict({"class": nn.Linear(16, 3), "value": nn.Linear(16, 1)})
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        x = self.norm(self.features(x).flatten(1))
        for block, scale in zip(self.blocks, self.scales):
            x = block(x).relu() * scale
        return torch.cat([self.heads["class"](x), self.heads["value"](x)], 1)


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    dtypes = {text: dtype for dtype, text in TYPES.items()}
    return {name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]),
                                   dtype=dtypes[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def make():
    torch.manual_seed(3)
    net = Net()
    for _ in range(3):
        net(torch.randn(8, 1, 4, 4) * 2 + 1)  # so that the running statistics are not the first ones
    with torch.no_grad():
        for scale in net.scales:
            scale.uniform_(0.5, 1.5)
        net.eval()
        x = torch.randn(2, 1, 4, 4)
        write(os.path.join(HERE, "torch_weights.safetensors"),
              dict(net.state_dict(), input=x, output=net(x)))


def check(moonlet):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.safetensors")
        subprocess.run([moonlet, os.path.join(HERE, "torch_weights.lua"), path], check=True)
        tensors = read(path)
    x, wanted = tensors.pop("input"), tensors.pop("output")
    net = Net().eval()
    net.load_state_dict(tensors, strict=True)
    with torch.no_grad():
        torch.testing.assert_close(net(x), wanted, rtol=1e-5, atol=1e-6)
    print("PyTorch reads what Moonlet writes, and computes the same")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        check(sys.argv[1])
    else:
        make()
