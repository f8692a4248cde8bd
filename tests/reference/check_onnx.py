"""tests/reference/check_onnx.py: runs the files of write_onnx.lua with onnxruntime and compares.
usage: moonlet write_onnx.lua FOLDER && python3 check_onnx.py FOLDER (needs onnx and onnxruntime)"""
import sys

import numpy as np
import onnx
import onnxruntime


def problems_of(folder, name):
    path = f"{folder}/{name}.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3, 5):
        arrays = np.load(f"{folder}/{name}_{batch}.npz")
        got = session.run(None, {i.name: arrays[i.name] for i in session.get_inputs()})
        for i, y in enumerate(got):
            want = arrays[f"out{i + 1}"]
            if want.shape != y.shape or want.dtype != y.dtype:
                yield f"batch {batch}, result {i + 1}: {want.dtype}{want.shape}, got {y.dtype}{y.shape}"
            elif want.dtype.kind in "iub":
                if (want != y).any():
                    yield f"batch {batch}, result {i + 1} differs"
            elif not np.allclose(want, y, rtol=1e-5, atol=1e-5, equal_nan=True):
                yield f"batch {batch}, result {i + 1} differs by {np.nanmax(np.abs(want - y))}"


def main(folder):
    onnxruntime.set_default_logger_severity(4)
    count = bad = 0
    with open(f"{folder}/names.txt") as names:
        for name in names.read().split():
            count += 1
            try:
                problems = list(problems_of(folder, name))
            except Exception as error:  # what it raises has no class of its own
                problems = [str(error)]
            for problem in problems:
                bad += 1
                print(f"{name}: {problem}")
    print(f"{count} graphs, {bad} problems")
    sys.exit(bad != 0)


main(sys.argv[1])
