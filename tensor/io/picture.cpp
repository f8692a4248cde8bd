// tensor/io/picture.cpp: pictures: PNG, JPEG and BMP by stb_image and stb_image_write, others by
// picture_gif.cpp and picture_webp.cpp. What stb trusts is checked first: the sizes against the
// file's, the checksums of PNG, the end of JPEG.
#include "tensor/io/picture.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <zlib.h>

#include "tensor/io/bytes.h"
#include "tensor/io/deflate.h"
#include "tensor/io/files.h"
#include "tensor/io/picture_frames.h"
#include "tensor/io/read_budget.h"
#include "tensor/runtime/interrupt.h"

namespace {

// stb_image_write asks for a zlib stream by this; null for lack of memory.
thread_local int png_level = 6;

unsigned char* zlib_stream(unsigned char* data, int count, int* out_count, int) {
  uLongf size = compressBound(static_cast<uLong>(count));
  auto* out = static_cast<unsigned char*>(std::malloc(size));
  if (out == nullptr) return nullptr;
  if (size > std::numeric_limits<int>::max() ||
      compress2(out, &size, data, static_cast<uLong>(count), png_level) != Z_OK) {
    std::free(out);
    return nullptr;
  }
  *out_count = static_cast<int>(size);
  return out;
}

// What stb_image has reserved on this thread, all within the bound of the file that it reads; and
// what is freed at the end, also when it is left by an exception.
struct Reservations {
  std::unordered_map<void*, size_t> all;
  moonlet::io::ReadBudget& budget;
  explicit Reservations(moonlet::io::ReadBudget& of_file);
  Reservations(const Reservations&) = delete;
  Reservations& operator=(const Reservations&) = delete;
  ~Reservations();
};

thread_local Reservations* reservations = nullptr;

Reservations::Reservations(moonlet::io::ReadBudget& of_file) : budget(of_file) {
  reservations = this;
}

Reservations::~Reservations() {
  for (const auto& [p, size] : all) std::free(p);
  reservations = nullptr;
}

void released(void* p) {
  const auto found = reservations->all.find(p);
  if (found == reservations->all.end()) return;
  reservations->budget.give_back(found->second);
  reservations->all.erase(found);
  std::free(p);
}

void* reserved(size_t size) {
  // Pixels are many, and all written; a decoder's state has parts that a damaged file leaves out.
  constexpr size_t kZeroed = 65536;
  reservations->budget.take(size);
  void* p = size < kZeroed ? std::calloc(size, 1) : std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  try {
    reservations->all.emplace(p, size);
  } catch (const std::bad_alloc&) {
    std::free(p);
    throw;
  }
  return p;
}

void* reserved_again(void* old, size_t size) {
  const auto found = reservations->all.find(old);
  const size_t before = found == reservations->all.end() ? 0 : found->second;
  void* p = reserved(size);
  if (before > 0) std::memcpy(p, old, std::min(before, size));
  released(old);
  return p;
}

// An assertion of stb_image's does not hold.
[[noreturn]] void broken() { moonlet::fail("it is damaged"); }

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_FAILURE_USERMSG
#define STBI_ASSERT(x) ((x) ? void() : broken())
#define STBI_MALLOC(size) reserved(size)
#define STBI_REALLOC(old, size) reserved_again(old, size)
#define STBI_FREE(p) released(p)
#include <stb/stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#define STBIW_ASSERT(x) ((void)0)
#define STBIW_ZLIB_COMPRESS zlib_stream
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace moonlet::io {
namespace {

// A pixel takes at least a bit of what a deflate stream may grow to.
constexpr uint64_t kPixelsPerByte = uint64_t{1032} * 8;
// And of a JPEG, a block of 8 x 8 takes at least a bit of the bytes of its scans.
constexpr uint64_t kPixelsPerScanByte = uint64_t{64} * 8;
// What a scan takes of the budget for a block: each goes over all of the picture, even where its
// codes say in a few bytes that nothing changes.
constexpr uint64_t kScanBlockBytes = 64;
// What lies behind checksums is what a fuzzer should reach.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kChecksums = false;
#else
constexpr bool kChecksums = true;
#endif
constexpr std::string_view kPngHead("\x89PNG\r\n\x1a\n", 8);

struct Freer {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<unsigned char, Freer>;

const unsigned char* bytes_at(std::string_view data, size_t at) {
  return reinterpret_cast<const unsigned char*>(data.data()) + at;
}

size_t big_endian_16(std::string_view data, size_t at) {
  const unsigned char* b = bytes_at(data, at);
  return size_t{b[0]} << 8 | b[1];
}

uint32_t big_endian_32(std::string_view data, size_t at) {
  const unsigned char* b = bytes_at(data, at);
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
}

// Every chunk, to the last one: its length, name, data and the checksum of name and data.
void check_png(std::string_view data) {
  size_t at = kPngHead.size();
  for (;;) {
    if (data.size() - at < 12) fail("the file is cut off");
    const size_t count = big_endian_32(data, at);
    if (count > data.size() - at - 12) fail("the file is cut off");
    const std::string_view chunk = data.substr(at + 4, count + 4);
    if (kChecksums && checksum(chunk) != big_endian_32(data, at + 8 + count))
      fail("it is damaged: the checksum of a chunk is another");
    if (chunk.substr(0, 4) == "IEND") return;
    at += 12 + count;
  }
}

// What a JPEG has said so far of how its scans are coded: a bit for each table that there is.
struct Coding {
  bool progressive = false;
  unsigned dc_tables = 0, ac_tables = 0;
};

// The tables of codes of a DHT segment, `at` its length: stb trusts that a table has at most 256.
void check_codes(std::string_view data, size_t at, Coding& coding) {
  constexpr size_t kCounts = 16;
  size_t left = big_endian_16(data, at) - size_t{2};
  at += 2;
  while (left > 0) {
    if (left < 1 + kCounts || data.size() - at < left) fail("the tables of a JPEG are damaged");
    size_t codes = 0;
    for (size_t i = 1; i <= kCounts; ++i) codes += *bytes_at(data, at + i);
    if (codes > 256 || left < 1 + kCounts + codes) fail("the tables of a JPEG are damaged");
    const unsigned char position = *bytes_at(data, at);
    (position < 16 ? coding.dc_tables : coding.ac_tables) |= 1u << (position & 15);
    at += 1 + kCounts + codes;
    left -= 1 + kCounts + codes;
  }
}

// The head of a scan, `at` its length: stb trusts that the tables that it names are there.
void check_scan_head(std::string_view data, size_t at, const Coding& coding) {
  const size_t length = big_endian_16(data, at);
  if (length < 3) fail("a scan of a JPEG is damaged");
  const size_t count = *bytes_at(data, at + 2);
  if (length != 6 + 2 * count) fail("a scan of a JPEG is damaged");
  const unsigned char first = *bytes_at(data, at + 3 + 2 * count);
  const bool refines = *bytes_at(data, at + 5 + 2 * count) >= 16;
  const bool uses_dc = !coding.progressive || (first == 0 && !refines);
  const bool uses_ac = !coding.progressive || first > 0;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char tables = *bytes_at(data, at + 4 + 2 * i);
    const bool lacks_dc = (coding.dc_tables >> (tables >> 4) & 1) == 0;
    const bool lacks_ac = (coding.ac_tables >> (tables & 15) & 1) == 0;
    if ((uses_dc && lacks_dc) || (uses_ac && lacks_ac))
      fail("a scan of a JPEG names a table that the file does not have");
  }
}

// The position behind the bytes of a scan that begins at `at`: that of the next marker.
size_t end_of_scan(std::string_view data, size_t at) {
  for (; at + 1 < data.size(); ++at) {
    const unsigned char next = *bytes_at(data, at + 1);
    const bool restart = next >= 0xd0 && next <= 0xd7;
    if (*bytes_at(data, at) == 0xff && next != 0 && next != 0xff && !restart) return at;
  }
  fail("the file is cut off");
}

// The scans of a JPEG: how many, and the bytes of their codes.
struct Scans {
  uint64_t count = 0, bytes = 0;
};

// Every segment up to the marker of the end. A file that is cut off lacks it, and stb would fill
// what is missing.
Scans check_jpeg(std::string_view data) {
  Scans scans;
  Coding coding;
  size_t at = 2;
  for (;;) {
    while (at < data.size() && *bytes_at(data, at) != 0xff) ++at;
    while (at < data.size() && *bytes_at(data, at) == 0xff) ++at;
    if (data.size() - at < 1) fail("the file is cut off");
    const unsigned char marker = *bytes_at(data, at++);
    if (marker == 0xd9) return scans;
    if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue;
    if (data.size() - at < 2) fail("the file is cut off");
    const size_t length = big_endian_16(data, at);
    if (length < 2 || length > data.size() - at) fail("the file is cut off");
    if (marker == 0xc4) check_codes(data, at, coding);
    if (marker == 0xc2) coding.progressive = true;
    if (marker == 0xda) check_scan_head(data, at, coding);
    at += length;
    if (marker != 0xda) continue;
    const size_t start = std::exchange(at, end_of_scan(data, at));
    ++scans.count;
    scans.bytes += at - start;
  }
}

uint32_t little_endian(std::string_view data, size_t at, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = value << 8 | *bytes_at(data, at + static_cast<size_t>(i));
  return value;
}

// stb reads zeros behind the end of a BMP file, whose rows are as long as its head says.
void check_bmp(std::string_view data, int width, int height) {
  constexpr size_t kHead = 34;
  if (data.size() < kHead) fail("the file is cut off");
  const bool old = little_endian(data, 14, 4) == 12;
  const uint64_t bits = little_endian(data, old ? 24 : 28, 2);
  const uint64_t row = (bits * static_cast<uint64_t>(width) + 31) / 32 * 4;
  if (little_endian(data, 10, 4) + row * static_cast<uint64_t>(height) > data.size())
    fail("the file is cut off");
}

// The scans of a JPEG; other formats have none.
std::optional<Scans> check_head(std::string_view data) {
  if (data.substr(0, 3) == "\xff\xd8\xff") return check_jpeg(data);
  if (data.substr(0, kPngHead.size()) == kPngHead)
    check_png(data);
  else if (data.substr(0, 2) != "BM")
    fail("it is no PNG, JPEG, BMP, GIF or WebP file");
  return std::nullopt;
}

// Whether so many pixels can come from the bytes at all; and the work of the scans.
void check_pixels(std::string_view data, const std::optional<Scans>& scans, int width, int height,
                  ReadBudget& budget) {
  const uint64_t pixels = static_cast<uint64_t>(width) * static_cast<uint64_t>(height);
  const bool too_many =
      scans ? pixels / kPixelsPerScanByte > scans->bytes : pixels / kPixelsPerByte > data.size();
  if (too_many)
    fail("its ", width, " x ", height, " pixels cannot come from ", data.size(), " bytes");
  if (data.substr(0, 2) == "BM") check_bmp(data, width, height);
  if (!scans) return;
  // A picture of stb has less than 2^48 pixels.
  const uint64_t of_scan = (pixels / 64 + 1) * kScanBlockBytes;
  if (scans->count > static_cast<uint64_t>(budget.left()) / of_scan) budget.exceed();
  budget.take(scans->count * of_scan);
}

// The pixels that stb found as a tensor of a wider element, which the budget has room for.
template <class To, class From>
Tensor copied(const From* found, const Dims& shape, DType dtype, ReadBudget& budget,
              const char* op) {
  if (found == nullptr) fail("it cannot be read: ", stbi_failure_reason());
  budget.take(sizeof(To) * static_cast<uint64_t>(shape[0] * shape[1] * shape[2]));
  Tensor out = empty_plain(shape, {dtype, {}}, op);
  std::copy_n(found, out.numel(), static_cast<To*>(static_cast<void*>(out.raw())));
  return out;
}

Tensor decode_stb(std::string_view data, PictureMode mode, ReadBudget& budget, const char* op) {
  const std::optional<Scans> scans = check_head(data);
  const Reservations reservations_of_this_call(budget);
  const int size = static_cast<int>(data.size());
  int width = 0, height = 0, channels = 0;
  if (stbi_info_from_memory(bytes_at(data, 0), size, &width, &height, &channels) == 0)
    fail("it cannot be read: ", stbi_failure_reason());
  if (width < 1 || height < 1) fail("it has no pixels");
  check_pixels(data, scans, width, height, budget);
  const bool wide = stbi_is_16_bit_from_memory(bytes_at(data, 0), size) != 0;
  const int given = static_cast<int>(mode);
  const auto shape = [&] { return Dims{height, width, given > 0 ? given : channels}; };
  if (wide) {
    const stbi_us* found =
        stbi_load_16_from_memory(bytes_at(data, 0), size, &width, &height, &channels, given);
    return copied<int32_t>(found, shape(), DType::Int32, budget, op);
  }
  const stbi_uc* found =
      stbi_load_from_memory(bytes_at(data, 0), size, &width, &height, &channels, given);
  return copied<uint8_t>(found, shape(), DType::UInt8, budget, op);
}

Tensor decode(std::string_view data, const PictureOptions& options, ReadBudget& budget,
              const char* op) {
  const bool all = options.all_frames;
  if (data.substr(0, 4) == "GIF8")
    return tensor_of(decode_gif(data, all, budget), options.mode, all, budget, op);
  if (data.size() >= 12 && data.substr(0, 4) == "RIFF" && data.substr(8, 4) == "WEBP")
    return tensor_of(decode_webp(data, all, budget), options.mode, all, budget, op);
  const Tensor picture = decode_stb(data, options.mode, budget, op);
  if (!all) return picture;
  Tensor out = empty_plain({1, picture.size(0), picture.size(1), picture.size(2)},
                           {picture.dtype(), {}}, op);
  budget.take(bytes_of(picture).size());
  std::memcpy(out.raw(), picture.raw(), bytes_of(picture).size());
  return out;
}

// The elements of a picture whose sizes stb can count.
Tensor checked(const Tensor& picture, const char* op) {
  check(picture.dtype() == DType::UInt8 && picture.dim() == 3, op,
        ": a picture is uint8 of three dimensions, got ", name(picture.dtype()), " of shape ",
        picture.sizes());
  check(picture.numel() > 0, op, ": the picture has no pixels: shape ", picture.sizes());
  // Room for the bytes that filters and zlib add.
  check(picture.numel() < std::numeric_limits<int>::max() / 2, op,
        ": the picture is too large: ", picture.sizes());
  return host_rows(picture, op);
}

void append_bytes(void* out, void* data, int count) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(data),
                                         static_cast<size_t>(count));
}

}  // namespace

Picture read_picture(const std::string& path, const PictureOptions& options, const char* op) {
  const InputFile file(path, op);
  try {
    // What stb counts its bytes with.
    if (file.size() > static_cast<uint64_t>(std::numeric_limits<int>::max()))
      fail("it is larger than 2 GiB");
    ReadBudget budget(file.size(), options.max_bytes);
    budget.take(file.size());
    std::string data(file.size(), '\0');
    file.read(0, data.data(), data.size());
    return {decode(data, options, budget, op), exif_orientation(data)};
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    file.refuse(e.what());
  }
}

std::string encode_png(const Tensor& picture, int level, const char* op) {
  const Tensor rows = checked(picture, op);
  const int width = static_cast<int>(rows.size(1));
  const int channels = static_cast<int>(rows.size(2));
  png_level = level;
  int count = 0;
  const auto* pixels = reinterpret_cast<const unsigned char*>(rows.raw());
  const Bytes out(stbi_write_png_to_mem(pixels, width * channels, width,
                                        static_cast<int>(rows.size(0)), channels, &count));
  if (out == nullptr) throw std::bad_alloc();
  return {reinterpret_cast<const char*>(out.get()), static_cast<size_t>(count)};
}

std::string encode_jpeg(const Tensor& picture, int quality, const char* op) {
  const Tensor rows = checked(picture, op);
  constexpr int64_t kLongest = 65535;
  check(rows.size(0) <= kLongest && rows.size(1) <= kLongest, op,
        ": a JPEG has at most 65535 rows and columns, got shape ", rows.sizes());
  std::string out;
  const int done = stbi_write_jpg_to_func(append_bytes, &out, static_cast<int>(rows.size(1)),
                                          static_cast<int>(rows.size(0)),
                                          static_cast<int>(rows.size(2)), rows.raw(), quality);
  if (done == 0) fail(op, ": the picture cannot be written");
  return out;
}

}  // namespace moonlet::io
