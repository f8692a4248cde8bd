"""tests/reference/make_frame_files.py: writes into tests/reference/picture_files GIF and WebP files with Pillow,
PNG files of 16 bits and a picture that its camera turned, and in frames.npz the values that Pillow reads from
them, or that were written: what tests/lua/data/picture_frames_test.lua reads.
usage: python3 tests/reference/make_frame_files.py
"""
import os
import struct
import zlib
import numpy as np
from PIL import Image, ImageOps

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "picture_files")
y, x = np.mgrid[0:12, 0:17]
rgb = np.stack([x * 14, y * 20, (x + y) * 8], -1).astype(np.uint8)
values = {}

def path(name): return os.path.join(FOLDER, name)

def keep(name, array): values[name] = np.ascontiguousarray(np.moveaxis(array, -1, -3))

def frames(name, mode):
    with Image.open(path(name)) as picture:
        out = []
        for i in range(picture.n_frames):
            picture.seek(i)
            out.append(np.array(picture.convert(mode)))
    return np.stack(out)

def chunk(name, body): return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

def png16(name, array, kind, transparent=b""):
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    head = struct.pack(">IIBBBBB", array.shape[1], array.shape[0], 16, kind, 0, 0, 0)
    with open(path(name), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (transparent and chunk(b"tRNS", transparent))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

wide = (np.stack([x * 4001, y * 5003, x * y * 300 + 1, 65535 - x * 7], -1) % 65536).astype(np.int32)
for name, kind, channels in (("gray16", 0, 1), ("gray_alpha16", 4, 2), ("rgb16", 2, 3), ("alpha16", 6, 4)):
    png16(name + ".png", wide[:, :, :channels], kind)
    keep(name + ".png", wide[:, :, :channels])
png16("transparent16.png", wide[:, :, :1], 0, struct.pack(">H", wide[3, 5, 0]))
keep("transparent16.png", np.stack([wide[:, :, 0], np.where(wide[:, :, 0] == wide[3, 5, 0], 0, 65535)], -1).astype(np.int32))

picture = Image.fromarray(rgb)
colors = picture.quantize(100)
colors.save(path("plain.gif"), interlace=0)
colors.save(path("interlaced.gif"), interlace=1)
for name in ("plain.gif", "interlaced.gif"): keep(name, np.array(colors.convert("RGB")))

moving = []
for i in range(4):
    frame = np.zeros((12, 17, 4), np.uint8)
    frame[2 + i:8 + i, 2 * i:2 * i + 6] = [255, 60 * i, 20, 255]
    moving.append(Image.fromarray(frame))
for disposal in (1, 2, 3):
    name = f"moving{disposal}.gif"
    moving[0].save(path(name), save_all=True, append_images=moving[1:], disposal=disposal, duration=20)
    keep(name, frames(name, "RGBA"))

picture.save(path("lossless.webp"), lossless=True)
keep("lossless.webp", rgb)
picture.save(path("lossy.webp"))
keep("lossy.webp", np.array(Image.open(path("lossy.webp")).convert("RGB")))
Image.fromarray(np.dstack([rgb, rgb[:, :, :1]])).save(path("alpha.webp"), lossless=True, exact=True)
keep("alpha.webp", np.dstack([rgb, rgb[:, :, :1]]))
moving[0].save(path("moving.webp"), save_all=True, append_images=moving[1:], lossless=True)
keep("moving.webp", frames("moving.webp", "RGBA"))

for turn in range(1, 9):
    name = f"turned{turn}.png"
    exif = Image.Exif()
    exif[0x112] = turn
    picture.crop((0, 0, 5, 3)).save(path(name), exif=exif)
    keep(name, np.array(ImageOps.exif_transpose(Image.open(path(name)))))
exif = Image.Exif()
exif[0x112] = 6
picture.save(path("turned.jpg"), exif=exif, quality=95, subsampling=0)
keep("turned.jpg", np.array(ImageOps.exif_transpose(Image.open(path("turned.jpg")))))
np.savez_compressed(path("frames.npz"), **values)
