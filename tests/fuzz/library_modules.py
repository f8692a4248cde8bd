"""tests/fuzz/library_modules.py: draws a class of torch.nn, its arguments and inputs, for
torch_library.py. A draw that PyTorch refuses is drawn anew there."""
import random

import torch
from make_modules import C, D, I, P, R, U, run

pick, chance = random.choice, lambda p: random.random() < p


def dims():
    return random.randint(1, 3)


def space(d, low=3, high=7):
    """Sizes of d dimensions, smaller where there are more of them."""
    return [random.randint(low, max(low, high - d)) for _ in range(d)]


def per_dim(d, low, high):
    """A number for all dimensions, or one for each."""
    return random.randint(low, high) if chance(0.6) else [random.randint(low, high) for _ in range(d)]


def maybe(options, name, values, p=0.5):
    if chance(p):
        options[name] = pick(values) if isinstance(values, list) else values()


def activation():
    plain = ["ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "SELU", "Softsign", "Hardsigmoid",
             "Hardswish", "LogSigmoid", "GELU", "Tanhshrink", "Identity", "ELU", "CELU", "LeakyReLU",
             "Softplus", "Hardshrink", "Softshrink", "Hardtanh", "Threshold", "PReLU", "GLU"]
    name, shape, options, args = pick(plain), [random.randint(1, 4) for _ in range(random.randint(1, 4))], {}, []
    if name in ("ELU", "CELU"):
        maybe(options, "alpha", [0.3, 1.7, -0.5] if name == "ELU" else [0.3, 1.7])
    elif name == "LeakyReLU":
        maybe(options, "negative_slope", [0.3, 0.0, -0.2])
    elif name == "Softplus":
        maybe(options, "beta", [0.5, 3.0])
        maybe(options, "threshold", [0.5, 4.0])
    elif name in ("Hardshrink", "Softshrink"):
        maybe(options, "lambd", [0.2, 1.5, 0.0])
    elif name == "Hardtanh":
        args = [-0.3, 1.1]
    elif name == "Threshold":
        args = [pick([0.0, 0.4]), pick([-7.0, 2.0])]
    elif name == "GELU":
        maybe(options, "approximate", ["tanh", "none"])
    elif name == "PReLU":
        args = [shape[1]] if len(shape) > 1 and chance(0.5) else []
        maybe(options, "init", [0.1, 0.6], 0.3)
    elif name == "GLU":
        d = random.randrange(len(shape))
        shape[d] *= 2
        args = [P(d)]
    return name, args, options, [R(*shape) + 0.03]


def softmax():
    shape = [random.randint(1, 5) for _ in range(random.randint(1, 4))]
    return pick(["Softmax", "Softmin", "LogSoftmax"]), [P(random.randrange(len(shape)))], {}, [R(*shape)]


def convolution():
    d, transposed = dims(), chance(0.35)
    groups = pick([1, 1, 2])
    inputs, outputs = groups * random.randint(1, 2), groups * random.randint(1, 2)
    options = {"groups": groups} if groups > 1 else {}
    maybe(options, "stride", lambda: per_dim(d, 1, 3))
    maybe(options, "dilation", lambda: per_dim(d, 1, 2), 0.3)
    maybe(options, "bias", [False, True], 0.3)
    if transposed:
        maybe(options, "padding", lambda: per_dim(d, 0, 1))
        maybe(options, "output_padding", lambda: per_dim(d, 0, 1), 0.3)
    else:
        maybe(options, "padding", lambda: pick(["same", "valid"]) if chance(0.2) else per_dim(d, 0, 2))
        maybe(options, "padding_mode", ["reflect", "replicate", "circular", "zeros"], 0.4)
    batch = [] if chance(0.2) else [random.randint(1, 2)]
    name = "Conv%s%dd" % ("Transpose" if transposed else "", d)
    return name, [inputs, outputs, per_dim(d, 1, 3)], options, [R(*batch, inputs, *space(d))]


def distinct(*shape):
    """Numbers without ties, for maxima."""
    count = torch.Size(shape).numel()
    return (torch.randperm(count).to(D) / 4 - count / 8).reshape(shape)


def pool():
    d = dims()
    x = distinct(*([] if chance(0.2) else [random.randint(1, 2)]), 2, *space(d))
    kind, options = pick(["Max", "Avg", "LP", "AdaptiveAvg", "AdaptiveMax"]), {}
    if kind.startswith("Adaptive"):
        if kind == "AdaptiveMax":
            maybe(options, "return_indices", [True, False])
        return "%sPool%dd" % (kind, d), [per_dim(d, 1, 4)], options, [x]
    maybe(options, "stride", lambda: per_dim(d, 1, 3))
    maybe(options, "ceil_mode", [True, False])
    if kind == "LP":
        return "LPPool%dd" % d, [pick([1, 2, 3]), per_dim(d, 1, 3)], options, [x.abs() + 0.5]
    maybe(options, "padding", lambda: per_dim(d, 0, 1))
    if kind == "Max":
        maybe(options, "dilation", lambda: per_dim(d, 1, 2), 0.3)
        maybe(options, "return_indices", [True, False])
    else:
        maybe(options, "count_include_pad", [True, False])
        if d > 1:
            maybe(options, "divisor_override", [2, 5], 0.2)
    return "%sPool%dd" % (kind, d), [per_dim(d, 2, 3)], options, [x]


def norm():
    d = dims()
    kind, options = pick(["Batch", "Instance", "Group", "Layer", "RMS", "Response"]), {}
    maybe(options, "eps", [1e-3, 0.1], 0.3)
    shape = [random.randint(2, 3), pick([2, 4]), *space(d, 2, 4)]
    if kind in ("Batch", "Instance"):
        maybe(options, "momentum", [0.3, 0.01], 0.3)
        maybe(options, "affine", [True, False])
        maybe(options, "track_running_stats", [True, False])
        if kind == "Instance" and chance(0.2):
            shape = shape[1:]
        elif kind == "Batch" and d == 1 and chance(0.3):
            shape = shape[:2]
        return "%sNorm%dd" % (kind, d), [shape[-d - 1 if len(shape) > 2 or kind == "Instance" else 1]], options, [R(*shape)]
    if kind == "Response":
        options = {}
        maybe(options, "alpha", [0.1, 1.0])
        maybe(options, "beta", [0.5, 1.5])
        maybe(options, "k", [0.5, 2.0])
        return "LocalResponseNorm", [random.randint(1, 5)], options, [R(*shape)]
    if kind == "Group":
        maybe(options, "affine", [True, False])
        return "GroupNorm", [pick([1, 2, shape[1]]), shape[1]], options, [R(*shape)]
    over = shape[-random.randint(1, 2):]
    maybe(options, "elementwise_affine", [True, False])
    if kind == "Layer":
        maybe(options, "bias", [True, False], 0.3)
    return kind + "Norm", [over[0] if len(over) == 1 and chance(0.5) else over], options, [R(*shape)]


def recurrent():
    kind, size, hidden = pick(["RNN", "LSTM", "GRU"]), random.randint(1, 4), random.randint(1, 4)
    options = {}
    maybe(options, "bias", [False, True], 0.3)
    if kind == "RNN":
        maybe(options, "nonlinearity", ["relu", "tanh"])
    if chance(0.3):
        x = R(*([] if chance(0.3) else [2]), size)
        return kind + "Cell", [size, hidden], options, [x]
    maybe(options, "num_layers", [1, 2, 3])
    maybe(options, "bidirectional", [True, False])
    maybe(options, "batch_first", [True, False])
    if kind == "LSTM" and hidden > 1:
        maybe(options, "proj_size", lambda: random.randint(1, hidden - 1), 0.3)
    steps, batch = random.randint(1, 4), random.randint(1, 3)
    x = R(steps, size) if chance(0.2) else R(*((batch, steps) if options.get("batch_first") else (steps, batch)), size)
    inputs = [x]
    if chance(0.5):
        count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        middle = [batch] if x.dim() == 3 else []
        h = R(count, *middle, options.get("proj_size", 0) or hidden)
        inputs.append([h, R(count, *middle, hidden)] if kind == "LSTM" else h)
    return kind, [size, hidden], options, inputs


def attention():
    heads = pick([1, 2])
    size, options, named = heads * random.randint(1, 3), {}, {}
    maybe(options, "bias", [False, True], 0.3)
    maybe(options, "add_bias_kv", [True, False], 0.3)
    maybe(options, "add_zero_attn", [True, False], 0.3)
    maybe(options, "batch_first", [True, False])
    target, source, batch = random.randint(1, 4), random.randint(1, 4), random.randint(1, 2)
    if chance(0.3):
        options["kdim"], options["vdim"] = random.randint(1, 4), random.randint(1, 4)
    first = options.get("batch_first")
    shape = lambda n, width: (batch, n, width) if first else (n, batch, width)
    if chance(0.4):
        mask = torch.rand(batch, source) > 0.6
        mask[:, 0] = False
        named["key_padding_mask"] = mask
    if chance(0.4):
        mask = torch.rand(target, source) > 0.6
        mask[:, 0] = False
        named["attn_mask"] = mask
    maybe(named, "need_weights", [False, True])
    maybe(named, "average_attn_weights", [False, True])
    return "MultiheadAttention", [size, heads], options, [
        R(*shape(target, size)), R(*shape(source, options.get("kdim", size))),
        R(*shape(source, options.get("vdim", size)))], named


def transformer():
    heads = pick([1, 2])
    size, options = heads * random.randint(1, 2), {"dim_feedforward": random.randint(1, 4), "dropout": 0.0}
    maybe(options, "activation", ["gelu", "relu"])
    maybe(options, "norm_first", [True, False])
    maybe(options, "batch_first", [True, False])
    maybe(options, "bias", [True, False], 0.3)
    maybe(options, "layer_norm_eps", [1e-3, 0.1], 0.2)
    x = R(2, 3, size)
    if chance(0.5):
        return "TransformerEncoderLayer", [size, heads], options, [x]
    return "TransformerDecoderLayer", [size, heads], options, [x, R(*((2, 4) if options.get("batch_first") else (4, 3)), size)]


def other():
    kind = pick(["Linear", "Bilinear", "Embedding", "EmbeddingBag", "Upsample", "Pad", "Unfold", "Fold",
                 "PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "CosineSimilarity", "PairwiseDistance",
                 "Flatten"])
    options, n = {}, random.randint(1, 4)
    if kind == "Linear":
        maybe(options, "bias", [False, True])
        return kind, [n, random.randint(1, 4)], options, [R(*[random.randint(1, 3) for _ in range(random.randint(0, 3))], n)]
    if kind == "Bilinear":
        maybe(options, "bias", [False, True])
        return kind, [n, 2, 3], options, [R(3, n), R(3, 2)]
    if kind in ("Embedding", "EmbeddingBag"):
        count = random.randint(2, 6)
        maybe(options, "padding_idx", lambda: P(random.randrange(count)))
        maybe(options, "max_norm", [0.5, 1.0], 0.3)
        if kind == "Embedding":
            maybe(options, "scale_grad_by_freq", [True, False], 0.3)
            return kind, [count, n], options, [I(count, *[random.randint(1, 4) for _ in range(random.randint(1, 2))])]
        maybe(options, "mode", ["sum", "mean", "max"])
        return kind, [count, n], options, [I(count, 3, random.randint(1, 4))]
    if kind == "Upsample":
        d = dims()
        mode = pick(["nearest", "nearest-exact", ["linear", "bilinear", "trilinear"][d - 1]] + (["bicubic"] if d == 2 else []))
        options["mode"] = mode
        if "near" not in mode:
            maybe(options, "align_corners", [True, False])
        if chance(0.5):
            options["size"] = per_dim(d, 1, 6)
        else:
            options["scale_factor"] = pick([0.5, 1.5, 2.0, 2, 3])
        return kind, [], options, [R(1, 2, *space(d, 2, 5))]
    if kind == "Pad":
        mode, d = pick(["Reflection", "Replication", "Circular", "Zero", "Constant"]), dims()
        more = [1.5] if mode == "Constant" else []
        low = -1 if mode in ("Zero", "Constant") else 0
        size = random.randint(0, 2) if chance(0.5) else [random.randint(low, 2) for _ in range(2 * d)]
        return "%sPad%dd" % (mode, d), [size, *more], {}, [R(*([] if chance(0.3) else [2]), 2, *space(d))]
    if kind == "Unfold":
        for name, low, high in (("dilation", 1, 2), ("padding", 0, 2), ("stride", 1, 2)):
            maybe(options, name, lambda: per_dim(2, low, high))
        return kind, [per_dim(2, 1, 3)], options, [R(*([] if chance(0.3) else [2]), 2, *space(2, 4))]
    if kind == "Fold":
        size, kernel = space(2, 3), [random.randint(1, 3), random.randint(1, 3)]
        blocks = [s - k + 1 for s, k in zip(size, kernel)]
        return kind, [size, kernel], {}, [R(2, 2 * kernel[0] * kernel[1], blocks[0] * blocks[1])]
    if kind == "PixelShuffle":
        return kind, [2], {}, [R(*([] if chance(0.3) else [2]), 4, 2, n)]
    if kind == "PixelUnshuffle":
        return kind, [2], {}, [R(1, n, 4, 2)]
    if kind == "ChannelShuffle":
        return kind, [pick([1, 2, 4])], {}, [R(2, 4, 2, n)]
    if kind == "Flatten":
        shape = [random.randint(1, 3) for _ in range(random.randint(2, 5))]
        first = random.randrange(len(shape))
        return kind, [P(first), P(random.randrange(first, len(shape)))], {}, [R(*shape)]
    shape = [2, 3, 2]
    if kind == "CosineSimilarity":
        maybe(options, "dim", lambda: P(random.randrange(3)))
        # Where a norm is below eps, PyTorch's gradient is that of the norm and not of eps.
        maybe(options, "eps", [1e-4, 1e-6])
    else:
        maybe(options, "p", [1.0, 3.0, 0.5, float("inf")])
        maybe(options, "keepdim", [True, False])
    return kind, [], options, [R(*shape), R(*shape) + 0.03]


def loss():
    n, classes = random.randint(1, 4), random.randint(2, 5)
    x, y, options = R(n, classes), R(n, classes) + 0.03, {}
    kind = pick(["CrossEntropy", "NLL", "MSE", "L1", "SmoothL1", "Huber", "BCE", "BCEWithLogits", "KLDiv", "PoissonNLL",
                 "GaussianNLL", "MarginRanking", "HingeEmbedding", "SoftMargin", "CosineEmbedding", "TripletMargin",
                 "MultiMargin", "MultiLabelSoftMargin", "CTC"])
    maybe(options, "reduction", ["mean", "sum", "none"])
    target = I(classes, n)
    signs = torch.randint(0, 2, (n,)) * 2 - 1
    if kind in ("CrossEntropy", "NLL"):
        maybe(options, "weight", lambda: U(classes))
        maybe(options, "ignore_index", lambda: P(random.randrange(classes)), 0.3)
        if kind == "CrossEntropy":
            maybe(options, "label_smoothing", [0.1, 0.7], 0.4)
            if chance(0.3):
                x, target = R(2, classes, 3), I(classes, 2, 3)
        else:
            x = x.log_softmax(1)
        return kind + "Loss", [], options, [x, target]
    if kind in ("SmoothL1", "Huber"):
        maybe(options, "beta" if kind == "SmoothL1" else "delta", [0.2, 2.0])
    if kind in ("MSE", "L1", "SmoothL1", "Huber"):
        return kind + "Loss", [], options, [x, y]
    if kind.startswith("BCE"):
        maybe(options, "weight", lambda: U(classes), 0.4)
        if kind != "BCE":
            maybe(options, "pos_weight", lambda: U(classes) * 3, 0.4)
        return kind + "Loss", [], options, [U(n, classes) if kind == "BCE" else x, U(n, classes)]
    if kind == "KLDiv":
        options["reduction"] = pick(["batchmean", "sum", "none"])
        options["log_target"] = chance(0.5)
        return "KLDivLoss", [], options, [x.log_softmax(1), y.log_softmax(1) if options["log_target"] else y.softmax(1)]
    if kind == "PoissonNLL":
        maybe(options, "log_input", [False, True])
        maybe(options, "full", [False, True])
        return "PoissonNLLLoss", [], options, [U(n, classes), U(n, classes) * 4]
    if kind == "GaussianNLL":
        maybe(options, "full", [False, True])
        return "GaussianNLLLoss", [], options, [x, y, U(n, classes) if chance(0.5) else U(n, 1)]
    if kind == "MultiMargin":
        maybe(options, "p", [1, 2])
        maybe(options, "margin", [0.5, 2.0])
        maybe(options, "weight", lambda: U(classes))
        return kind + "Loss", [], options, [x, target]
    if kind == "MultiLabelSoftMargin":
        return kind + "Loss", [], options, [x, C(torch.randint(0, 2, (n, classes)).to(D))]
    if kind == "CTC":
        maybe(options, "zero_infinity", [True, False])
        steps = random.randint(2, 6)
        labels = P(torch.randint(1, classes, (n, 2)))
        return "CTCLoss", [], options, [C(R(steps, n, classes).log_softmax(2)), labels,
                                        torch.full((n,), steps), torch.randint(1, 3, (n,))]
    maybe(options, "margin", [0.3, 0.7, 2.0])
    if kind == "TripletMargin":
        maybe(options, "p", [1.0, 3.0])
        maybe(options, "swap", [True, False])
        return kind + "Loss", [], options, [x, y, R(n, classes)]
    if kind == "CosineEmbedding":
        return kind + "Loss", [], options, [x, y, signs]
    if kind == "SoftMargin":
        options.pop("margin", None)
    one = C(signs.to(D))
    return kind + "Loss", [], options, [R(n) + 0.01, R(n), one] if kind == "MarginRanking" else [R(n), one]


FAMILIES = [activation, softmax, convolution, convolution, pool, pool, norm, norm, recurrent, recurrent, attention,
            transformer, other, other, other, loss, loss]


def draw():
    """A case of make_modules, or None where PyTorch refuses the arguments."""
    name, args, options, inputs, *named = pick(FAMILIES)()
    try:
        return run(name, args, options, inputs, named[0] if named else None, eval_mode=chance(0.2))
    except (RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError):
        return None
