"""tests/reference/make_gguf_files.py: writes tests/reference/gguf_files with the package gguf: a file of all
types with drawn bytes, and the values that the package's numpy code gives them: what
tests/lua/files/gguf_test.lua reads.  usage: python3 tests/reference/make_gguf_files.py
"""
import os
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFWriter, quants

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_files")
rng = np.random.default_rng(0)
w = GGUFWriter(os.path.join(FOLDER, "types.gguf"), "llama")
w.add_uint8("u8", 200)
w.add_int8("i8", -3)
w.add_uint16("u16", 60000)
w.add_int16("i16", -5)
w.add_uint32("u32", 4000000000)
w.add_int32("i32", -7)
w.add_float32("f32", 0.5)
w.add_bool("yes", True)
w.add_bool("no", False)
w.add_string("text", "h\u00e9llo")
w.add_array("numbers", [1, 2, 3])
w.add_array("texts", ["x", "yy"])
w.add_array("nested", [[1, 2], [3]])
w.add_uint64("u64", 2 ** 40)
w.add_int64("i64", -2 ** 40)
w.add_float64("f64", 1.25)
values = {}
for name, dtype in [("F32", "f4"), ("F16", "f2"), ("F64", "f8"), ("I8", "i1"), ("I16", "i2"), ("I32", "i4"),
                    ("I64", "i8")]:
    values[name] = (rng.standard_normal((2, 3)) * 10).astype(dtype)
    w.add_tensor(name, values[name])
# Where the blocks of a type have their scales, which are halves.
SCALES = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.Q2_K: [80, 82], Q.Q3_K: [108],
          Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208], Q.IQ4_NL: [0], Q.IQ4_XS: [0], Q.TQ1_0: [52]}
for kind, places in SCALES.items():
    size, width = gguf.GGML_QUANT_SIZES[kind]
    rows = 2 if size == 32 else 1
    blocks = rng.integers(0, 256, (rows * 2, width), dtype=np.uint8)
    for at in places:
        blocks[:, at:at + 2] = rng.uniform(-1, 1, (rows * 2, 1)).astype("f2").view(np.uint8)
    blocks = blocks.reshape(rows, 2 * width)
    w.add_tensor(kind.name, blocks, raw_dtype=kind)
    values[kind.name] = quants.dequantize(blocks, kind)
half = (rng.standard_normal((2, 3)).astype("f4").view("u4") >> 16).astype("u2").view(np.uint8)
w.add_tensor("BF16", half, raw_dtype=Q.BF16)
values["BF16"] = quants.dequantize(half, Q.BF16)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
np.savez_compressed(os.path.join(FOLDER, "values.npz"), **values)
