# tests/reference/make_modules.py: writes modules.json: the modules of torch.nn with their arguments,
# states, inputs, results and gradients, for tests/lua/nn/module_values_test.lua. Needs PyTorch; run by
# hand.
import inspect
import json
import os

import torch
from torch import nn

D = torch.float64


class P:
    """A dimension or positions: written from 1."""

    def __init__(self, value):
        self.value = value


class C(P):
    """A tensor without a gradient."""


def R(*size):
    return torch.randn(*size, dtype=D).mul(8).round().div(8)


def U(*size):
    return (torch.rand(*size, dtype=D) * 0.8 + 0.1).round(decimals=2)


def I(high, *size):
    return P(torch.randint(0, high, size))


def short(number):
    return float("%.7g" % number)


def tensor(x):
    data = x.detach().flatten().tolist()
    if x.dtype.is_floating_point:
        data = [short(v) if v == v and abs(v) != float("inf") else repr(v) for v in data]
    else:
        data = [int(v) for v in data]
    return {"shape": list(x.shape), "dtype": str(x.dtype).split(".")[1], "data": data}


def plain(x):
    """A value for JSON; tensors are objects with a shape."""
    if isinstance(x, C):
        return dict(tensor(x.value), fixed=True)
    if isinstance(x, P):
        return tensor(x.value + 1) if torch.is_tensor(x.value) else x.value + 1
    if torch.is_tensor(x):
        return tensor(x)
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, float) and abs(x) == float("inf"):
        return repr(x)
    return x


def bare(x):
    if isinstance(x, P):
        return x.value
    if isinstance(x, (list, tuple)):
        return type(x)(bare(v) for v in x)
    return x


def flat(x):
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in flat(v)]
    return [] if x is None else [x]


def objective(outputs):
    total = 0
    for y in outputs:
        if y.dtype.is_floating_point:
            total = total + (y * torch.arange(1, y.numel() + 1, dtype=D).cos().reshape(y.shape)).sum()
    return total


# What PyTorch calls "input" and "target" everywhere else.
ODD_NAMES = {("RMSNorm", "x"): "input", ("PoissonNLLLoss", "log_input"): "input",
             ("AdaptiveLogSoftmaxWithLoss", "input_"): "input",
             ("AdaptiveLogSoftmaxWithLoss", "target_"): "target"}


def names_of(net, count):
    """The names of forward's arguments; Identity, which hands on what it gets, has none."""
    name = type(net).__name__
    names = [] if name == "Identity" else list(inspect.signature(net.forward).parameters)[:count]
    return [ODD_NAMES.get((name, each), each) for each in names]


def run(name, args, options, inputs, named=None, eval_mode=False):
    cls = getattr(nn, name)
    for value in list(args) + list(options.values()):
        assert not isinstance(value, nn.Module)
    net = cls(*bare(list(args)), **{k: bare(v) for k, v in options.items()}).to(D)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(R(*p.shape) / 4)
    if eval_mode:
        net.eval()
    state = {k: tensor(v) for k, v in net.state_dict().items()}
    given = []

    def leaf(x):
        if isinstance(x, P):
            return x.value
        if isinstance(x, list):
            return tuple(leaf(v) for v in x)
        if torch.is_tensor(x) and x.dtype.is_floating_point:
            x = x.clone().requires_grad_()
            given.append(x)
        return x

    arguments = [leaf(x) for x in inputs]
    outputs = flat(net(*arguments, **{k: bare(v) for k, v in (named or {}).items()}))
    loss = objective(outputs)
    if torch.is_tensor(loss) and loss.requires_grad:
        loss.backward()
    positions = name in ("MaxPool1d", "MaxPool2d", "MaxPool3d", "AdaptiveMaxPool1d",
                         "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "FractionalMaxPool2d",
                         "FractionalMaxPool3d")
    shown = [P(y) if positions and not y.dtype.is_floating_point else y for y in outputs]
    after = {k: tensor(v) for k, v in net.state_dict().items() if tensor(v) != state[k]}
    return {"class": name, "args": plain(list(args)), "options": plain(options), "eval": eval_mode,
            "state": state, "after": after, "inputs": plain(list(inputs)),
            "names": names_of(net, len(inputs)),
            "named": plain(named or {}), "outputs": plain(shown),
            "grads": [tensor(x.grad) if x.grad is not None else None for x in given],
            "parameter_grads": {k: tensor(p.grad) for k, p in net.named_parameters()
                                if p.grad is not None}}


CASES = []


def case(name, *args, x=(), named=None, eval_mode=False, **options):
    x = x if isinstance(x, (list, tuple)) else [x]
    CASES.append(run(name, args, options, list(x), named, eval_mode))


def activations():
    for name in ["ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "SELU", "Softsign", "Hardsigmoid",
                 "Hardswish", "LogSigmoid", "GELU", "ELU", "CELU", "LeakyReLU", "Hardtanh", "Softplus",
                 "Hardshrink", "Softshrink", "Tanhshrink", "Identity"]:
        case(name, x=R(2, 3) + 0.03)
    case("GELU", approximate="tanh", x=R(5))
    case("ELU", 0.5, x=R(5) + 0.03)
    case("CELU", alpha=2.0, x=R(5) + 0.03)
    case("LeakyReLU", 0.2, x=R(5) + 0.03)
    case("Hardtanh", -0.5, 0.7, x=R(5) + 0.03)
    case("Softplus", 2.0, 1.0, x=R(5) + 0.03)
    case("Hardshrink", 0.3, x=R(5) + 0.03)
    case("Softshrink", 0.3, x=R(5) + 0.03)
    case("Threshold", 0.1, 20.0, x=R(5) + 0.03)
    case("GLU", P(1), x=R(2, 4))
    case("GLU", x=R(2, 4))
    for name in ["Softmax", "Softmin", "LogSoftmax"]:
        case(name, P(1), x=R(2, 4))
    case("Softmax2d", x=R(1, 3, 2, 2))
    case("RReLU", 0.1, 0.3, eval_mode=True, x=R(5) + 0.03)
    case("PReLU", x=R(2, 3, 2) + 0.03)
    case("PReLU", 3, x=R(2, 3, 2) + 0.03)
    case("Flatten", x=R(2, 3, 2))
    case("Flatten", P(0), P(1), x=R(2, 3, 2))
    case("Unflatten", P(1), [2, 2], x=R(2, 4))
    for name in ["Dropout", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]:
        case(name, 0.5, eval_mode=True, x=R(2, 3, 2, 2))
    case("Dropout1d", 0.5, eval_mode=True, x=R(2, 3, 2))


def convolutions():
    for d in (1, 2, 3):
        space = [5, 4, 3][:d]
        name = "Conv%dd" % d
        case(name, 2, 3, 2, x=R(1, 2, *space))
        case(name, 2, 2, 3, stride=2, padding=1, groups=2, bias=False, x=R(1, 2, *space))
        case(name, 1, 2, 2, padding="same", x=R(1, *space))
        case(name, 1, 1, 3, padding=2, dilation=2, x=R(1, 1, *space))
        for mode in ("reflect", "replicate", "circular"):
            case(name, 1, 1, 3, padding=1, padding_mode=mode, x=R(1, 1, *space))
        case(name, 1, 1, 2, padding="same", padding_mode="circular", x=R(1, 1, *space))
        name = "ConvTranspose%dd" % d
        space = [3, 2, 2][:d]
        case(name, 2, 3, 2, x=R(1, 2, *space))
        case(name, 2, 2, 3, stride=2, padding=1, output_padding=1, groups=2, x=R(1, 2, *space))
        case(name, 1, 1, 2, dilation=2, bias=False, x=R(1, *space))
        case(name, 1, 1, 3, stride=2, x=R(1, 1, *space), named={"output_size": [2 * s + 2 for s in space]})
    case("Conv2d", 1, 1, [2, 3], stride=[1, 2], padding=[1, 0], x=R(1, 1, 4, 5))


def pools():
    for d in (1, 2, 3):
        space = [6, 5, 4][:d]
        x = R(1, 2, *space) + torch.rand(1, 2, *space, dtype=D).round(decimals=3) / 8
        case("MaxPool%dd" % d, 2, x=x)
        case("MaxPool%dd" % d, 3, stride=2, padding=1, ceil_mode=True, return_indices=True, x=x)
        case("AvgPool%dd" % d, 2, x=x[0])
        case("AvgPool%dd" % d, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False, x=x)
        case("LPPool%dd" % d, 2, 2, x=x + 3)
        case("AdaptiveAvgPool%dd" % d, 3, x=x)
        case("AdaptiveMaxPool%dd" % d, 2, return_indices=True, x=x)
        pooled, at = getattr(nn.functional, "max_pool%dd" % d)(x, 2, return_indices=True)
        case("MaxUnpool%dd" % d, 2, x=[pooled, P(at), list(x.shape)])
        pooled, at = getattr(nn.functional, "max_pool%dd" % d)(R(1, 2, *[4] * d), 2, return_indices=True)
        case("MaxUnpool%dd" % d, 2, x=[pooled, P(at)])
        if d > 1:
            samples = U(1, 2, d)
            case("FractionalMaxPool%dd" % d, 2, output_size=2, _random_samples=samples, x=x)
            case("FractionalMaxPool%dd" % d, 2, output_ratio=0.6, return_indices=True,
                 _random_samples=samples, x=x)
    case("AvgPool2d", 2, divisor_override=3, x=R(1, 4, 4))
    for kind, most in (("Reflection", 3), ("Replication", 3), ("Circular", 3), ("Zero", 3), ("Constant", 3)):
        for d in range(1, most + 1):
            more = [1.5] if kind == "Constant" else []
            case("%sPad%dd" % (kind, d), 1, *more, x=R(1, 1, *[3, 4, 2][:d]))
            case("%sPad%dd" % (kind, d), [1, 0] * d, *more, x=R(1, 1, *[3, 4, 2][:d]))
    case("ZeroPad2d", [-1, 1, 0, -1], x=R(1, 1, 3, 4))


def norms():
    shapes = {1: (3, 2, 4), 2: (2, 2, 2, 3), 3: (2, 2, 1, 2, 3)}
    for d, shape in shapes.items():
        name = "BatchNorm%dd" % d
        case(name, 2, x=R(*shape))
        case(name, 2, eval_mode=True, x=R(*shape))
        case(name, 2, eps=0.01, momentum=0.3, affine=False, track_running_stats=False, x=R(*shape))
        case(name, 2, bias=False, x=R(*shape))
        name = "InstanceNorm%dd" % d
        case(name, 2, x=R(*shape))
        case(name, 2, x=R(*shape[1:]))
        case(name, 2, affine=True, track_running_stats=True, x=R(*shape))
        case(name, 2, affine=True, track_running_stats=True, eval_mode=True, x=R(*shape))
    case("BatchNorm1d", 3, x=R(4, 3))
    case("GroupNorm", 2, 4, x=R(2, 4, 3))
    case("GroupNorm", 4, 4, affine=False, eps=0.1, x=R(2, 4, 3))
    case("GroupNorm", 1, 4, bias=False, x=R(2, 4, 3))
    case("LayerNorm", 4, x=R(2, 4))
    case("LayerNorm", [2, 4], bias=False, x=R(3, 2, 4))
    case("LayerNorm", 4, elementwise_affine=False, eps=0.1, x=R(2, 4))
    case("RMSNorm", 4, x=R(2, 4))
    case("RMSNorm", [2, 4], eps=0.1, elementwise_affine=False, x=R(3, 2, 4))
    case("LocalResponseNorm", 3, x=R(1, 5, 2, 2))
    case("LocalResponseNorm", 2, alpha=0.1, beta=0.5, k=2.0, x=R(1, 5, 2))


def sequences():
    x = R(4, 2, 3)
    for name in ("RNN", "LSTM", "GRU"):
        def states(count, n, size):
            h = R(*[s for s in (count, n, size) if s])
            return [h, R(*[s for s in (count, n, size) if s])] if name == "LSTM" else h
        case(name, 3, 2, x=x)
        case(name, 3, 2, x=[x, states(1, 2, 2)])
        case(name, 3, 2, num_layers=2, bidirectional=True, x=[x, states(4, 2, 2)])
        case(name, 3, 2, bias=False, batch_first=True, x=[x, states(1, 4, 2)])
        case(name, 3, 2, x=[R(4, 3), states(1, 0, 2)])
        cell = [R(2, 2), R(2, 2)] if name == "LSTM" else R(2, 2)
        case(name + "Cell", 3, 2, x=R(2, 3))
        case(name + "Cell", 3, 2, bias=False, x=[R(2, 3), cell])
        case(name + "Cell", 3, 2, x=R(3))
    case("RNN", 3, 2, nonlinearity="relu", x=x)
    case("RNNCell", 3, 2, nonlinearity="relu", x=R(2, 3))
    case("LSTM", 3, 4, proj_size=2, num_layers=2, bidirectional=True, x=[x, [R(4, 2, 2), R(4, 2, 4)]])
    case("LSTM", 3, 4, proj_size=2, bias=False, batch_first=True, x=x)


def transformers():
    q, k = R(3, 2, 4), R(5, 2, 4)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    causal = torch.ones(3, 3).triu(1).bool()
    case("MultiheadAttention", 4, 2, x=[q, k, k])
    case("MultiheadAttention", 4, 2, x=[q, k, k], named={"key_padding_mask": hidden})
    case("MultiheadAttention", 4, 2, x=[q, q, q], named={"attn_mask": causal, "need_weights": False})
    case("MultiheadAttention", 4, 2, x=[q, q, q], named={"attn_mask": R(4, 3, 3), "average_attn_weights": False})
    case("MultiheadAttention", 4, 2, bias=False, add_zero_attn=True, x=[q, k, k])
    case("MultiheadAttention", 4, 2, add_bias_kv=True, x=[q, k, k])
    case("MultiheadAttention", 4, 2, kdim=3, vdim=2, x=[q, R(5, 2, 3), R(5, 2, 2)])
    case("MultiheadAttention", 4, 2, batch_first=True, x=[R(2, 3, 4), R(2, 5, 4), R(2, 5, 4)])
    case("MultiheadAttention", 4, 2, x=[R(3, 4), R(5, 4), R(5, 4)])
    small = dict(dim_feedforward=3, dropout=0.0)
    for more in ({}, {"norm_first": True, "activation": "gelu", "bias": False}, {"batch_first": True}):
        case("TransformerEncoderLayer", 4, 2, **small, **more, x=q)
        case("TransformerDecoderLayer", 4, 2, **small, **more,
             x=[q, R(3, 2, 4) if more.get("batch_first") else k])
    case("TransformerEncoderLayer", 4, 2, **small, x=q, named={"src_mask": causal})
    case("TransformerEncoderLayer", 4, 2, **small, x=R(5, 2, 4), named={"src_key_padding_mask": hidden})
    case("TransformerEncoderLayer", 4, 2, **small, x=R(3, 4))
    case("TransformerDecoderLayer", 4, 2, **small, x=[q, k],
         named={"tgt_mask": causal, "memory_key_padding_mask": hidden})
    case("Transformer", 4, 2, 1, 2, **small, x=[k, q],
         named={"tgt_mask": causal, "src_key_padding_mask": hidden, "memory_key_padding_mask": hidden})
    case("Transformer", 4, 2, 1, 1, **small, batch_first=True, norm_first=True, eval_mode=True,
         x=[R(2, 5, 4), R(2, 3, 4)])


def others():
    case("Linear", 3, 2, x=R(2, 3))
    case("Linear", 3, 2, bias=False, x=R(2, 2, 3))
    case("Bilinear", 2, 3, 2, x=[R(2, 2), R(2, 3)])
    case("Bilinear", 2, 3, 2, bias=False, x=[R(2, 2), R(2, 3)])
    case("CosineSimilarity", x=[R(2, 3), R(2, 3)])
    case("CosineSimilarity", P(0), 1e-4, x=[R(2, 3), R(2, 3)])
    case("PairwiseDistance", x=[R(2, 3), R(2, 3)])
    case("PairwiseDistance", 1.0, keepdim=True, x=[R(2, 3), R(2, 3)])
    case("Embedding", 5, 3, x=I(5, 2, 2))
    case("Embedding", 5, 3, padding_idx=P(1), x=P(torch.tensor([1, 0, 1, 4])))
    case("Embedding", 5, 3, scale_grad_by_freq=True, max_norm=0.5, x=P(torch.tensor([1, 0, 1, 4])))
    for mode in ("sum", "mean", "max"):
        case("EmbeddingBag", 5, 3, mode=mode, x=[P(torch.tensor([1, 0, 3, 4])), P(torch.tensor([0, 1]))])
    case("EmbeddingBag", 5, 3, padding_idx=P(1), mode="sum", x=P(torch.tensor([[1, 0], [1, 4]])))
    case("Upsample", scale_factor=2, x=R(1, 1, 2, 2))
    case("Upsample", [3, 5], mode="bilinear", align_corners=True, x=R(1, 1, 2, 2))
    case("Upsample", 5, mode="linear", x=R(1, 2, 3))
    case("Upsample", scale_factor=1.5, mode="bicubic", x=R(1, 1, 3, 3))
    case("Upsample", scale_factor=2, mode="trilinear", x=R(1, 1, 2, 2, 2))
    case("UpsamplingNearest2d", scale_factor=2, x=R(1, 1, 2, 2))
    case("UpsamplingBilinear2d", 3, x=R(1, 1, 2, 2))
    case("PixelShuffle", 2, x=R(1, 4, 2, 2))
    case("PixelUnshuffle", 2, x=R(1, 1, 4, 2))
    case("ChannelShuffle", 2, x=R(1, 4, 2, 2))
    case("Unfold", 2, x=R(1, 2, 3, 3))
    case("Unfold", [2, 3], 1, 1, 2, x=R(1, 1, 3, 4))
    case("Fold", [3, 3], 2, x=R(1, 4, 4))


def losses():
    x, y = R(3, 4), R(3, 4)
    signs, one = torch.tensor([1, -1, 1]), C(torch.tensor([1.0, -1, 1], dtype=D))
    classes = P(torch.tensor([0, 3, 1]))

    def each(name, x, reductions=("mean", "sum", "none"), **more):
        for reduction in reductions:
            case(name, reduction=reduction, x=x, **more)
    each("CrossEntropyLoss", [x, classes])
    each("CrossEntropyLoss", [x, classes], ("mean",), weight=U(4), label_smoothing=0.1)
    each("CrossEntropyLoss", [x, R(3, 4).softmax(1)], ("mean",))
    for name in ("NLLLoss", "NLLLoss2d"):
        each(name, [x.log_softmax(1), classes])
        each(name, [x.log_softmax(1), classes], ("mean",), weight=U(4))
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        each(name, [x, y + 0.03])
    case("SmoothL1Loss", beta=0.3, x=[x, y + 0.03])
    case("HuberLoss", delta=0.3, x=[x, y + 0.03])
    each("BCELoss", [U(3, 4), U(3, 4)])
    case("BCELoss", weight=U(4), x=[U(3, 4), U(3, 4)])
    each("BCEWithLogitsLoss", [x, U(3, 4)])
    case("BCEWithLogitsLoss", weight=U(4), pos_weight=U(4), x=[x, U(3, 4)])
    each("KLDivLoss", [x.log_softmax(1), y.softmax(1)], ("batchmean", "sum", "none"))
    case("KLDivLoss", reduction="sum", log_target=True, x=[x.log_softmax(1), y.log_softmax(1)])
    each("PoissonNLLLoss", [x, U(3, 4) * 4])
    case("PoissonNLLLoss", log_input=False, full=True, x=[U(3, 4), U(3, 4) * 4])
    each("GaussianNLLLoss", [x, y, U(3, 4)])
    case("GaussianNLLLoss", full=True, eps=0.3, x=[x, y, U(3, 4)])
    # PyTorch's gradient is that of the scores behind log_softmax.
    log_probs = C(R(5, 2, 4).log_softmax(2))
    targets = P(torch.tensor([[1, 2], [3, 1]]))
    each("CTCLoss", [log_probs, targets, torch.tensor([5, 4]), torch.tensor([2, 2])])
    case("CTCLoss", P(2), zero_infinity=True,
         x=[log_probs, P(torch.tensor([[1, 0], [3, 1]])), torch.tensor([5, 1]), torch.tensor([2, 2])])
    each("MarginRankingLoss", [R(3), R(3) + 0.03, one])
    each("HingeEmbeddingLoss", [R(3), one])
    each("SoftMarginLoss", [R(3), one])
    each("CosineEmbeddingLoss", [x, y, signs])
    case("CosineEmbeddingLoss", 0.2, x=[x, y, signs])
    each("TripletMarginLoss", [x, y, R(3, 4)])
    case("TripletMarginLoss", 2.0, p=1.0, swap=True, x=[x, y, R(3, 4)])
    each("TripletMarginWithDistanceLoss", [x, y, R(3, 4)])
    case("TripletMarginWithDistanceLoss", margin=2.0, swap=True, x=[x, y, R(3, 4)])
    each("MultiMarginLoss", [x, classes])
    case("MultiMarginLoss", 2, margin=0.7, weight=U(4), x=[x, classes])
    each("MultiLabelMarginLoss", [x, P(torch.tensor([[1, 2, -1, 0], [0, -1, 1, 2], [3, 2, 1, 0]]))])
    each("MultiLabelSoftMarginLoss", [x, C(torch.randint(0, 2, (3, 4)).to(D))])
    case("MultiLabelSoftMarginLoss", weight=U(4), x=[x, C(torch.randint(0, 2, (3, 4)).to(D))])
    case("AdaptiveLogSoftmaxWithLoss", 8, 9, [2, 5], div_value=2.0, x=[R(5, 8), P(torch.tensor([0, 8, 3, 4, 5]))])
    case("AdaptiveLogSoftmaxWithLoss", 8, 9, [3], head_bias=True, x=[R(8), P(torch.tensor(7))])
    case("LinearCrossEntropyLoss", 3, 4, x=[R(2, 3), P(torch.tensor([0, 3]))])
    case("LinearCrossEntropyLoss", 3, 4, out_features=[2], bias=True,
         x=[R(2, 3), P(torch.tensor([[0, 3], [1, 2]]))])
    case("LinearCrossEntropyLoss", 3, 4, bias=True, reduction="sum", label_smoothing=0.1,
         x=[R(2, 3), P(torch.tensor([0, 3]))])


def main():
    torch.manual_seed(7)
    for family in (activations, convolutions, pools, norms, sequences, transformers, others, losses):
        family()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "modules.json")
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]\n")
    print(len(CASES), "cases,", len({c["class"] for c in CASES}), "classes,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
