// tensor/io/picture.h: PNG, JPEG and BMP files as tensors of (height, width, channels), uint8.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace moonlet::io {

// The channels that a reader gives: those of the file, or 1 gray, 2 gray and alpha, 3 RGB, 4 RGB
// and alpha. Samples of 16 bits keep their upper 8.
enum class PictureMode { Unchanged = 0, Gray = 1, GrayAlpha = 2, Rgb = 3, RgbAlpha = 4 };

// Throws Error "OP: 'PATH': reason", also for a file that claims to be larger than its bytes can
// say, is cut off, or has a PNG chunk whose checksum is another, and where decoding takes more than
// `max_bytes` (0: 512 MiB, or 256 times the file's size where that is more).
Tensor read_picture(const std::string& path, PictureMode mode, const char* op,
                    int64_t max_bytes = 0);

// The bytes of a file; `picture` has 1 to 4 channels. `level` is zlib's, from 0 to 9.
std::string encode_png(const Tensor& picture, int level, const char* op);
// 1 or 3 channels; `quality` from 1 to 100.
std::string encode_jpeg(const Tensor& picture, int quality, const char* op);

}  // namespace moonlet::io
