// tensor/io/deflate.cpp: raw deflate streams by zlib, in blocks between which a stop is noticed.
#include "tensor/io/deflate.h"

#include <algorithm>
#include <new>

#include <zlib.h>

#include "tensor/core/error.h"
#include "tensor/io/files.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// Negative window bits: a stream without zlib's own header.
constexpr int kRawWindow = -15;
constexpr int kMemoryLevel = 8;

unsigned block_of(size_t left) { return static_cast<unsigned>(std::min(left, kMaxAtOnce)); }

// zlib reads through a pointer that is not const.
unsigned char* input_of(const char* bytes) {
  return reinterpret_cast<unsigned char*>(const_cast<char*>(bytes));
}

struct Inflater {
  z_stream z{};
  Inflater() {
    if (inflateInit2(&z, kRawWindow) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&z); }
};

struct Deflater {
  z_stream z{};
  Deflater() {
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kRawWindow, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&z); }
};

// Compresses what `z` has as input, to its end where `flush` says so.
void run(z_stream& z, int flush, std::vector<char>& block, std::string& out) {
  do {
    z.next_out = reinterpret_cast<unsigned char*>(block.data());
    z.avail_out = static_cast<unsigned>(block.size());
    ::deflate(&z, flush);
    out.append(block.data(), block.size() - z.avail_out);
  } while (z.avail_out == 0);
}

}  // namespace

void inflate(std::string_view stream, void* out, size_t size) {
  Inflater inflater;
  z_stream& z = inflater.z;
  // One byte more than there should be shows a stream that is too long.
  unsigned char beyond = 0;
  z.next_out = static_cast<unsigned char*>(out);
  size_t to_write = size;
  size_t to_read = stream.size();
  z.next_in = input_of(stream.data());
  int state = Z_OK;
  while (state == Z_OK) {
    stop_if_requested();
    if (z.avail_in == 0) to_read -= z.avail_in = block_of(to_read);
    if (z.avail_out == 0 && to_write > 0) {
      to_write -= z.avail_out = block_of(to_write);
    } else if (z.avail_out == 0) {
      if (z.next_out == &beyond + 1) break;
      z.next_out = &beyond;
      z.avail_out = 1;
    }
    state = ::inflate(&z, Z_NO_FLUSH);
  }
  if (state == Z_MEM_ERROR) throw std::bad_alloc();
  if (state != Z_STREAM_END || z.total_out != size) fail("compressed data are damaged");
}

std::string deflate(const std::vector<std::string_view>& parts) {
  Deflater deflater;
  z_stream& z = deflater.z;
  std::vector<char> block(size_t{1} << 18);
  std::string out;
  for (std::string_view part : parts) {
    while (!part.empty()) {
      stop_if_requested();
      z.next_in = input_of(part.data());
      z.avail_in = block_of(part.size());
      part.remove_prefix(z.avail_in);
      run(z, Z_NO_FLUSH, block, out);
    }
  }
  run(z, Z_FINISH, block, out);
  return out;
}

}  // namespace moonlet::io
