// tensor/core/scalar.cpp: conversions of Scalar and Device that need no inlining.
#include "tensor/core/scalar.h"

#include <cmath>
#include <limits>

#include "tensor/core/device.h"
#include "tensor/core/error.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/streams.h"

namespace moonlet {

int64_t Scalar::to_int() const {
  if (is_int()) return int_;
  if (std::isnan(float_)) return 0;
  if (float_ >= 9223372036854775808.0) return INT64_MAX;
  if (float_ <= -9223372036854775808.0) return INT64_MIN;
  return static_cast<int64_t>(float_);
}

uint64_t Scalar::to_unsigned() const {
  if (is_int() || !(float_ >= 0)) return static_cast<uint64_t>(to_int());
  return float_ >= 18446744073709551616.0 ? UINT64_MAX : static_cast<uint64_t>(float_);
}

DType Scalar::default_dtype() const {
  switch (kind_) {
    case Kind::Bool: return DType::Bool;
    case Kind::Int: return DType::Int64;
    case Kind::Float: return execution.default_dtype;
    default: return complex_of(execution.default_dtype);
  }
}

void append(std::string& out, const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::Bool: out += value.to_bool() ? "true" : "false"; break;
    case Scalar::Kind::Int: append(out, value.to_int()); break;
    case Scalar::Kind::Float: append(out, value.to_double()); break;
    default: {
      const double imag = value.to_complex().imag();
      append(out, value.to_complex().real());
      out += std::signbit(imag) && !std::isnan(imag) ? "" : "+";
      append(out, imag);
      out += "i";
    }
  }
}

void check_fits(const Scalar& value, DType dtype, const char* op) {
  if (!is_integral(dtype) || value.is_complex()) return;
  const int64_t least = smallest_integer(dtype);
  const uint64_t most = largest_integer(dtype);
  bool fits = false;
  if (value.is_int()) {
    const int64_t v = value.to_int();
    fits = v >= least && (v < 0 || static_cast<uint64_t>(v) <= most);
  } else {
    // The bound above is a power of two, which a double holds exactly; it stands for uint64's
    // largest, the float that Lua makes of that number.
    const uint64_t half = most / 2 + 1;
    const double v = value.to_double(), bound = static_cast<double>(half) * 2;
    const bool below = v < bound || (v == bound && most == UINT64_MAX);
    fits = (v > static_cast<double>(least) - 1 && below) || v == static_cast<double>(least);
  }
  if (!fits) fail(op, ": ", value, " does not fit dtype ", dtype);
}

std::string name(Device device) {
  device = device.real();
  if (device.is_cpu()) return name(device.type);
  return text(name(device.type), ":", static_cast<int>(device.index));
}

void append(std::string& out, Device device) { out += name(device); }
void append(std::string& out, DeviceType type) { out += name(type); }

DeviceType device_type_from_name(std::string_view wanted) {
  if (const auto found = find_device_type(wanted)) return *found;
  std::string known;
  for (const DeviceType type : device_types())
    known += text(known.empty() ? "" : ", ", "\"", name(type), "\"");
  fail("no device type is named '", wanted, "'; there are ", known);
}

namespace {
// The parts of "NAME:NUMBER" or "NAME"; the number is -1 where there is none.
struct NamedDevice {
  std::optional<DeviceType> type;
  int index = -1;
};
NamedDevice parts_of(std::string_view text) {
  const size_t colon = text.find(':');
  NamedDevice out{find_device_type(text.substr(0, colon))};
  if (colon == text.npos) return out;
  const std::string_view number = text.substr(colon + 1);
  if (number.empty() || number.size() > 2 || out.type == DeviceType::CPU) return {};
  out.index = 0;
  for (const char c : number) {
    if (c < '0' || c > '9') return {};
    out.index = out.index * 10 + (c - '0');
  }
  return out;
}
}  // namespace

bool names_device(std::string_view text) {
  return find_device_type(text.substr(0, text.find(':'))).has_value();
}

Device device_from_name(std::string_view wanted) {
  const NamedDevice found = parts_of(wanted);
  if (found.type && found.index >= 0) return {*found.type, static_cast<int8_t>(found.index)};
  if (found.type) return current_device(*found.type);
  std::string forms;
  for (const DeviceType type : device_types())
    if (type != DeviceType::CPU) forms += text(", \"", name(type), "\" or \"", name(type), ":N\"");
  fail("no device is named '", wanted, "'; a device is \"cpu\"", forms);
}

}  // namespace moonlet
