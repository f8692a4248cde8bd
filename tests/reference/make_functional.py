# tests/reference/make_functional.py: writes functional.json: calls of torch.nn.functional by name
# and by position with their results, for tests/lua/functional_test.lua. Needs PyTorch; run by hand.
import json
import os

import torch
import torch.nn.functional as F

torch.manual_seed(5)


class Positions:
    """A tensor of positions, or a dimension: written from 1."""

    def __init__(self, value):
        self.value = value


# Few digits keep the file small.
def R(*size):
    return torch.randn(*size, dtype=torch.float64).round(decimals=2)


def U(*size):
    return (torch.rand(*size, dtype=torch.float64) * 0.8 + 0.1).round(decimals=2)


P = Positions
classes, words = P(torch.tensor([0, 3, 1])), P(torch.tensor([[0, 4], [2, 2]]))
scores, probs, weights = R(3, 4), R(3, 4).softmax(1), U(4)
image, table = R(1, 3, 5, 6), R(5, 3)

CASES = [
    ("embedding", (words, table), {}),
    ("embedding", (words, table), dict(padding_idx=P(2))),
    ("embedding", (), dict(weight=table, input=words)),
    ("one_hot", (words,), {}),
    ("one_hot", (words, 7), {}),
    ("one_hot", (words,), dict(num_classes=7)),
    ("unfold", (image, 2), {}),
    ("unfold", (image, [2, 3], 2, 1, [1, 2]), {}),
    ("unfold", (image[0], 3), dict(stride=2, padding=[0, 1])),
    ("pad", (image, [1, 2, 0, 1]), {}),
    ("pad", (image, [1, 2]), dict(value=2.5)),
    ("pad", (image, [1, 2, 1, 1], "reflect"), {}),
    ("linear", (R(2, 3), R(4, 3), R(4)), {}),
    ("conv1d", (R(2, 3, 7), R(4, 3, 3), None, 2, 1), {}),
    ("conv2d", (image, R(4, 3, 3, 3), R(4)), dict(padding="same", dilation=2)),
    ("conv2d", (image, R(4, 3, 3, 3), None, [2, 1], "valid"), {}),
    ("conv2d", (image, R(6, 1, 2, 2)), dict(groups=3, padding=1)),
    ("max_pool2d", (image, 2), {}),
    ("max_pool2d", (image, 3, 1, 1, 2, True), {}),
    ("avg_pool2d", (image, 3), dict(padding=1, stride=2, count_include_pad=False)),
    ("adaptive_avg_pool2d", (image, [2, 3]), {}),
    ("batch_norm", (image, R(3), U(3), R(3), R(3)), {}),
    ("batch_norm", (image, None, None), dict(training=True, eps=0.01)),
    ("layer_norm", (R(3, 4), [4], R(4), R(4), 0.1), {}),
    ("normalize", (R(3, 4),), {}),
    ("normalize", (R(3, 4), 1.0, P(0)), {}),
    ("cosine_similarity", (R(3, 4), R(3, 4)), {}),
    ("cosine_similarity", (R(3, 4), R(3, 4)), dict(dim=P(0))),
    ("dropout", (R(3, 4), 0.5, False), {}),
    ("softmax", (R(3, 4), P(0)), {}),
    ("log_softmax", (R(3, 4),), dict(dim=P(1))),
    ("softmin", (R(3, 4), P(1)), {}),
    ("glu", (R(3, 4), P(1)), {}),
    ("prelu", (R(3, 4), U(4)), {}),
    ("prelu", (R(3, 4), U(1)), {}),
    ("scaled_dot_product_attention", (R(2, 3, 4), R(2, 5, 4), R(2, 5, 6)), dict(scale=0.7)),
    ("scaled_dot_product_attention", (R(2, 3, 4), R(2, 3, 4), R(2, 3, 4), None, 0.0, True), {}),
    ("gelu", (R(5),), dict(approximate="tanh")),
    ("softplus", (R(5), 2.0, 3.0), {}),
    ("threshold", (R(5), 0.1, 2.0), {}),
    ("hardtanh", (R(5), -0.5, 0.4), {}),
    ("elu", (R(5), 0.7), {}),
    ("celu", (R(5), 0.7), {}),
    ("leaky_relu", (R(5), 0.2), {}),
    ("cross_entropy", (scores, classes), {}),
    ("cross_entropy", (scores, classes), dict(weight=weights, label_smoothing=0.1)),
    ("cross_entropy", (scores, classes), dict(ignore_index=P(3), reduction="sum")),
    ("cross_entropy", (scores, probs), dict(reduction="none")),
    ("nll_loss", (scores, classes, weights), dict(reduction="none")),
    ("nll_loss", (scores, classes), dict(ignore_index=P(0))),
    ("kl_div", (scores, probs), dict(reduction="batchmean")),
    ("kl_div", (scores, probs.log()), dict(reduction="sum", log_target=True)),
    ("smooth_l1_loss", (R(6), R(6)), dict(beta=0.5)),
    ("huber_loss", (R(6), R(6), "sum", 0.5), {}),
    ("binary_cross_entropy", (U(3, 2), U(3, 2), U(2)), {}),
    ("binary_cross_entropy", (U(6), U(6)), dict(reduction="sum")),
    ("binary_cross_entropy_with_logits", (R(3, 2), U(3, 2)), dict(pos_weight=U(2), weight=U(2))),
    ("binary_cross_entropy_with_logits", (R(6), U(6)), dict(reduction="none")),
]
for name in ["relu", "relu6", "selu", "silu", "mish", "hardsigmoid", "hardswish", "softsign",
             "logsigmoid", "sigmoid", "tanh", "gelu"]:
    CASES.append((name, (R(5) * 3,), {}))
for name in ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]:
    CASES += [(name, (R(3, 2), R(3, 2)), {}), (name, (R(3, 2), R(3, 2)), dict(reduction="sum")),
              (name, (R(3, 2), R(3, 1)), {}), (name, (R(3, 2), R(3, 2)), dict(reduction="none"))]


def plain(value):
    return value.value if isinstance(value, Positions) else value


def encode(value):
    shift = isinstance(value, Positions)
    value = plain(value)
    if isinstance(value, torch.Tensor):
        rounded = [float(f"{v:.12g}") if isinstance(v, float) else v for v in value.reshape(-1).tolist()]
        return {"shape": list(value.shape), "dtype": str(value.dtype)[6:],
                "data": [v + 1 if shift else v for v in rounded]}
    if value is None:
        return {"none": True}
    return {"value": value + 1 if shift else value}


out = []
for name, args, options in CASES:
    y = getattr(F, name)(*map(plain, args), **{key: plain(v) for key, v in options.items()})
    out.append({"name": name, "args": [encode(a) for a in args],
                "options": {key: encode(v) for key, v in options.items()}, "result": encode(y)})
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "functional.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")
