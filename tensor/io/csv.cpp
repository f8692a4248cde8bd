// tensor/io/csv.cpp: CSV files as one tensor of numbers, or as texts.
#include "tensor/io/csv.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensor/io/csv/column.h"
#include "tensor/io/csv/layout.h"
#include "tensor/io/csv/reader.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// What a field takes in the list of numbers, as it grows, and in tensors; and as a text.
constexpr uint64_t kNumberBytes = 32, kTextBytes = 64;
// The elements of a row between two looks at the stop flag.
constexpr size_t kStopElements = 4096;

// Reads all rows of a file into one list.
class NumbersReader {
 public:
  NumbersReader(const std::string& path, const CsvReadOptions& options, const char* op)
      : options_(options),
        op_(op),
        file_(path, options, kLettersAndDigits, false, op),
        missing_(options.missing) {}
  CsvNumbers read();

 private:
  // How the values are kept while they come: as the default dtype, if that is float32; so that none
  // loses digits, as float64; or as int64.
  enum class Held : uint8_t { Single, Double, Integer };

  void choose_columns();
  void read_rows();
  void add_row(const std::vector<CsvField>& fields);
  void add(const CsvField& field, int64_t column);
  bool add_integer(const FieldNumber& number, bool missing, std::string_view text, int64_t column);
  bool add_real(const FieldNumber& number, bool missing, std::string_view text, int64_t column);
  void push(double value) {
    if (held_ == Held::Single)
      values_.push(static_cast<float>(value));
    else
      values_.push(value);
  }
  void reserve(size_t start);
  void hold(Held held);
  DType chosen_dtype() const;
  void check_fit(const Tensor& integers, DType dtype) const;

  const CsvReadOptions& options_;
  const char* const op_;
  CsvFile file_;
  const WordSet missing_;
  CsvLayout layout_;
  std::vector<std::string> names_;
  std::vector<size_t> columns_;  // those of the file that are read
  ValueBuffer values_;
  int64_t rows_ = 0;
  Held held_ = Held::Double;
  bool all_whole_ = true, wide_ = false;  // of the numbers: float32 does not hold them
  int64_t rounded_line_ = 0;              // of a whole number that float64 does not hold
};

bool is_nan_word(std::string_view text) {
  if (text.size() == 4 && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() == 3 && (text[0] | 32) == 'n' && (text[1] | 32) == 'a' &&
         (text[2] | 32) == 'n';
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

void NumbersReader::choose_columns() {
  names_ = options_.names.empty() ? layout_.header : options_.names;
  std::vector<bool> use(layout_.width);
  for (const int64_t column : options_.use_columns) {
    if (column < 0 || column >= static_cast<int64_t>(use.size()))
      fail(op_, ": 'usecols': there is no column ", column + 1, "; the file has ", use.size());
    use[static_cast<size_t>(column)] = true;
  }
  for (const std::string& name : options_.use_names) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) fail(op_, ": 'usecols': there is no column '", name, "'");
    use[static_cast<size_t>(at - names_.begin())] = true;
  }
  const bool all = options_.use_columns.empty() && options_.use_names.empty();
  std::vector<std::string> used_names;
  for (size_t i = 0; i < use.size(); ++i) {
    if (!all && !use[i]) continue;
    columns_.push_back(i);
    if (i < names_.size()) used_names.push_back(names_[i]);
  }
  if (!all) names_ = std::move(used_names);
}

bool NumbersReader::add_integer(const FieldNumber& number, bool missing, std::string_view text,
                                int64_t column) {
  if (missing) file_.reader.bad(column, "the field is missing, for which integers have no value");
  if (number.form == NumberForm::Huge)
    file_.reader.bad(column, "'", shown(text), "' is out of range");
  if (number.form != NumberForm::Whole) return false;
  values_.push(number.whole);
  return true;
}

bool NumbersReader::add_real(const FieldNumber& number, bool missing, std::string_view text,
                             int64_t column) {
  if (missing || (number.form == NumberForm::None && is_nan_word(without_blanks(text)))) {
    all_whole_ = false;
    push(std::numeric_limits<double>::quiet_NaN());
    return true;
  }
  if (number.form == NumberForm::None) return false;
  if (number.out_of_range) file_.reader.bad(column, "'", shown(text), "' is out of range");
  wide_ = wide_ || !fits_float32(number);
  all_whole_ = all_whole_ && number.form == NumberForm::Whole;
  const bool rounded = number.form == NumberForm::Huge ||
                       (number.form == NumberForm::Whole && !is_exact(number.whole));
  if (rounded && rounded_line_ == 0) rounded_line_ = file_.reader.line();
  push(number.real);
  return true;
}

void NumbersReader::add(const CsvField& field, int64_t column) {
  const CsvRules& rules = file_.rules;
  const bool grouped = rules.grouped_in_quotes && field.quoted && has_grouped_digits(field.text);
  const FieldNumber number = number_of(field.text, rules.decimal, grouped ? ',' : rules.thousands);
  const bool missing =
      missing_.contains(field.text) || (missing_.has_numbers() && number.form != NumberForm::None &&
                                        missing_.contains_number(number.real));
  const bool integers = held_ == Held::Integer;
  if (integers ? add_integer(number, missing, field.text, column)
               : add_real(number, missing, field.text, column))
    return;
  if (without_blanks(field.text).empty()) file_.reader.bad(column, "the field is empty");
  file_.reader.bad(column, "'", shown(field.text), "' is no ", integers ? "integer" : "number",
                   file_.reader.line() == 1 ? "; is the first line a header? (header = true)" : "");
}

void NumbersReader::add_row(const std::vector<CsvField>& fields) {
  const size_t width = layout_.width;
  const bool all = columns_.size() == width;
  if (fields.size() != width && (all || fields.size() < width) &&
      (fields.size() > width || !missing_.contains(""))) {
    if (options_.on_bad_lines != CsvBadLines::Error) return;
    file_.reader.bad(0, fields.size(), " fields where the lines before have ", width);
  }
  file_.reader.take(columns_.size() * kNumberBytes);
  static const CsvField kNone;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i % kStopElements == kStopElements - 1) stop_if_requested();
    const size_t column = columns_[i];
    add(column < fields.size() ? fields[column] : kNone, static_cast<int64_t>(column) + 1);
  }
  ++rows_;
}

// Makes room for all rows, by the length of those that are read.
void NumbersReader::reserve(size_t start) {
  const size_t left = file_.reader.left();
  const size_t more = left / std::max<size_t>((start - left) / static_cast<size_t>(rows_), 1);
  const size_t count = (static_cast<size_t>(rows_) + more + more / 32 + 1) * columns_.size();
  if (file_.budget.has(count * sizeof(double))) values_.reserve(count);
}

// Reads the rows; as floats only as long as those do.
void NumbersReader::read_rows() {
  constexpr int64_t kSampleRows = 256;
  CsvReader& reader = file_.reader;
  reader.go_to(layout_.data);
  const int64_t most = rows_wanted(reader, options_);
  const size_t start = reader.left();
  std::vector<CsvField> fields;
  while ((most < 0 || rows_ < most) && reader.next_record(fields)) {
    add_row(fields);
    if (rows_ == kSampleRows && most < 0) reserve(start);
    if (wide_ && held_ == Held::Single && !options_.dtype) return;
  }
}

// Reads the rows again, as other values.
void NumbersReader::hold(Held held) {
  held_ = held;
  rows_ = 0;
  values_ = ValueBuffer(held == Held::Single ? sizeof(float) : sizeof(double));
  read_rows();
}

// Without the option: the default dtype, unless float32 would lose digits that the file has.
DType NumbersReader::chosen_dtype() const {
  if (options_.dtype) return *options_.dtype;
  const DType usual = execution.default_dtype;
  if (!wide_ || usual != DType::Float32) return usual;
  return all_whole_ ? DType::Int64 : DType::Float64;
}

void NumbersReader::check_fit(const Tensor& integers, DType dtype) const {
  visit<dtypes::integral>(dtype, [&]<class T>() {
    const int64_t* values = integers.elements<int64_t>();
    for (int64_t i = 0; i < integers.numel(); ++i) {
      if (i % kStopBlock == 0) stop_if_requested();
      if (values[i] < std::numeric_limits<T>::min() || values[i] > std::numeric_limits<T>::max())
        fail(op_, ": '", file_.path, "' has numbers that do not fit ", name(dtype));
    }
  });
}

CsvNumbers NumbersReader::read() {
  layout_ = layout_of(file_.reader, options_);
  choose_columns();
  const DType asked = options_.dtype.value_or(execution.default_dtype);
  hold(is_integral(asked) ? Held::Integer : asked == DType::Float32 ? Held::Single : Held::Double);
  if (wide_ && held_ == Held::Single && !options_.dtype) hold(Held::Double);
  if (rows_ == 0) fail(op_, ": '", file_.path, "' has no rows");
  const DType dtype = chosen_dtype();
  if (!options_.dtype && rounded_line_ != 0 && dtype != DType::Int64)
    fail(op_, ": '", file_.path, "', line ", rounded_line_,
         ": a whole number has more digits than ", name(dtype),
         " beside numbers that are not whole (dtype = \"float64\" rounds it, ",
         "read_table keeps the columns apart)");
  if (dtype == DType::Int64 && held_ != Held::Integer) hold(Held::Integer);
  const DType held = held_ == Held::Integer  ? DType::Int64
                     : held_ == Held::Single ? DType::Float32
                                             : DType::Float64;
  const Tensor all = values_.take({rows_, static_cast<int64_t>(columns_.size())}, held, op_);
  if (held_ == Held::Integer) check_fit(all, dtype);
  return {converted(all, dtype, op_), std::move(names_)};
}

}  // namespace

CsvNumbers read_csv(const std::string& path, const CsvReadOptions& options, const char* op) {
  return NumbersReader(path, options, op).read();
}

CsvTexts read_csv_texts(const std::string& path, const CsvReadOptions& options, const char* op) {
  CsvFile file(path, options, kDigits, false, op);
  const CsvLayout layout = layout_of(file.reader, options);
  file.reader.go_to(layout.data);
  CsvTexts out;
  out.names = layout.header;
  out.columns.resize(layout.width);
  std::vector<CsvField> fields;
  while (file.reader.next_record(fields)) {
    if (fields.size() != layout.width)
      file.reader.bad(0, fields.size(), " fields where the lines before have ", layout.width);
    for (size_t i = 0; i < fields.size(); ++i) {
      file.reader.take(kTextBytes + fields[i].text.size());
      out.columns[i].emplace_back(fields[i].text);
    }
    out.lines.push_back(file.reader.line());
  }
  if (out.lines.empty()) fail(op, ": '", path, "' has no rows");
  return out;
}

}  // namespace moonlet::io
