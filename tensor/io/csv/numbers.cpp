// tensor/io/csv/numbers.cpp: reads numbers; the usual ones in one pass over their digits.
#include "tensor/io/csv/numbers.h"

#include <cmath>
#include <limits>
#include <string>

#include "tensor/core/platform/charconv.h"

namespace moonlet::io {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool same_word(std::string_view text, std::string_view word) {
  if (text.size() != word.size()) return false;
  for (size_t i = 0; i < text.size(); ++i)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

// The parts of a number, as the digits are passed.
struct Scan {
  bool negative = false;
  uint64_t mantissa = 0;  // of the first kMost digits
  int64_t digits = 0;     // of the mantissa, without leading zeros
  int64_t dropped = 0;    // whole digits behind those
  int64_t fraction = 0;   // digits of the mantissa behind the point
  int64_t power = 0;      // of the exponent
  bool any = false, point = false, exponent = false;
};

// A mantissa of so many digits is below 2^64.
constexpr int64_t kMost = 19;
// Powers of ten up to this one are float64s, and so are mantissas up to 2^53: one operation on
// them is rounded as the number itself.
constexpr int64_t kExactPower = 22;
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int64_t kPowerBound = 1000000;  // larger exponents differ in nothing

void take_digit(Scan& s, char c) {
  s.any = true;
  if (s.digits < kMost) {
    s.mantissa = s.mantissa * 10 + static_cast<uint64_t>(c - '0');
    if (s.mantissa != 0) ++s.digits;
    if (s.point) ++s.fraction;
  } else if (!s.point) {
    ++s.dropped;
  }
}

// The exponent behind its letter; false where it has no digits.
bool take_exponent(Scan& s, const char* p, const char* end) {
  bool negative = false;
  if (p < end && (*p == '+' || *p == '-')) negative = *p++ == '-';
  if (p == end) return false;
  for (; p < end; ++p) {
    if (!is_digit(*p)) return false;
    if (s.power < kPowerBound) s.power = s.power * 10 + (*p - '0');
  }
  if (negative) s.power = -s.power;
  s.exponent = true;
  return true;
}

bool scan_number(Scan& s, const char* p, const char* end, char decimal, char thousands) {
  for (; p < end; ++p) {
    if (is_digit(*p)) {
      take_digit(s, *p);
    } else if (*p == decimal && !s.point) {
      s.point = true;
    } else if (thousands != '\0' && *p == thousands && s.any && !s.point) {
      continue;
    } else {
      break;
    }
  }
  if (!s.any) return false;
  if (p == end) return true;
  return (*p == 'e' || *p == 'E') && take_exponent(s, p + 1, end);
}

// What is no plain run of digits goes through the library, written as it wants it.
double by_library(const Scan& s, const char* p, const char* end, char decimal, char thousands,
                  bool& out_of_range) {
  std::string copy;
  if (decimal != '.' || thousands != '\0') {
    bool fraction = false;
    for (; p < end; ++p) {
      fraction = fraction || *p == decimal;
      if (*p == thousands && !fraction) continue;
      copy += *p == decimal ? '.' : *p;
    }
    p = copy.data();
    end = p + copy.size();
  }
  double value = 0;
  if (platform::from_chars(p, end, value).ec != std::errc::result_out_of_range) return value;
  out_of_range = true;
  return s.digits + s.dropped - s.fraction + s.power > 0 ? std::numeric_limits<double>::infinity()
                                                         : 0.0;
}

double real_value(const Scan& s, const char* p, const char* end, char decimal, char thousands,
                  bool& out_of_range) {
  const int64_t power = s.power - s.fraction;
  const bool exact = s.digits < kMost && s.mantissa <= (uint64_t{1} << 53);
  if (exact && s.mantissa == 0) return 0;
  if (exact && power >= -kExactPower && power <= kExactPower) {
    const double mantissa = static_cast<double>(s.mantissa);
    return power < 0 ? mantissa / kPowers[-power] : mantissa * kPowers[power];
  }
  return by_library(s, p, end, decimal, thousands, out_of_range);
}

// Most numbers: a few digits, perhaps with a point. False for all others.
bool take_short(FieldNumber& out, const char* p, const char* end, bool negative, char decimal) {
  if (end - p > kMost || p == end) return false;
  uint64_t mantissa = 0;
  const char* const start = p;
  for (; p < end && is_digit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
  const int64_t whole = p - start;
  if (p == end) {
    if (whole == kMost) return false;
    out.form = NumberForm::Whole;
    out.whole = static_cast<int64_t>(negative ? 0 - mantissa : mantissa);
    out.real = static_cast<double>(mantissa);
  } else {
    if (*p++ != decimal) return false;
    const char* const point = p;
    for (; p < end && is_digit(*p); ++p) mantissa = mantissa * 10 + static_cast<uint64_t>(*p - '0');
    const int64_t fraction = p - point;
    if (p < end || whole + fraction == 0 || mantissa > (uint64_t{1} << 53)) return false;
    out.form = NumberForm::Real;
    out.real = static_cast<double>(mantissa) / kPowers[fraction];
  }
  if (negative) out.real = -out.real;
  return true;
}

}  // namespace

FieldNumber number_of(std::string_view field, char decimal, char thousands) {
  FieldNumber out;
  const char* p = field.data();
  const char* end = p + field.size();
  while (p < end && is_blank(*p)) ++p;
  while (p < end && is_blank(end[-1])) --end;
  Scan s;
  if (p < end && (*p == '+' || *p == '-')) s.negative = *p++ == '-';
  if (take_short(out, p, end, s.negative, decimal)) return out;
  if (!scan_number(s, p, end, decimal, thousands)) {
    const std::string_view word(p, static_cast<size_t>(end - p));
    if (s.any || (!same_word(word, "inf") && !same_word(word, "infinity"))) return out;
    out.form = NumberForm::Real;
    out.real = std::numeric_limits<double>::infinity();
  } else if (s.point || s.exponent) {
    out.form = NumberForm::Real;
    out.exponent = s.exponent;
    out.real = real_value(s, p, end, decimal, thousands, out.out_of_range);
  } else {
    const uint64_t most = (uint64_t{1} << 63) - (s.negative ? 0 : 1);
    const bool whole = s.dropped == 0 && s.mantissa <= most;
    out.form = whole ? NumberForm::Whole : NumberForm::Huge;
    out.whole = whole ? static_cast<int64_t>(s.negative ? 0 - s.mantissa : s.mantissa) : 0;
    out.real = s.dropped == 0 ? static_cast<double>(s.mantissa)
                              : by_library(s, p, end, decimal, thousands, out.out_of_range);
  }
  if (s.negative) out.real = -out.real;
  return out;
}

bool has_grouped_digits(std::string_view field) {
  if (!field.empty() && (field[0] == '-' || field[0] == '+')) field.remove_prefix(1);
  const std::string_view whole = field.substr(0, field.find('.'));
  size_t digits = 0, groups = 0;
  for (const char c : whole) {
    if (c == ',') {
      if (digits == 0 || digits > 3 || (groups > 0 && digits != 3)) return false;
      ++groups;
      digits = 0;
    } else if (is_digit(c)) {
      ++digits;
    } else {
      return false;
    }
  }
  return groups > 0 && digits == 3;
}

bool fits_float32(const FieldNumber& number) {
  constexpr double kExactBound = 1 << 24;
  const double size = std::fabs(number.real);
  if (size == 0 || std::isinf(size)) return !number.out_of_range;
  if (size > static_cast<double>(std::numeric_limits<float>::max()) ||
      size < static_cast<double>(std::numeric_limits<float>::min()))
    return false;
  return size <= kExactBound || number.exponent ||
         static_cast<double>(static_cast<float>(number.real)) == number.real;
}

}  // namespace moonlet::io
