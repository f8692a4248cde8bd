"""tests/reference/make_picture_files.py: writes tests/reference/picture_files with Pillow: pictures of several
kinds, and the values that Pillow reads from them: what tests/lua/files/picture_test.lua reads.
usage: python3 tests/reference/make_picture_files.py
"""
import os
import numpy as np
from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "picture_files")
y, x = np.mgrid[0:20, 0:30]
rgb = np.stack([x * 8, y * 12, (x + y) * 4], -1).astype(np.uint8)
values = {}

def save(name, picture, **options):
    path = os.path.join(FOLDER, name)
    picture.save(path, **options)
    if picture.mode == "P": picture = picture.convert("RGB")
    array = np.array(Image.open(path)) if name.endswith("jpg") else np.array(picture)
    array = array.astype(np.uint8) * (255 if picture.mode == "1" else 1)
    values[name] = np.ascontiguousarray(np.atleast_3d(array).transpose(2, 0, 1))

picture = Image.fromarray(rgb)
save("rgb.png", picture)
save("gray.png", picture.convert("L"))
save("alpha.png", Image.fromarray(np.dstack([rgb, rgb[:, :, :1]])))
save("gray_alpha.png", picture.convert("LA"))
save("palette.png", picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=16))
save("bits.png", picture.convert("1"))
save("rgb.bmp", picture)
save("rgb.jpg", picture, quality=90, subsampling=0)
save("gray.jpg", picture.convert("L"), quality=90)
save("progressive.jpg", picture, quality=90, progressive=True, subsampling=0)
np.savez_compressed(os.path.join(FOLDER, "values.npz"), **values)
