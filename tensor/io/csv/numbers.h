// tensor/io/csv/numbers.h: the numbers that fields of CSV files are, whatever the locale.
#pragma once

#include <cstdint>
#include <string_view>

namespace moonlet::io {

enum class NumberForm : uint8_t {
  None,   // no number
  Whole,  // digits alone, within int64
  Huge,   // digits alone, beyond int64
  Real,   // with a decimal point or an exponent, or an infinity
};

struct FieldNumber {
  NumberForm form = NumberForm::None;
  bool exponent = false;      // written with one
  bool out_of_range = false;  // of float64: `real` is then 0 or an infinity
  int64_t whole = 0;          // of Whole
  double real = 0;            // the nearest float64, of all forms
};

// Blanks around the number do not count. Characters `thousands` before the decimal point are passed
// over; 0 stands for none.
FieldNumber number_of(std::string_view field, char decimal = '.', char thousands = '\0');

// Whether a field is a number whose digits stand in groups of three with commas between: "1,234.5".
bool has_grouped_digits(std::string_view field);

// Whether float32 keeps what a person wrote: of numbers beyond 2^24 that are written without an
// exponent all digits, of others their first seven.
bool fits_float32(const FieldNumber& number);

}  // namespace moonlet::io
