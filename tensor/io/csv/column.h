// tensor/io/csv/column.h: a column of a CSV file while its fields come in: of the narrowest kind
// that all of them are.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/io/csv.h"
#include "tensor/io/csv/numbers.h"
#include "tensor/io/csv/reader.h"
#include "tensor/io/dates.h"

namespace moonlet::io {

// A list of words, to find fields in.
class WordSet {
 public:
  WordSet() = default;
  explicit WordSet(const std::vector<std::string>& words);
  bool contains(std::string_view text) const {
    return text.size() < kSizes && sizes_[text.size()] &&
           (text.empty() || first_[static_cast<uint8_t>(text[0])]) && listed(text);
  }
  bool has_numbers() const { return !numbers_.empty(); }
  bool contains_number(double value) const;

 private:
  static constexpr size_t kSizes = 64;
  bool listed(std::string_view text) const;

  std::vector<std::string> words_;
  std::vector<double> numbers_;  // those among the words
  std::bitset<kSizes> sizes_;
  std::bitset<256> first_;
};

// What the columns of a file have in common.
struct CsvRules {
  char decimal = '.', thousands = '\0';
  bool grouped_in_quotes = false;  // "1,234" is a number
  WordSet trues, falses;
  DateOrder dates, day_first_dates;
};

// Values of one size that come one by one, in a tensor, so that what limits an interpreter counts
// them.
class ValueBuffer {
 public:
  explicit ValueBuffer(size_t width = sizeof(double)) : width_(width) {}
  size_t size() const { return size_; }
  void reserve(size_t count);
  // T has the buffer's width.
  template <class T>
  void push(T value) {
    if (size_ == room_) reserve(room_ + room_ / 2 + 16);
    static_cast<T*>(data_)[size_++] = value;
  }
  template <class T>
  T* data() {
    return static_cast<T*>(data_);
  }
  void clear() { *this = ValueBuffer(width_); }
  // The values as a tensor, and the buffer is empty.
  Tensor take(const Dims& sizes, DType dtype, const char* op);

 private:
  Tensor tensor_;
  void* data_ = nullptr;
  size_t width_, size_ = 0, room_ = 0;
};

class CsvColumnBuilder {
 public:
  CsvColumnBuilder(const CsvRules& rules, const WordSet& missing, CsvType type, std::string name)
      : rules_(&rules), missing_(&missing), type_(type), name_(std::move(name)) {
    if (type.kind == CsvKind::Text) kind_ = Kind::Text;
  }

  void add(const CsvField& field, CsvReader& reader);
  // Makes room for so many rows.
  void reserve(size_t rows);
  const std::string& name() const { return name_; }
  // Whether all its fields so far are missing.
  bool is_empty() const { return kind_ == Kind::Unknown && all_blank_; }

  // Whether the column has turned out to be of texts, or of dates with the day first, after fields
  // that were read as something else: then it has to be read again, from a restart().
  bool wants_again(bool dtype_given);
  void restart();
  CsvColumn finish(std::optional<DType> dtype, const char* op);

 private:
  enum class Kind : uint8_t { Unknown, Whole, Real, Bool, Text, Again };
  bool is_missing(std::string_view text) const { return missing_->contains(text); }
  FieldNumber number_in(const CsvField& field) const;
  void add_text(std::string_view text, CsvReader& reader);
  void add_number(const FieldNumber& number);
  void add_missing(CsvReader& reader);
  void add_other(const CsvField& field, CsvReader& reader);
  void add_date(const CsvField& field, CsvReader& reader);
  void missing_before();
  void check_number(const FieldNumber& number, const CsvField& field, CsvReader& reader) const;
  void become_real();
  void become_text();
  [[noreturn]] void refuse(const CsvField& field, CsvReader& reader) const;
  DType target(std::optional<DType> dtype) const;

  const CsvRules* rules_;
  const WordSet* missing_;
  CsvType type_;
  std::string name_;
  Kind kind_ = Kind::Unknown;
  bool all_blank_ = true;   // no field has any text
  bool wide_ = false;       // float32 does not hold all numbers
  bool huge_ = false;       // a number beyond int64 came before any that is not whole
  bool rounded_ = false;    // nor does float64 hold all whole ones
  bool all_whole_ = true;   // no number has a point or an exponent
  bool day_first_ = false;  // of dates that say it neither way
  bool saw_day_first_ = false, saw_month_first_ = false, saw_either_ = false;
  size_t rows_ = 0, expected_ = 0;
  ValueBuffer values_;
  std::vector<std::string_view> texts_;
};

// `x` in another dtype, or itself.
Tensor converted(const Tensor& x, DType dtype, const char* op);
// Whether float64 holds an integer.
bool is_exact(int64_t value);
// The part of a field that messages show.
std::string_view shown(std::string_view field);

}  // namespace moonlet::io
