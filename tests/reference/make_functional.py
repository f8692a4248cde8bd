# tests/reference/make_functional.py: writes functional.json: calls of torch.nn.functional by name
# and by position with their results, for tests/lua/nn/functional_test.lua. Needs PyTorch; run by hand.
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
ends, bags = P(torch.tensor([0, 2, 2])), P(torch.tensor([0, 4, 2, 2, 1]))
groups, signs = R(2, 6, 3), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
query, keys, square = R(4, 2, 6), R(5, 2, 6), R(6, 6)
CASES += [
    ("linear", (R(2, 3), R(3)), {}),
    ("bilinear", (R(2, 3), R(2, 4), R(5, 3, 4), R(5)), {}),
    ("embedding", (words, table.clone()), dict(max_norm=0.8)),
    ("embedding", (words, table.clone(), P(2), 1.0, 1.0), {}),
    ("embedding_bag", (words, table), {}),
    ("embedding_bag", (bags, table, ends), dict(mode="sum", per_sample_weights=R(5))),
    ("embedding_bag", (bags, table, ends), dict(mode="max", padding_idx=P(2))),
    ("embedding_bag", (bags, table.clone(), P(torch.tensor([0, 2, 5]))), dict(max_norm=0.7, include_last_offset=True)),
    ("group_norm", (groups, 3, R(6), R(6), 0.01), {}),
    ("instance_norm", (groups,), dict(weight=R(6), bias=R(6))),
    ("instance_norm", (groups, R(6), U(6)), dict(use_input_stats=False)),
    ("rms_norm", (R(3, 4), [4], R(4)), {}),
    ("rms_norm", (R(3, 4), [3, 4]), dict(eps=0.1)),
    ("local_response_norm", (groups, 4, 0.3, 0.6, 2.0), {}),
    ("pairwise_distance", (R(3, 4), R(3, 4)), dict(p=1.0, keepdim=True)),
    ("rrelu", (R(5),), {}),
    ("rrelu", (R(5), 0.2, 0.6, False), {}),
    ("hardshrink", (R(5),), dict(lambd=0.4)),
    ("softshrink", (R(5), 0.3), {}),
    ("tanhshrink", (R(5),), {}),
    ("alpha_dropout", (R(5), 0.4), {}),
    ("feature_alpha_dropout", (R(5, 2), 0.4), {}),
    ("dropout1d", (R(5, 2), 0.4, False), {}),
    ("dropout2d", (groups, 0.4), dict(training=False)),
    ("dropout3d", (R(2, 3, 1, 2), 0.0), {}),
    ("scaled_dot_product_attention", (R(4, 3, 4), R(2, 5, 4), R(2, 5, 6)), dict(enable_gqa=True)),
    ("linear_cross_entropy", (R(3, 5), R(4, 5), classes), dict(linear_bias=R(4), label_smoothing=0.1)),
    ("mse_loss", (R(3, 2), R(3, 2)), dict(weight=U(3, 2))),
    ("l1_loss", (R(3, 2), R(3, 2)), dict(weight=U(3, 2), reduction="sum")),
    ("huber_loss", (R(3, 2), R(3, 2), "mean", 0.5, U(3, 2)), {}),
    ("margin_ranking_loss", (R(3), R(3), signs, 0.3), {}),
    ("hinge_embedding_loss", (R(3), signs), dict(margin=0.4)),
    ("soft_margin_loss", (R(3), signs), dict(reduction="none")),
    ("cosine_embedding_loss", (R(3, 4), R(3, 4), signs), dict(margin=-0.5)),
    ("triplet_margin_loss", (R(3, 4), R(3, 4), R(3, 4)), dict(margin=2.0, swap=True)),
    ("triplet_margin_with_distance_loss", (R(3, 4), R(3, 4), R(3, 4)), dict(margin=2.0, swap=True)),
    ("multi_margin_loss", (scores, classes, 2), dict(weight=weights)),
    ("multilabel_margin_loss", (scores, P(torch.tensor([[0, 3, -1, 1], [-1, 0, 1, 2], [1, -1, 0, 0]]))), {}),
    ("multilabel_soft_margin_loss", (scores, probs), dict(weight=weights)),
    ("poisson_nll_loss", (R(3, 4), U(3, 4) * 5), dict(full=True)),
    ("gaussian_nll_loss", (R(3, 4), R(3, 4), U(3, 1)), dict(full=True)),
    ("gaussian_nll_loss", (R(3, 4), R(3, 4), 0.5), {}),
    ("multi_head_attention_forward", (query, query, query, 6, 2, R(18, 6), R(18), None, None, False, 0.0,
                                      square, R(6)), {}),
    ("multi_head_attention_forward", (query, keys, keys, 6, 3, R(18, 6), None, R(1, 1, 6), R(1, 1, 6), True, 0.0,
                                      square, None), dict(attn_mask=R(4, 5), need_weights=False)),
    ("multi_head_attention_forward", (query, keys, R(5, 2, 3), 6, 2, None, R(18), None, None, False, 0.5, square,
                                      R(6), False), dict(
        use_separate_proj_weight=True, q_proj_weight=square, k_proj_weight=square, v_proj_weight=R(6, 3),
        key_padding_mask=torch.tensor([[0, 0, 1, 0, 1], [0, 0, 0, 0, 1]]).bool())),
    ("multi_head_attention_forward", (query[:, 0], keys[:, 0], keys[:, 0], 6, 1, R(18, 6), R(18), None, None, False,
                                      0.0, square, R(6)), dict(attn_mask=torch.ones(4, 5).triu(2).bool())),
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
    y = y[0] if isinstance(y, tuple) else y
    out.append({"name": name, "args": [encode(a) for a in args],
                "options": {key: encode(v) for key, v in options.items()}, "result": encode(y)})
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "values", "functional.json"), "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")
