// tensor/core/scalar.h: one number of any kind, as a script writes it: it remembers whether it was
// a bool, an integer, a float or a complex, because that decides type promotion.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "tensor/core/dtype.h"

namespace moonlet {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float, Complex };

  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool v) : kind_(Kind::Bool), int_(v) {}
  Scalar(int v) : Scalar(static_cast<int64_t>(v)) {}
  Scalar(int64_t v) : kind_(Kind::Int), int_(v) {}
  Scalar(double v) : kind_(Kind::Float), float_(v) {}
  Scalar(complex128 v) : kind_(Kind::Complex), float_(v.real()), imag_(v.imag()) {}
  // An element of any dtype. As in Lua, an integer beyond int64 is a float.
  template <class T>
  static Scalar of(T v) {
    if constexpr (is_complex_v<T>)
      return Scalar(complex128(v));
    else if constexpr (std::is_same_v<T, bool>)
      return Scalar(v);
    else if constexpr (std::is_same_v<T, uint64_t>)
      return v <= uint64_t{INT64_MAX} ? Scalar(static_cast<int64_t>(v))
                                      : Scalar(static_cast<double>(v));
    else if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<int64_t>(v));
    else
      return Scalar(static_cast<double>(v));
  }

  Kind kind() const { return kind_; }
  bool is_complex() const { return kind_ == Kind::Complex; }
  bool is_float() const { return kind_ == Kind::Float; }
  bool is_int() const { return kind_ == Kind::Int || kind_ == Kind::Bool; }

  double to_double() const { return is_int() ? static_cast<double>(int_) : float_; }
  complex128 to_complex() const { return {to_double(), imag_}; }
  // Truncates toward zero; out-of-range values saturate and NaN becomes 0.
  int64_t to_int() const;
  // The same as uint64; negative values wrap.
  uint64_t to_unsigned() const;
  bool to_bool() const { return is_int() ? int_ != 0 : float_ != 0 || imag_ != 0; }

  // The value as T (any dtype's C++ type).
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>)
      return to_bool();
    else if constexpr (is_complex_v<T>)
      return static_cast<T>(to_complex());
    else if constexpr (std::is_same_v<T, uint64_t>)
      return to_unsigned();
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(to_int());
    else
      return static_cast<T>(static_cast<float_for<T>>(to_double()));
  }

  // The dtype a tensor made of this scalar alone has: bool, int64, the default dtype of
  // execution.h, or the complex dtype that goes with it.
  DType default_dtype() const;

 private:
  template <class T>
  using float_for = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Kind kind_;
  union {
    int64_t int_;
    double float_;
  };
  double imag_ = 0;
};

void append(std::string& out, const Scalar& value);

// Throws naming `op` when an element of `dtype` cannot be `value`: an integer dtype holds only its
// range. Fractions are cut off, and wide floats become infinite, as conversions do.
void check_fits(const Scalar& value, DType dtype, const char* op);

}  // namespace moonlet
