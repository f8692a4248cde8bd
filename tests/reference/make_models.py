# tests/reference/make_models.py: writes models.json: a small network of each family with PyTorch's
# weights, its results and gradients, and what torch.nn.utils makes of layers, for
# tests/lua/nn/model_values_test.lua. Needs PyTorch; run by hand.
import json
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.nn.utils import rnn

torch.manual_seed(11)


def tensor(x):
    data = x.detach().flatten().tolist()
    if x.dtype.is_floating_point:
        data = [float("%.7g" % v) for v in data]
    return {"shape": list(x.shape), "dtype": str(x.dtype).split(".")[1], "data": data}


def state_of(net):
    return {k: tensor(v) for k, v in net.state_dict().items()}


def gradients_of(net):
    return {k: tensor(p.grad) for k, p in net.named_parameters() if p.grad is not None}


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.rnn = getattr(nn, kind)(4, 3, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        y, _ = rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(y)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(6, 8), nn.Embedding(5, 8)
        self.body = nn.Transformer(8, 2, 1, 1, 8, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.head(self.body(self.source(x), self.target(y), tgt_mask=mask))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 2, stride=2)
        self.cls = nn.Parameter(torch.randn(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 5, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.encoder(x)[:, 0])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.RMSNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, 2, 4).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(7, 8), nn.Embedding(4, 8)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 7, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x):
        x = self.token(x) + self.position(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model(name, net, *inputs):
    state = state_of(net)
    y = net(*inputs)
    (y * torch.arange(1, y.numel() + 1).cos().reshape(y.shape)).sum().backward()
    shown = [tensor(x + 1 if x.dtype == torch.int64 and i == 0 or name == "translator" else x)
             for i, x in enumerate(inputs)]
    return {"name": name, "state": state, "inputs": shown, "output": tensor(y),
            "gradients": gradients_of(net)}


words = torch.randint(0, 6, (2, 4))
MODELS = [
    model("mlp", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)),
          torch.randn(3, 4)),
    model("conv", nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                nn.Conv2d(4, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.SiLU(),
                                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
          torch.randn(3, 1, 8, 8)),
    model("lstm", Recurrent("LSTM"), words, torch.tensor([2, 4])),
    model("gru", Recurrent("GRU"), words, torch.tensor([2, 4])),
    model("translator", Translator(), words, torch.randint(0, 5, (2, 3))),
    model("vit", ViT(), torch.randn(2, 1, 4, 4)),
    model("gpt", GPT(), torch.randint(0, 7, (2, 4))),
]


def made(name, net, x):
    """A layer after something was done to it, in training mode: state before, result, gradients, state after."""
    state = state_of(net)
    y = net(x)
    (y * torch.arange(1, y.numel() + 1).cos().reshape(y.shape)).sum().backward()
    return {"name": name, "state": state, "input": tensor(x), "output": tensor(y),
            "gradients": gradients_of(net), "after": state_of(net)}


def moved(net):
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return net


linear, image = torch.randn(2, 4), torch.randn(1, 2, 3, 3)
UTILS = [
    made("parametrizations.weight_norm", moved(parametrizations.weight_norm(nn.Linear(4, 3))), linear),
    made("parametrizations.weight_norm dim", moved(parametrizations.weight_norm(nn.Conv2d(2, 3, 2), dim=1)), image),
    made("parametrizations.weight_norm all", moved(parametrizations.weight_norm(nn.Linear(4, 3), dim=None)), linear),
    made("parametrizations.spectral_norm", moved(parametrizations.spectral_norm(nn.Linear(4, 3))), linear),
    made("parametrizations.spectral_norm transposed",
         moved(parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2), n_power_iterations=2)), image),
    made("weight_norm", moved(torch.nn.utils.weight_norm(nn.Linear(4, 3))), linear),
    made("spectral_norm", moved(torch.nn.utils.spectral_norm(nn.Conv2d(2, 3, 2))), image),
    made("prune.l1", prune.l1_unstructured(prune.ln_structured(nn.Linear(4, 3), "weight", 1, n=2, dim=1),
                                           "weight", 0.5), linear),
]
for orthogonal_map in ("matrix_exp", "cayley", "householder"):
    for width, trivial in ((4, True), (3, True), (6, True), (3, orthogonal_map != "householder")):
        net = nn.Linear(4, width)
        parametrizations.orthogonal(net, orthogonal_map=orthogonal_map, use_trivialization=trivial)
        if orthogonal_map != "householder":
            moved(net)
        UTILS.append(made("orthogonal %s %d %s" % (orthogonal_map, width, trivial), net, linear))

scores = torch.tensor([[0.3, -0.1, 0.5, 0.2], [-0.9, 0.4, 0.05, -0.6], [0.7, 0.15, -0.25, 0.8]])


def mask(f, *args, **options):
    net = nn.Linear(4, 3)
    net.weight.data.copy_(scores)
    return {"mask": tensor(f(net, "weight", *args, **options).weight_mask)}


PRUNE = {"l1": mask(prune.l1_unstructured, 5), "l1 part": mask(prune.l1_unstructured, 0.375),
         "ln rows": mask(prune.ln_structured, 1, n=2, dim=0), "ln columns": mask(prune.ln_structured, 2, n=1, dim=1)}

conv, bn = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)
bn(torch.randn(4, 3, 2, 2) * 2 + 1)
moved(bn)
fused = torch.nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())
FUSED = {"conv": state_of(conv), "bn": state_of(bn), "fused": state_of(fused)}

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "values", "models.json"), "w") as file:
    json.dump({"models": MODELS, "utils": UTILS, "prune": PRUNE, "scores": tensor(scores), "fused": FUSED}, file,
              separators=(",", ":"))
    file.write("\n")
print(os.path.getsize(os.path.join(HERE, "values", "models.json")), "bytes")
