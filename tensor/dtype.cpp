// tensor/dtype.cpp: dtype names and the promotion lattice.
#include "tensor/dtype.h"

namespace moonlet {

namespace {
constexpr std::string_view kNames[kDTypeCount] = {"bool",    "uint8",   "int8",      "int16",
                                                  "int32",   "int64",   "float16",   "bfloat16",
                                                  "float32", "float64", "complex64", "complex128"};
}  // namespace

std::string_view name(DType t) { return kNames[static_cast<int>(t)]; }

void append(std::string& out, DType t) { out += name(t); }

std::string names(DTypeSet set) {
  std::string out;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!contains(set, static_cast<DType>(i))) continue;
    if (!out.empty()) out += ", ";
    out += kNames[i];
  }
  return out;
}

DType dtype_from_name(std::string_view wanted) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kNames[i] == wanted) return static_cast<DType>(i);
  if (wanted == "float") return DType::Float32;
  if (wanted == "double") return DType::Float64;
  if (wanted == "half") return DType::Float16;
  if (wanted == "int") return DType::Int32;
  if (wanted == "long") return DType::Int64;
  fail("no dtype is named '", wanted, "'; the dtypes are ", names(dtypes::all));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (static_cast<int>(a) > static_cast<int>(b)) std::swap(a, b);
  // Now a < b in the order of the enum, which is the promotion order but for these three cases.
  if (a == DType::UInt8 && b == DType::Int8) return DType::Int16;
  if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
  if (a == DType::Float64 && b == DType::Complex64) return DType::Complex128;
  return b;
}

bool can_cast(DType from, DType to) {
  const auto rank = [](DType t) {
    return is_complex(t) ? 3 : is_floating(t) ? 2 : is_integral(t) ? 1 : 0;
  };
  return rank(from) <= rank(to);
}

DType real_of(DType t) {
  if (t == DType::Complex64) return DType::Float32;
  if (t == DType::Complex128) return DType::Float64;
  return t;
}

DType complex_of(DType t) { return t == DType::Float64 ? DType::Complex128 : DType::Complex64; }

}  // namespace moonlet
