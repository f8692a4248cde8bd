// tensor/io/picture_frames.h: pictures of one or more frames, GIF and WebP, before their channels
// are chosen; and the orientation that a camera noted in a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/io/picture.h"
#include "tensor/io/read_budget.h"

namespace moonlet::io {

// Whole pictures of red, green, blue and alpha, one after the other as they are shown.
struct Frames {
  int64_t width = 0, height = 0;
  bool alpha = false;  // some pixel is not opaque
  std::vector<std::vector<uint8_t>> rgba;
};

// Throw Error with the reason alone. Without `all` only the first frame is read.
Frames decode_gif(std::string_view data, bool all, ReadBudget& budget);
Frames decode_webp(std::string_view data, bool all, ReadBudget& budget);
// Why WebP cannot be read here; empty where it can.
std::string webp_unavailable();

// (height, width, channels), or (frames, height, width, channels) with `all`.
Tensor tensor_of(const Frames& frames, PictureMode mode, bool all, ReadBudget& budget,
                 const char* op);

// The tag Orientation of the Exif data of a JPEG, PNG or WebP file, 1 to 8; 1 where there is none.
int exif_orientation(std::string_view data);

}  // namespace moonlet::io
