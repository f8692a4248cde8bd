// tensor/io/picture.h: PNG, JPEG, BMP, GIF and WebP files as tensors of (height, width, channels):
// uint8, and int32 for PNG files of 16 bits.
#pragma once

#include <string>

#include "tensor/core/tensor.h"

namespace moonlet::io {

// The channels that a reader gives: those of the file, or 1 gray, 2 gray and alpha, 3 RGB, 4 RGB
// and alpha.
enum class PictureMode { Unchanged = 0, Gray = 1, GrayAlpha = 2, Rgb = 3, RgbAlpha = 4 };

struct PictureOptions {
  PictureMode mode = PictureMode::Unchanged;
  bool all_frames = false;  // (frames, height, width, channels), also of formats that have but one
  int64_t max_bytes = 0;
};

struct Picture {
  Tensor pixels;
  int orientation = 1;  // Exif's, which is not applied
};

// Throws Error "OP: 'PATH': reason", also for a file that claims to be larger than its bytes can
// say, is cut off, or has a PNG chunk whose checksum is another, and where decoding takes more than
// `max_bytes` (0: 512 MiB, or 256 times the file's size where that is more).
Picture read_picture(const std::string& path, const PictureOptions& options, const char* op);

// The bytes of a file; `picture` has 1 to 4 channels. `level` is zlib's, from 0 to 9.
std::string encode_png(const Tensor& picture, int level, const char* op);
// 1 or 3 channels; `quality` from 1 to 100.
std::string encode_jpeg(const Tensor& picture, int quality, const char* op);

}  // namespace moonlet::io
