"""tests/reference/make_onnx_files.py: models of PyTorch as ONNX files, with inputs and outputs, for
tests/lua/files/onnx_test.lua. usage: python3 make_onnx_files.py FOLDER (needs torch, onnx and onnxscript)"""
import os
import sys

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.c2, self.b2 = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.p, self.a, self.f = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Linear(6, 4)

    def forward(self, x):
        x = torch.relu(self.b1(self.c1(x)))
        x = self.p(torch.relu(x + self.b2(self.c2(x))))
        return self.f(torch.flatten(self.a(F.avg_pool2d(x, 2)), 1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", dropout=0.0)
        self.e, self.h = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.t = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids):
        y = self.h(self.t(self.e(ids)))
        return y, y.argmax(-1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.g = nn.GRU(10, 6, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.l(x)
        z, g = self.g(y)
        return z, h, c, g


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.g = nn.ConvTranspose2d(2, 3, 2, stride=2), nn.GroupNorm(3, 3)

    def forward(self, x):
        x = self.g(self.c(x))
        big = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)[:, :, 1:-1]
        rows = x.permute(0, 2, 3, 1).contiguous().view(x.size(0), -1, 3)
        return big, F.pad(x, (1, 2, 0, 1), mode="reflect"), rows.max(1).values


def forget_sources(path):
    """Takes out what tells where the exporter's and the model's own sources lay."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    for part in [model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output]:
        del part.metadata_props[:]
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def main(folder):
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1))
    cases = {
        "mlp": (mlp, torch.randn(2, 4)),
        "cnn": (Cnn(), torch.randn(2, 3, 8, 8)),
        "transformer": (Transformer(), torch.randint(0, 11, (2, 5))),
        "recurrent": (Recurrent(), torch.randn(2, 3, 4)),
        "picture": (Picture(), torch.randn(2, 2, 3, 4)),
    }
    for name, (model, x) in cases.items():
        model.eval()
        for module in model.modules():
            if getattr(module, "running_mean", None) is not None:
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
        path = os.path.join(folder, name)
        torch.onnx.export(model, (x,), path + ".onnx", input_names=["x"], opset_version=17, dynamo=False,
                          dynamic_axes={"x": {0: "batch"}})
        if name == "cnn":  # by the other exporter, with the parameters in a file of their own
            batch = torch.export.Dim("batch", min=1, max=64)
            torch.onnx.export(model, (x,), path + "_dynamo.onnx", input_names=["x"], opset_version=18,
                              dynamo=True, dynamic_shapes=({0: batch},))
            forget_sources(path + "_dynamo.onnx")
        arrays = {}
        for suffix, value in (("", x), ("_b", torch.cat([x, x[:1]]))):
            outputs = model(value)
            arrays["in" + suffix] = value.numpy()
            for i, y in enumerate(outputs if isinstance(outputs, tuple) else (outputs,)):
                arrays[f"out{suffix}{i + 1}"] = y.detach().numpy()
        np.savez(path + ".npz", **arrays)


main(sys.argv[1])
