"""tests/reference/make_numpy_files.py: writes the files of tests/reference/numpy_files with NumPy: what
tests/lua/files/numpy_test.lua reads.  usage: python3 tests/reference/make_numpy_files.py
"""
import os
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numpy_files")
a = np.arange(6).reshape(2, 3)
np.save(os.path.join(FOLDER, "big_fortran.npy"), np.asfortranarray(a.astype(">c16") * (1 + 2j)))
np.savez(os.path.join(FOLDER, "several.npz"), a=a.astype("<f4"), names=np.array(["x", "y"]), wide=a.astype("u2"),
         scalar=np.float64(2.5), none=np.zeros((0, 3), "?"))
np.savez_compressed(os.path.join(FOLDER, "compressed.npz"), a=np.arange(5000.0).reshape(50, 100), b=np.array([True, False]))
