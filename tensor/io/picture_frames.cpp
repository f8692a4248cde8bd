// tensor/io/picture_frames.cpp: frames as tensors, and Exif's orientation.
#include "tensor/io/picture_frames.h"

#include <algorithm>

namespace moonlet::io {
namespace {

// As stb_image weighs them.
uint8_t gray_of(const uint8_t* p) {
  return static_cast<uint8_t>((77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8);
}

void put_pixel(uint8_t*& out, const uint8_t* p, int64_t channels) {
  if (channels < 3) {
    *out++ = gray_of(p);
  } else {
    out = std::copy(p, p + 3, out);
  }
  if (channels % 2 == 0) *out++ = p[3];
}

// Numbers of a TIFF directory, in the order of bytes that its head says; 0 behind the end.
class Tiff {
 public:
  explicit Tiff(std::string_view data) : data_(data), big_(data.substr(0, 2) == "MM") {}

  int orientation() const {
    constexpr uint32_t kOrientation = 0x0112, kShort = 3, kEntry = 12;
    if (!big_ && data_.substr(0, 2) != "II") return 1;
    const size_t at = number(4, 4);
    const uint32_t count = number(at, 2);
    for (uint32_t i = 0; i < count; ++i) {
      const size_t entry = at + 2 + size_t{i} * kEntry;
      if (entry + kEntry > data_.size()) return 1;
      if (number(entry, 2) != kOrientation || number(entry + 2, 2) != kShort) continue;
      const uint32_t value = number(entry + 8, 2);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
    return 1;
  }

 private:
  uint32_t number(size_t at, size_t size) const {
    if (at > data_.size() || data_.size() - at < size) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | static_cast<uint8_t>(data_[at + (big_ ? i : size - 1 - i)]);
    return value;
  }

  std::string_view data_;
  bool big_;
};

constexpr std::string_view kExif("Exif\0\0", 6);

uint32_t number_at(std::string_view data, size_t at, size_t size, bool big) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value = value << 8 | static_cast<uint8_t>(data[at + (big ? i : size - 1 - i)]);
  return value;
}

// The Exif data of a JPEG: its first APP1 segment of that name, before the first scan.
std::string_view exif_of_jpeg(std::string_view data) {
  size_t at = 2;
  while (at + 4 <= data.size() && static_cast<uint8_t>(data[at]) == 0xff) {
    const auto marker = static_cast<uint8_t>(data[at + 1]);
    const size_t length = number_at(data, at + 2, 2, true);
    if (marker == 0xda || length < 2) return {};
    const std::string_view body = data.substr(at + 4, length - 2);
    if (marker == 0xe1 && body.substr(0, kExif.size()) == kExif) return body.substr(kExif.size());
    at += 2 + length;
  }
  return {};
}

// That of a file of chunks with names, PNG's or RIFF's.
std::string_view exif_of_chunks(std::string_view data, bool png) {
  const std::string_view wanted = png ? "eXIf" : "EXIF";
  size_t at = png ? 8 : 12;
  while (at + 8 <= data.size()) {
    const size_t length = number_at(data, at + (png ? 0 : 4), 4, png);
    const std::string_view body = data.substr(at + 8, length);
    if (data.substr(at + (png ? 4 : 0), 4) == wanted)
      return body.substr(0, kExif.size()) == kExif ? body.substr(kExif.size()) : body;
    at += 8 + length + (png ? 4 : length % 2);
  }
  return {};
}

}  // namespace

Tensor tensor_of(const Frames& frames, PictureMode mode, bool all, ReadBudget& budget,
                 const char* op) {
  const auto given = static_cast<int64_t>(mode);
  const int64_t channels = given > 0 ? given : frames.alpha ? 4 : 3;
  const int64_t pixels = frames.width * frames.height;
  const auto count = static_cast<int64_t>(frames.rgba.size());
  budget.take(static_cast<uint64_t>(count * pixels * channels));
  Dims shape{frames.height, frames.width, channels};
  if (all) shape = Dims{count, frames.height, frames.width, channels};
  Tensor out = empty_plain(shape, {DType::UInt8, {}}, op);
  auto* to = static_cast<uint8_t*>(static_cast<void*>(out.raw()));
  for (const std::vector<uint8_t>& frame : frames.rgba)
    for (int64_t i = 0; i < pixels; ++i) put_pixel(to, frame.data() + 4 * i, channels);
  return out;
}

int exif_orientation(std::string_view data) {
  if (data.substr(0, 3) == "\xff\xd8\xff") return Tiff(exif_of_jpeg(data)).orientation();
  if (data.substr(0, 4) == "\x89PNG") return Tiff(exif_of_chunks(data, true)).orientation();
  if (data.substr(0, 4) == "RIFF") return Tiff(exif_of_chunks(data, false)).orientation();
  return 1;
}

}  // namespace moonlet::io
