"""tests/reference/make_onnx_ops.py: what onnxruntime computes with single ops of ONNX, for
tests/lua/files/onnx_ops_test.lua. usage: python3 make_onnx_ops.py onnx_ops.json (needs onnx and onnxruntime)"""
import itertools
import json
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper

rng = np.random.default_rng(5)
cases = []


def floats(*shape):
    """Numbers of one decimal: short in the file."""
    return (rng.integers(-30, 31, shape) / 10).astype("float32")


def positive(*shape):
    return (rng.integers(1, 21, shape) / 10).astype("float32")


def bytes_(*shape):
    return rng.integers(0, 256, shape).astype("uint8")


def signed(*shape):
    return rng.integers(-128, 128, shape).astype("int8")


def one(value, dtype="float32"):
    return np.array(value, dtype)


def ints(*values, dtype="int64"):
    return np.array(values, dtype)


def shown(array):
    values = [v if array.dtype.kind in "iub" else float("%.7g" % v) for v in array.ravel().tolist()]
    values = [v if v == v and abs(v) != np.inf else repr(v) for v in values]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values}


def case(op, inputs, outputs=1, since=17, domain="", **attributes):
    """One node; inputs that are None are left out."""
    names = ["i%d" % i if x is not None else "" for i, x in enumerate(inputs)]
    results = ["o%d" % i for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = {name: x for name, x in zip(names, inputs) if x is not None}
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in given.items()],
        [onnx.ValueInfoProto(name=name) for name in results if name])
    sets = [helper.make_opsetid("", since)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    wanted = iter(session.run([name for name in results if name], given))
    cases.append({
        "op": op, "domain": domain, "opset": since, "attributes": attributes,
        "inputs": [shown(x) if x is not None else False for x in inputs],
        "outputs": [shown(np.asarray(next(wanted))) if name else False for name in results]})


def microsoft(op, inputs, outputs=1, **attributes):
    case(op, inputs, outputs, domain="com.microsoft", **attributes)


def quantization():
    for dtype, zero in (("uint8", 3), ("int8", -5), ("int16", -300)):
        case("QuantizeLinear", [floats(3, 4) * 100, one(0.7), one(zero, dtype)], since=21)
        case("QuantizeLinear", [floats(3, 4) * 100, positive(4), np.full(4, zero, dtype)], since=21, axis=1)
    case("QuantizeLinear", [ints(0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, dtype="float32"), one(1)], since=13)
    case("QuantizeLinear", [floats(4, 3), positive(2, 3), bytes_(2, 3)], since=21, axis=0, block_size=2)
    case("DequantizeLinear", [bytes_(4, 3), positive(2, 3), bytes_(2, 3)], since=21, axis=0, block_size=2)
    case("DequantizeLinear", [bytes_(2, 3), positive(2), bytes_(2)], since=13, axis=0)
    case("DequantizeLinear", [signed(2, 3), positive(3), signed(3)], since=13, axis=-1)
    case("DequantizeLinear", [ints(-70000, 12345, dtype="int32"), one(0.01)], since=13)
    for x in (floats(4, 3), positive(5), -positive(5), np.zeros(2, "float32")):
        case("DynamicQuantizeLinear", [x], 3)
    case("MatMulInteger", [bytes_(2, 2, 300), signed(300, 2), one(7, "uint8"), signed(2)])
    case("MatMulInteger", [signed(3, 4), signed(4, 2), one(7, "int8")])
    case("ConvInteger", [bytes_(1, 4, 4, 4), bytes_(2, 2, 3, 3), one(9, "uint8"), one(100, "uint8")], group=2, pads=[1, 1, 0, 0])
    for scale in (one(0.02), positive(2) * one(0.02)):
        case("QLinearConv", [bytes_(1, 2, 5, 5), one(0.1), one(120, "uint8"), signed(2, 2, 3, 3), scale,
                             np.zeros(scale.shape, "int8"), one(0.6), one(100, "uint8"), ints(-3000, 2000, dtype="int32")],
             pads=[1, 1, 1, 1], strides=[2, 2])
    case("QLinearMatMul", [bytes_(2, 9), one(0.1), one(120, "uint8"), signed(9, 3), positive(3) * one(0.05),
                           np.zeros(3, "int8"), one(0.9), one(100, "uint8")])


def pooling():
    shapes = {1: (1, 2, 9), 2: (1, 2, 6, 5), 3: (1, 1, 5, 4, 4)}
    for rank, (stride, border, dilation, ceil) in itertools.product((1, 2), itertools.product((1, 2), (0, 1, 2), (1, 2), (0, 1))):
        if rank == 2 and stride == 1 and ceil:
            continue
        pads = [[0] * 2 * rank, [1] * 2 * rank, ([1, 0][:rank] + [0, 1][:rank])][border]
        options = dict(kernel_shape=[2] * rank, strides=[stride] * rank, pads=pads, dilations=[dilation] * rank, ceil_mode=ceil)
        x = floats(*shapes[rank])
        case("MaxPool", [x], 2, since=12, **options)
        case("AveragePool", [x], since=19, count_include_pad=border % 2, **options)
        if rank == 1:
            case("LpPool", [x], since=18, p=3, **options)
    for rank, auto in itertools.product((1, 2, 3), ("SAME_UPPER", "SAME_LOWER")):
        case("MaxPool", [floats(*shapes[rank])], kernel_shape=[3] * rank, strides=[2] * rank, auto_pad=auto)
    case("MaxPool", [floats(*shapes[3])], 2, kernel_shape=[3] * 3, strides=[2] * 3, storage_order=1)
    case("MaxPool", [bytes_(1, 1, 4, 4)], kernel_shape=[3, 3], pads=[1, 0, 0, 1])
    case("GlobalLpPool", [floats(*shapes[2])], p=3)
    case("MaxUnpool", [floats(1, 1, 2, 2), ints([[[[0, 3], [9, 15]]]])[0]], kernel_shape=[2, 2], strides=[2, 2])


def convolutions():
    for stride, auto in itertools.product((1, 2), ("SAME_UPPER", "SAME_LOWER", "VALID")):
        case("ConvTranspose", [floats(1, 2, 4), floats(2, 2, 3), floats(2)], strides=[stride], auto_pad=auto)
        case("Conv", [floats(1, 2, 5), floats(2, 2, 3), floats(2)], strides=[stride], auto_pad=auto)
    case("ConvTranspose", [floats(1, 2, 4), floats(2, 1, 3), floats(2)], strides=[2], output_shape=[8], group=2)
    case("ConvTranspose", [floats(1, 2, 4), floats(2, 2, 2), floats(2)], strides=[3], output_shape=[13])
    case("ConvTranspose", [floats(1, 2, 3, 3), floats(2, 1, 2, 3)], strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[1, 0], dilations=[2, 1])
    case("DeformConv", [floats(1, 2, 4, 4), floats(2, 1, 2, 2), floats(1, 16, 3, 3) / 3, floats(2), positive(1, 8, 3, 3)],
         since=19, group=2, offset_group=2)
    case("Col2Im", [floats(1, 8, 6), ints(3, 4), ints(2, 2)], since=18)


def resizing():
    modes = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    for mode, place, scales in itertools.product(("nearest", "linear", "cubic"), modes, ([1, 1, 2, 1.5], [1, 1, 0.6, 0.7])):
        options = dict(mode=mode, coordinate_transformation_mode=place)
        if mode == "nearest":
            options["nearest_mode"] = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[len(cases) % 4]
        if mode == "cubic":
            options.update(cubic_coeff_a=-0.5, exclude_outside=len(cases) % 2)
        elif mode == "linear" and place != "half_pixel_symmetric":
            options["antialias"] = int(scales[2] < 1)
        case("Resize", [floats(1, 1, 4, 5), None, ints(*scales, dtype="float32")], since=19, **options)
    case("Resize", [floats(1, 1, 4, 4), ints(0, 0, 0.2, -0.1, 1, 1, 0.9, 1.2, dtype="float32"), ints(1, 1, 0.75, 1.5, dtype="float32")],
         since=19, mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)
    case("Resize", [floats(1, 1, 6, 6), None, ints(1, 1, 0.5, 0.5, dtype="float32")], since=19, mode="cubic", antialias=1)
    for policy in ("stretch", "not_larger", "not_smaller"):
        case("Resize", [floats(1, 1, 4, 5), None, None, ints(7, 9)], since=19, mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy)
    for op, since in (("Resize", 10), ("Upsample", 9)):
        case(op, [floats(1, 1, 3, 4), ints(1, 1, 2, 1.5, dtype="float32")], since=since, mode="nearest")
    case("Resize", [floats(1, 1, 5, 5), ints(1, 1, 0.6, 0.5, dtype="float32")], since=10, mode="nearest")


def normalization():
    x = floats(2, 4, 3)
    weights = [floats(4), floats(4), floats(4), positive(4)]
    case("BatchNormalization", [x, *weights], since=15)
    case("BatchNormalization", [x, *weights], 3, since=15, training_mode=1, momentum=0.8, epsilon=0.001)
    case("BatchNormalization", [x] + [w.reshape(4, 1).repeat(3, 1) for w in weights], since=7, spatial=0)
    case("InstanceNormalization", [x, floats(4), floats(4)], epsilon=0.1)
    case("GroupNormalization", [x, floats(2), floats(2)], since=18, num_groups=2)
    case("GroupNormalization", [x, floats(4), floats(4)], since=21, num_groups=2)
    case("LayerNormalization", [x, floats(4, 3), floats(4, 3)], 3, axis=1)
    case("LayerNormalization", [x, floats(3)], 3, axis=-1)
    case("RMSNormalization", [x, floats(4, 3)], since=23, axis=1)
    case("LRN", [floats(1, 4, 2, 2)], size=3, alpha=0.1, beta=0.6, bias=2.0)
    case("LpNormalization", [x], p=1, axis=1)
    case("MeanVarianceNormalization", [floats(2, 2, 3, 2)])
    case("MeanVarianceNormalization", [x], axes=[0, 1])


def detection():
    for mode, place, ratio in itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2)):
        boxes = ints([1, 2, 5, 6], [0, 0, 20, 5], [-3, 2, 4, 4.5], [5, 5, 5.25, 5], dtype="float32")
        case("RoiAlign", [floats(2, 1, 5, 6), boxes, ints(0, 1, 1, 0)], since=16, mode=mode, output_height=2, output_width=2,
             coordinate_transformation_mode=place, sampling_ratio=ratio, spatial_scale=0.75)
    case("MaxRoiPool", [floats(2, 1, 6, 7), ints([0, 1, 2, 5, 6], [1, 0, 0, 20, 5], [1, 5, 5, 5.25, 5], dtype="float32")],
         pooled_shape=[3, 2], spatial_scale=0.7)
    boxes, scores = (rng.integers(0, 100, (2, 12, 4)) / 100).astype("float32"), (rng.integers(0, 50, (2, 2, 12)) / 50).astype("float32")
    for center in (0, 1):
        case("NonMaxSuppression", [boxes, scores, ints(4), one([0.3]), one([0.4])], center_point_box=center)
        case("NonMaxSuppression", [boxes, scores, ints(50)], center_point_box=center)
    for mode, edge, corners in itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)):
        grid = (rng.integers(-13, 14, (1, 2, 2, 2)) / 10).astype("float32") + one(0.03)
        case("GridSample", [floats(1, 1, 3, 4), grid], since=20, mode=mode, padding_mode=edge, align_corners=corners)
    case("AffineGrid", [floats(1, 3, 4), ints(1, 1, 2, 2, 3)], since=20, align_corners=1)
    case("CenterCropPad", [floats(2, 5, 3), ints(3, 6)], since=18, axes=[1, -1])
    for mode in ("DCR", "CRD"):
        case("DepthToSpace", [floats(1, 4, 2, 2)], blocksize=2, mode=mode)


def recurrent():
    steps, batch, width, hidden = 3, 2, 2, 2
    for kind, gates, direction in itertools.product(("LSTM", "GRU", "RNN"), (None,), ("forward", "reverse", "bidirectional")):
        gates, count = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 1)}[kind]
        many = 2 if direction == "bidirectional" else 1
        x, w, r = floats(steps, batch, width), floats(many, gates * hidden, width), floats(many, gates * hidden, hidden)
        b, h = floats(many, 2 * gates * hidden), floats(many, batch, hidden)
        rest = dict(hidden_size=hidden, direction=direction)
        outputs = 3 if kind == "LSTM" else 2
        lengths, cell, peepholes = ints(2, 3, dtype="int32"), floats(many, batch, hidden), floats(many, 3 * hidden)
        case(kind, [x, w, r], outputs, **rest)
        case(kind, [x, w, r, b, lengths, h], outputs, **rest)
        case(kind, [x, w, r, b, None, h], outputs, clip=0.5, **rest)
        names = (["HardSigmoid", "Softsign", "Affine"], ["HardSigmoid", "ScaledTanh"], ["ScaledTanh"])[("LSTM", "GRU", "RNN").index(kind)]
        values = {"HardSigmoid": (0.3, 0.4), "Affine": (0.5, 0.1), "ScaledTanh": (0.7, 0.8)}
        parameters = [values[name] for name in names if name in values] * many
        case(kind, [x, w, r, b], outputs, activations=names * many, activation_alpha=[p[0] for p in parameters],
             activation_beta=[p[1] for p in parameters], **rest)
        if kind == "LSTM":
            case(kind, [x, w, r, b, lengths, h, cell, peepholes], outputs, **rest)
            case(kind, [x, w, r, b, None, h, cell, peepholes], outputs, input_forget=1, **rest)
        if kind == "GRU":
            case(kind, [x, w, r, b, lengths, h], outputs, linear_before_reset=1, **rest)


def indexing():
    for reduction in ("add", "mul", "max", "min"):
        case("ScatterElements", [floats(3, 2), rng.integers(-3, 3, (4, 2)), floats(4, 2)], since=18, reduction=reduction, axis=0)
        case("ScatterND", [floats(2, 3, 2), ints([1, 2], [0, -1], [1, 2]), floats(3, 2)], since=18, reduction=reduction)
    case("GatherND", [floats(2, 3, 2), ints([[1], [2]], [[0], [-1]])], batch_dims=1)
    case("GatherND", [floats(2, 2, 3), rng.integers(0, 3, (2, 2, 2, 1))], batch_dims=2)
    x = rng.integers(0, 4, (2, 5)).astype("float32")
    case("Unique", [x], 4)
    case("Unique", [x], 4, sorted=0)
    case("Unique", [rng.integers(0, 2, (2, 5))], 4, axis=1, sorted=0)
    case("ReverseSequence", [floats(4, 3), ints(2, 4, 1)])
    case("ReverseSequence", [floats(3, 4), ints(2, 4, 1)], batch_axis=0, time_axis=1)
    case("TopK", [rng.integers(0, 4, (2, 12)).astype("float32"), ints(5)], 2, largest=0)
    case("CumSum", [floats(2, 4), one(1, "int32")], exclusive=1, reverse=1)
    case("OneHot", [ints([1, -1], [7, 0]), one(3, "int64"), ints(0.5, 2, dtype="float32")], axis=1)
    case("TensorScatter", [floats(2, 4, 2), floats(2, 2, 2), ints(1, 3)], since=24, mode="circular")
    for k in (-1, 2):
        case("EyeLike", [floats(2, 4)], k=k, dtype=7)
    scores, classes = floats(2, 3, 2), rng.integers(0, 3, (2, 2))
    for reduction in ("none", "sum", "mean"):
        case("SoftmaxCrossEntropyLoss", [scores, classes, positive(3)], 2, reduction=reduction, ignore_index=2)


def elementwise():
    x = floats(2, 6)
    case("Hardmax", [x])
    case("Hardmax", [floats(2, 2, 3)], since=11)
    case("Det", [floats(2, 3, 3)])
    case("Shrink", [x], lambd=0.4, bias=0.2)
    case("Swish", [x], since=24, alpha=0.7)
    for mode, dtype in ((0, "int32"), (1, "int32"), (1, "float32")):
        case("Mod", [ints(7, -7, 5, -5, dtype=dtype), ints(3, 3, -3, -3, dtype=dtype)], fmod=mode)
    for direction in ("LEFT", "RIGHT"):
        case("BitShift", [bytes_(4), ints(0, 1, 4, 7, dtype="uint8")], direction=direction)
    case("Pow", [ints(1, 2, 3), ints(0.5, 2, 3, dtype="float32")])
    case("Clip", [ints(-9, 3, 9), one(-5, "int64"), one(7, "int64")])
    case("STFT", [floats(1, 12, 1), one(4, "int64"), positive(4), one(4, "int64")])
    case("DFT", [floats(1, 5, 1)], axis=1, onesided=1)
    case("DFT", [floats(1, 4, 2, 2), one(6, "int64"), one(-3, "int64")], since=20, inverse=1)
    for window in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        case(window, [one(5, "int64")], periodic=len(cases) % 2)
    case("MelWeightMatrix", [one(4, "int64"), one(16, "int64"), one(8000, "int64"), one(20), one(4000)])


def attention():
    q, k, v = floats(1, 4, 3, 2), floats(1, 2, 4, 2), floats(1, 2, 4, 3)
    case("Attention", [q, k, v], since=23, is_causal=1)
    case("Attention", [q, k, v, rng.integers(0, 2, (3, 4)).astype("bool")], since=23, scale=0.4)
    case("Attention", [q, k, v, floats(3, 6), floats(1, 2, 2, 2), floats(1, 2, 2, 3)], 3, since=23, softcap=1.5)
    case("Attention", [floats(1, 3, 8), floats(1, 4, 4), floats(1, 4, 4)], since=23, q_num_heads=4, kv_num_heads=2)
    case("RotaryEmbedding", [floats(1, 2, 12), floats(1, 2, 2), floats(1, 2, 2)], since=23, num_heads=2, rotary_embedding_dim=4)


def microsoft_ops():
    x = floats(1, 3, 4)
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        microsoft(op, [x])
    microsoft("BiasGelu", [x, floats(4)])
    microsoft("FusedConv", [floats(1, 2, 3, 3), floats(2, 2, 2, 2), floats(2), floats(1, 2, 2, 2)], activation="Relu")
    microsoft("FusedConv", [floats(1, 2, 3, 3), floats(2, 2, 2, 2)], activation="LeakyRelu", activation_params=[0.2])
    microsoft("FusedMatMul", [floats(2, 3, 2), floats(2, 2, 3)], alpha=0.5, transA=1, transB=1)
    microsoft("FusedMatMul", [floats(2, 2, 3), floats(2, 3, 2)], transBatchA=1)
    microsoft("FusedGemm", [floats(2, 3), floats(3, 2), floats(2)], activation="Relu")
    microsoft("SkipLayerNormalization", [x, floats(1, 3, 4), floats(4), floats(4), floats(4)], ["y", "", "", "sum"])
    microsoft("SkipSimplifiedLayerNormalization", [x, floats(1, 3, 4), floats(4)], ["y", "", "", "sum"])
    case("SimplifiedLayerNormalization", [x, floats(4)], axis=-1)
    words, segments, mask = ints([1, 2, 0], dtype="int32"), ints([0, 1, 0], dtype="int32"), ints([1, 1, 0], dtype="int32")
    words, segments, mask = words.reshape(1, 3), segments.reshape(1, 3), mask.reshape(1, 3)
    microsoft("EmbedLayerNormalization", [words, segments, floats(3, 4), floats(3, 4), floats(2, 4), floats(4), floats(4), mask], 2)
    weights = [floats(4, 12) / 3, floats(12)]
    microsoft("Attention", [x, *weights, mask], num_heads=2)
    microsoft("Attention", [x, *weights, ints(2, dtype="int32")], num_heads=2, unidirectional=1)
    microsoft("Attention", [x, *weights, None, floats(2, 1, 2, 2, 2)], 2, num_heads=2, unidirectional=1)
    microsoft("MultiHeadAttention", [x, floats(1, 4, 4), floats(1, 4, 6), floats(14)], num_heads=2)
    microsoft("MultiHeadAttention", [x, floats(1, 3, 4), floats(1, 3, 4), None, None, None, floats(1, 2, 2, 2), floats(1, 2, 2, 2)], 3, num_heads=2)
    cos, sin = floats(6, 8) / 3, floats(6, 8) / 3
    for options in (dict(), dict(local_window_size=2), dict(do_rotary=1), dict(smooth_softmax=1, softcap=1.5)):
        caches = [cos, sin] if "do_rotary" in options else []
        microsoft("GroupQueryAttention", [floats(1, 1, 32) / 3, floats(1, 1, 16) / 3, floats(1, 1, 16), floats(1, 1, 4, 16) / 3,
                                          floats(1, 1, 4, 16), ints(4, dtype="int32"), ints(5, dtype="int32"), *caches], 3,
                  num_heads=2, kv_num_heads=1, **options)
    microsoft("RotaryEmbedding", [floats(1, 2, 8), ints([1, 3]).reshape(1, 2), floats(5, 2), floats(5, 2)], interleaved=1)
    microsoft("Inverse", [floats(2, 2)])
    microsoft("ExpandDims", [floats(2, 2), one(-1, "int32")])
    microsoft("Unique", [ints(2, 1, 1, 3, 4, 3, dtype="float32")], 3)
    microsoft("CropAndResize", [floats(1, 1, 4, 5), ints([0.1, 0.2, 0.9, 0.8], [-0.2, 0, 1.1, 0.5], dtype="float32"), ints(0, 0, dtype="int32"),
                                ints(2, 3, dtype="int32")], extrapolation_value=2.0)
    microsoft("CDist", [floats(2, 3), floats(2, 3)], metric="euclidean")


def microsoft_quantized():
    a = [bytes_(2, 3), one(0.03), one(120, "uint8")]
    b = [bytes_(1, 3), one(0.05), one(100, "uint8")]
    y = [one(0.07), one(128, "uint8")]
    for op in ("QLinearAdd", "QLinearMul"):
        microsoft(op, [*a, *b, *y])
    microsoft("QLinearSigmoid", [*a, one(1 / 256), one(0, "uint8")])
    microsoft("QLinearLeakyRelu", [*a, *y], alpha=0.2)
    microsoft("QLinearSoftmax", [*a, one(1 / 256), one(0, "uint8")], axis=-1, opset=13)
    microsoft("QLinearConcat", [*y, *a, *b], axis=0)
    microsoft("QLinearWhere", [np.array([[True, False, True]]), *a, *b, *y])
    picture = [bytes_(1, 4, 4, 1), one(0.03), one(120, "uint8")]
    microsoft("QLinearAveragePool", [*picture, *y], kernel_shape=[3, 3], channels_last=1, pads=[1, 1, 1, 1], count_include_pad=1)
    microsoft("QLinearGlobalAveragePool", [*picture, *y], channels_last=1)
    whole = [signed(3, 2), one(0.05), one(3, "int8")]
    microsoft("QGemm", [*a, *whole, ints(-900, 500, dtype="int32"), one(0.4), one(100, "uint8")])
    microsoft("QGemm", [bytes_(3, 2), one(0.03), one(9, "uint8"), signed(4, 3), positive(4), signed(4)], transA=1, transB=1, alpha=0.5)
    microsoft("DynamicQuantizeMatMul", [floats(2, 3), whole[0], one(0.05), one(3, "int8"), floats(2)])
    microsoft("MatMulIntegerToFloat", [a[0], whole[0], one(0.1), positive(2), one(100, "uint8"), signed(2), floats(2)])
    microsoft("QAttention", [bytes_(1, 3, 4), signed(4, 12), floats(12), one(0.01), one(0.02), ints(2, dtype="int32"), one(120, "uint8"),
                             one(0, "int8")], num_heads=2)
    for bits, width in ((4, 40), (8, 32), (2, 32)):
        blocks = (width + 15) // 16
        microsoft("MatMulNBits", [floats(2, width), bytes_(3, blocks, 2 * bits), positive(3 * blocks), bytes_(3 * ((blocks * bits + 7) // 8))],
                  K=width, N=3, bits=bits, block_size=16)
    microsoft("MatMulNBits", [floats(2, 32), bytes_(3, 2, 8), positive(6)], K=32, N=3, bits=4, block_size=16)
    microsoft("GatherBlockQuantized", [bytes_(3, 16), ints(0, 2), positive(3, 2), bytes_(3, 1)], gather_axis=0, quantize_axis=1, block_size=16, bits=4)
    scales = [positive(1, 8) / 20, np.zeros((1, 8), "int8"), positive(1, 8) / 20, np.zeros((1, 8), "int8")]
    microsoft("DynamicQuantizeLSTM", [floats(3, 1, 3), signed(1, 3, 8), signed(1, 2, 8), floats(1, 16), None, None, None, None, *scales], 3,
              hidden_size=2)


for family in (quantization, pooling, convolutions, resizing, normalization, detection, recurrent, indexing, elementwise, attention,
               microsoft_ops, microsoft_quantized):
    family()
with open(sys.argv[1], "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(one_case, separators=(",", ":")) for one_case in cases) + "\n]\n")
print(len(cases), "cases")
