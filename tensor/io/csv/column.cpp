// tensor/io/csv/column.cpp: what kind of values the fields of a column are.
#include "tensor/io/csv/column.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/raw_copy.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// What a text takes beside its bytes, here and as a string of a script.
constexpr uint64_t kTextBytes = sizeof(std::string_view) + 64;

bool fits(int64_t value, DType dtype) {
  return value >= smallest_integer(dtype) &&
         (value < 0 || static_cast<uint64_t>(value) <= largest_integer(dtype));
}

}  // namespace

bool is_exact(int64_t value) {
  constexpr int64_t kBound = int64_t{1} << 53;
  return (value >= -kBound && value <= kBound) ||
         (value < std::numeric_limits<int64_t>::max() - 1024 &&
          static_cast<int64_t>(static_cast<double>(value)) == value);
}

std::string_view shown(std::string_view field) {
  constexpr size_t kShownBytes = 40;
  return field.substr(0, kShownBytes);
}

Tensor converted(const Tensor& x, DType dtype, const char* op) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty_plain(x.sizes(), {dtype, {}}, op);
  if (x.dtype() != DType::Float64 || dtype != DType::Float32 || !x.is_contiguous()) {
    raw::copy_(out, x);
    return out;
  }
  // Memory is what this takes time for: a team of threads gains nothing.
  const double* from = x.elements<double>();
  float* to = out.elements<float>();
  for (int64_t start = 0; start < x.numel(); start += kStopBlock) {
    stop_if_requested();
    const int64_t end = std::min(start + kStopBlock, x.numel());
    for (int64_t i = start; i < end; ++i) to[i] = static_cast<float>(from[i]);
  }
  return out;
}

// --- words ---------------------------------------------------------------------------------------

WordSet::WordSet(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.size() >= kSizes) fail("a word that stands for a value has at most 63 bytes");
    words_.push_back(word);
    sizes_.set(word.size());
    if (!word.empty()) first_.set(static_cast<uint8_t>(word[0]));
    const FieldNumber number = number_of(word);
    if (number.form != NumberForm::None) numbers_.push_back(number.real);
  }
}

bool WordSet::listed(std::string_view text) const {
  return std::find(words_.begin(), words_.end(), text) != words_.end();
}

bool WordSet::contains_number(double value) const {
  return std::find(numbers_.begin(), numbers_.end(), value) != numbers_.end();
}

void ValueBuffer::reserve(size_t count) {
  if (count <= room_) return;
  const DType dtype = width_ == sizeof(float) ? DType::Float32 : DType::Float64;
  Tensor more = empty_plain({static_cast<int64_t>(count)}, {dtype, {}}, "read_csv");
  if (size_ > 0) std::memcpy(more.raw(), data_, size_ * width_);
  tensor_ = more;
  data_ = tensor_.raw();
  room_ = count;
}

Tensor ValueBuffer::take(const Dims& sizes, DType dtype, const char* op) {
  constexpr size_t kSmall = size_t{1} << 20;
  Tensor out;
  if (room_ * width_ > kSmall && room_ - size_ < room_ / 16) {
    // A little more room than is needed costs less than another copy.
    Dims strides = sizes;
    int64_t stride = 1;
    for (int i = sizes.size() - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    out = view_of(tensor_.storage(), sizes, strides, 0, dtype, op);
  } else {
    out = empty_plain(sizes, {dtype, {}}, op);
    if (size_ > 0) std::memcpy(out.raw(), data_, size_ * width_);
  }
  clear();
  return out;
}

void CsvColumnBuilder::reserve(size_t rows) {
  expected_ = rows;
  if (kind_ == Kind::Text) texts_.reserve(rows);
  if (values_.size() > 0) values_.reserve(rows);
}

// --- the fields of a column ----------------------------------------------------------------------

FieldNumber CsvColumnBuilder::number_in(const CsvField& field) const {
  const char thousands = rules_->grouped_in_quotes && field.quoted && has_grouped_digits(field.text)
                             ? ','
                             : rules_->thousands;
  return number_of(field.text, rules_->decimal, thousands);
}

void CsvColumnBuilder::add(const CsvField& field, CsvReader& reader) {
  all_blank_ = all_blank_ && field.text.empty();
  if (kind_ == Kind::Again) return;
  if (kind_ == Kind::Text) return add_text(is_missing(field.text) ? "" : field.text, reader);
  if (type_.kind == CsvKind::Date) return add_date(field, reader);
  const bool number_wanted = kind_ != Kind::Bool && type_.kind != CsvKind::Bool;
  if (!number_wanted || field.text.empty() || (missing_->has_numbers() && is_missing(field.text)))
    return add_other(field, reader);
  const FieldNumber number = number_in(field);
  if (number.form == NumberForm::None) return add_other(field, reader);
  if (missing_->has_numbers() && missing_->contains_number(number.real)) return add_missing(reader);
  if (type_.kind == CsvKind::Exact) check_number(number, field, reader);
  add_number(number);
}

void CsvColumnBuilder::add_text(std::string_view text, CsvReader& reader) {
  reader.take(kTextBytes + text.size());
  texts_.push_back(text);
  ++rows_;
}

void CsvColumnBuilder::add_number(const FieldNumber& number) {
  const bool whole = number.form == NumberForm::Whole;
  if (kind_ == Kind::Unknown) {
    kind_ = Kind::Whole;
    if (expected_ > 0) values_.reserve(expected_);
    if (rows_ > 0) missing_before();
  }
  huge_ = huge_ || (kind_ == Kind::Whole && number.form == NumberForm::Huge);
  if (kind_ == Kind::Whole && !whole) become_real();
  ++rows_;
  if (kind_ == Kind::Whole) return values_.push(number.whole);
  values_.push(number.real);
  wide_ = wide_ || !fits_float32(number);
  all_whole_ = all_whole_ && number.form != NumberForm::Real;
  rounded_ = rounded_ || number.form == NumberForm::Huge || (whole && !is_exact(number.whole));
}

// The missing fields before the first that is not, as numbers.
void CsvColumnBuilder::missing_before() {
  kind_ = Kind::Real;
  for (size_t i = 0; i < rows_; ++i) values_.push(kNaN);
}

void CsvColumnBuilder::become_real() {
  kind_ = Kind::Real;
  for (size_t i = 0; i < values_.size(); ++i) {
    FieldNumber number;
    number.whole = values_.data<int64_t>()[i];
    number.real = static_cast<double>(number.whole);
    rounded_ = rounded_ || !is_exact(number.whole);
    wide_ = wide_ || !fits_float32(number);
    values_.data<double>()[i] = number.real;
  }
}

void CsvColumnBuilder::become_text() {
  if (kind_ != Kind::Unknown) {
    kind_ = Kind::Again;
    values_.clear();
    return;
  }
  kind_ = Kind::Text;
  if (expected_ > 0) texts_.reserve(expected_);
  texts_.resize(rows_);
}

void CsvColumnBuilder::add_missing(CsvReader& reader) {
  if (kind_ == Kind::Again) return;
  if (type_.kind == CsvKind::Exact && is_integral(type_.dtype))
    reader.bad_in(name_, "the field is missing, for which ", moonlet::name(type_.dtype),
                  " has no value");
  if (kind_ == Kind::Text) return add_text("", reader);
  if (kind_ == Kind::Bool) return become_text();
  if (kind_ == Kind::Whole) become_real();
  if (kind_ == Kind::Real) values_.push(kNaN);
  ++rows_;
}

// A field that is no number: missing, true or false, or a text.
void CsvColumnBuilder::add_other(const CsvField& field, CsvReader& reader) {
  if (is_missing(field.text)) return add_missing(reader);
  const bool is_true = rules_->trues.contains(field.text);
  const bool is_bool = is_true || rules_->falses.contains(field.text);
  const bool free = type_.kind == CsvKind::Auto || type_.kind == CsvKind::Bool;
  if (is_bool && free && (kind_ == Kind::Bool || (kind_ == Kind::Unknown && rows_ == 0))) {
    kind_ = Kind::Bool;
    values_.push(static_cast<int64_t>(is_true));
    ++rows_;
    return;
  }
  if (type_.kind != CsvKind::Auto) refuse(field, reader);
  become_text();
  if (kind_ == Kind::Text) add_text(field.text, reader);
}

void CsvColumnBuilder::add_date(const CsvField& field, CsvReader& reader) {
  if (is_missing(field.text)) return add_missing(reader);
  const auto moment = date_of(field.text, day_first_ ? rules_->day_first_dates : rules_->dates);
  if (!moment) refuse(field, reader);
  saw_day_first_ = saw_day_first_ || moment->first == Moment::First::Day;
  saw_month_first_ = saw_month_first_ || moment->first == Moment::First::Month;
  saw_either_ = saw_either_ || moment->first == Moment::First::Either;
  if (saw_day_first_ && saw_month_first_)
    reader.bad_in(name_, "'", shown(field.text),
                  "': in some dates of the column the day is first, in others the month");
  FieldNumber number;
  number.form = moment->nanoseconds == 0 ? NumberForm::Whole : NumberForm::Real;
  number.whole = moment->seconds;
  number.real =
      static_cast<double>(moment->seconds) + static_cast<double>(moment->nanoseconds) * 1e-9;
  add_number(number);
}

void CsvColumnBuilder::check_number(const FieldNumber& number, const CsvField& field,
                                    CsvReader& reader) const {
  if (!is_integral(type_.dtype)) return;
  if (number.form != NumberForm::Whole && number.form != NumberForm::Huge)
    reader.bad_in(name_, "'", shown(field.text), "' is no integer");
  if (number.form == NumberForm::Huge || !fits(number.whole, type_.dtype))
    reader.bad_in(name_, "'", shown(field.text), "' does not fit ", moonlet::name(type_.dtype));
}

void CsvColumnBuilder::refuse(const CsvField& field, CsvReader& reader) const {
  const char* const what = type_.kind == CsvKind::Date   ? "date"
                           : type_.kind == CsvKind::Bool ? "true or false"
                                                         : "number";
  reader.bad_in(name_, "'", shown(field.text),
                type_.kind == CsvKind::Bool ? "' is not " : "' is no ", what);
}

// --- the whole column ----------------------------------------------------------------------------

bool CsvColumnBuilder::wants_again(bool dtype_given) {
  const bool free = type_.kind == CsvKind::Auto;
  if (saw_day_first_ && saw_either_ && !day_first_ && !rules_->dates.day_first) {
    day_first_ = true;
    return true;
  }
  if (free && !dtype_given && kind_ == Kind::Real && (huge_ || (rounded_ && all_whole_)))
    become_text();
  return kind_ == Kind::Again;
}

void CsvColumnBuilder::restart() {
  kind_ = kind_ == Kind::Again ? Kind::Text : Kind::Unknown;
  values_.clear();
  rows_ = 0;
}

DType CsvColumnBuilder::target(std::optional<DType> dtype) const {
  if (type_.kind == CsvKind::Exact) return type_.dtype;
  if (kind_ == Kind::Bool) return DType::Bool;
  if (type_.kind == CsvKind::Date) return kind_ == Kind::Whole ? DType::Int64 : DType::Float64;
  if (dtype) return *dtype;
  if (kind_ == Kind::Whole) return DType::Int64;
  const DType usual = execution.default_dtype;
  return usual == DType::Float32 && wide_ ? DType::Float64 : usual;
}

CsvColumn CsvColumnBuilder::finish(std::optional<DType> dtype, const char* op) {
  CsvColumn out;
  out.name = name_;
  out.dates = type_.kind == CsvKind::Date;
  if (kind_ == Kind::Text ||
      (kind_ == Kind::Unknown && rows_ == 0 && type_.kind == CsvKind::Auto)) {
    out.texts = std::move(texts_);
    return out;
  }
  if (kind_ == Kind::Unknown) missing_before();
  const bool real = kind_ == Kind::Real;
  const Tensor all =
      values_.take({static_cast<int64_t>(rows_)}, real ? DType::Float64 : DType::Int64, op);
  out.values = converted(all, target(dtype), op);
  return out;
}

}  // namespace moonlet::io
