// tensor/io/bytes.cpp: elements brought to the host's memory, and bytes that come from anybody.
#include "tensor/io/bytes.h"

#include <bit>

#include "tensor/raw_copy.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {

static_assert(std::endian::native == std::endian::little,
              "the byte formats are little-endian, as all supported machines are");

Tensor host_rows(const Tensor& x, const char* op) {
  if (x.device() == Device{} && x.is_contiguous()) return x;
  Tensor out = empty_plain(x.sizes(), {x.dtype(), {}}, op);
  raw::copy_(out, x);
  return out;
}

std::string_view bytes_of(const Tensor& rows) {
  if (rows.numel() == 0) return "";
  return {rows.raw(), static_cast<size_t>(rows.numel()) * size_of(rows.dtype())};
}

void check_bool_bytes(const Tensor& x, const std::string& what) {
  if (x.dtype() != DType::Bool) return;
  const char* bytes = x.raw();
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (i % kStopBlock == 0) stop_if_requested();
    if (static_cast<unsigned char>(bytes[i]) > 1)
      fail(what, ": byte ", i + 1, " of bool data is neither 0 nor 1");
  }
}

}  // namespace moonlet::io
