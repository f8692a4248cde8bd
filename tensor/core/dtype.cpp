// tensor/core/dtype.cpp: dtypes in text, and from the names scripts use.
#include "tensor/core/dtype.h"

namespace moonlet {

namespace {
// Short names that PyTorch has too.
constexpr struct {
  std::string_view name;
  DType dtype;
} kAliases[] = {{"float", DType::Float32},
                {"double", DType::Float64},
                {"half", DType::Float16},
                {"int", DType::Int32},
                {"long", DType::Int64}};
}  // namespace

void append(std::string& out, DType t) { out += name(t); }

std::string names(DTypeSet set) {
  std::string out;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!contains(set, static_cast<DType>(i))) continue;
    if (!out.empty()) out += ", ";
    out += kDTypes[i].name;
  }
  return out;
}

void refuse_visit(DType t, DTypeSet set) { fail("dtype ", name(t), " is not one of ", names(set)); }

void refuse_promotion(const char* op, DType a, DType b) {
  const bool is_float8 =
      contains(dtypes::storage_floating, a) || contains(dtypes::storage_floating, b);
  fail(op ? op : "", op ? ": " : "", "no dtype holds both ", name(a), " and ", name(b), ": ",
       is_float8 ? "8-bit floats are not promoted" : "uint16, uint32 and uint64 promote to floats",
       "; convert one with :to(dtype)");
}

DType dtype_from_name(std::string_view wanted) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].name == wanted) return static_cast<DType>(i);
  for (const auto& alias : kAliases)
    if (alias.name == wanted) return alias.dtype;
  fail("no dtype is named '", wanted, "'; the dtypes are ", names(dtypes::any));
}

}  // namespace moonlet
