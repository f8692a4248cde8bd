// tensor/io/csv.cpp: CSV files as numbers or as texts, and numbers as CSV files.
#include "tensor/io/csv.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/execution.h"
#include "tensor/interrupt.h"
#include "tensor/io/bytes.h"
#include "tensor/io/csv_reader.h"
#include "tensor/io/files.h"
#include "tensor/io/read_budget.h"
#include "tensor/raw_copy.h"

namespace moonlet::io {
namespace {

constexpr std::string_view kDigits = "0123456789";
// What numbers are written with: also "inf", "nan" and exponents.
constexpr std::string_view kLettersAndDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// What a field takes while its line is read, in the list of numbers and in tensors; and what it
// takes as a text, here and in a table of a script.
constexpr uint64_t kNumberBytes = 48, kTextBytes = 128;

// The elements of a row between two looks at the stop flag.
constexpr int64_t kStopElements = 4096;

// The separator, when it is one character that the format does not use, nor one of `taken`.
char checked_separator(const std::string& separator, std::string_view taken, const char* op) {
  constexpr std::string_view kSyntax = "\"\n\r+-.";
  if (separator.size() != 1 || kSyntax.find(separator[0]) != kSyntax.npos ||
      taken.find(separator[0]) != taken.npos)
    fail(op, ": 'separator' must be one character that no number has");
  return separator[0];
}

// --- reading -------------------------------------------------------------------------------------

std::string_view shown(std::string_view field) {
  constexpr size_t kShownBytes = 40;
  return field.substr(0, kShownBytes);
}

template <class T>
T number_in(const CsvReader& reader, std::string_view field, int64_t column) {
  if (field.empty()) reader.bad(column, "the field is empty");
  std::string_view digits = field;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    reader.bad(column, "'", shown(field), "' is out of range");
  if (error != std::errc() || end != digits.data() + digits.size())
    reader.bad(column, "'", shown(field), "' is no ",
               std::is_same_v<T, double> ? "number" : "integer",
               reader.line() == 1 ? "; is the first line a header? (header = true)" : "");
  return value;
}

// Calls f(fields) for each record behind the header, whose names it returns.
template <class F>
std::vector<std::string> each_row(CsvReader& reader, const std::string& path, bool header,
                                  const char* op, F&& f) {
  std::vector<std::string_view> fields;
  std::vector<std::string> names;
  if (header && !reader.done()) {
    reader.next_record(fields);
    names.assign(fields.begin(), fields.end());
  }
  if (reader.done()) fail(op, ": '", path, "' has no rows");
  while (!reader.done()) {
    reader.next_record(fields);
    f(fields);
  }
  return names;
}

template <class T>
CsvNumbers read_numbers(CsvReader& reader, const std::string& path, bool header, const char* op) {
  std::vector<T> values;
  int64_t rows = 0;
  CsvNumbers out;
  out.names = each_row(reader, path, header, op, [&](const auto& fields) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i % static_cast<size_t>(kStopElements) == 0) stop_if_requested();
      values.push_back(number_in<T>(reader, fields[i], static_cast<int64_t>(i) + 1));
    }
    ++rows;
  });
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  out.values = empty_plain({rows, columns}, {dtype_of<T>, {}}, op);
  std::memcpy(out.values.raw(), values.data(), values.size() * sizeof(T));
  return out;
}

Tensor converted(const Tensor& x, DType dtype, const char* op) {
  if (x.dtype() == dtype) return x;
  Tensor out = empty_plain(x.sizes(), {dtype, {}}, op);
  raw::copy_(out, x);
  return out;
}

bool all_fit(const Tensor& integers, DType dtype) {
  return visit<dtypes::integral>(dtype, [&]<class T>() {
    const int64_t* values = integers.elements<int64_t>();
    for (int64_t i = 0; i < integers.numel(); ++i) {
      if (i % kStopBlock == 0) stop_if_requested();
      if (values[i] < std::numeric_limits<T>::min() || values[i] > std::numeric_limits<T>::max())
        return false;
    }
    return true;
  });
}

// --- writing -------------------------------------------------------------------------------------

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// A name that holds more than plain text goes between quotes.
void append_name(std::string& out, const std::string& name, char separator) {
  const bool plain = !name.empty() && !is_space(name.front()) && !is_space(name.back()) &&
                     name.find_first_of("\"\n\r") == name.npos && name.find(separator) == name.npos;
  if (plain) {
    out += name;
    return;
  }
  out += '"';
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

void append_header(std::string& out, const std::vector<std::string>& names, int64_t columns,
                   char separator, const char* op) {
  if (static_cast<int64_t>(names.size()) != columns)
    fail(op, ": 'header' has ", names.size(), " names for ", columns, " columns");
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += separator;
    append_name(out, names[i], separator);
  }
  out += '\n';
}

void append_element(std::string& out, bool value) { out += value ? "true" : "false"; }

void append_element(std::string& out, int64_t value) { append(out, value); }

// Nine digits where they are the number, as for many that people write, else all it takes.
void append_element(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";  // whatever its sign
    return;
  }
  char buffer[40];
  for (const int digits : {9, 17}) {
    const char* end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits)
            .ptr;
    double again = 0;
    std::from_chars(buffer, end, again);
    if (again != value && digits == 9) continue;
    out.append(buffer, static_cast<size_t>(end - buffer));
    return;
  }
}

template <class T>
void append_rows(std::string& out, const Tensor& rows, int64_t columns, char separator) {
  const T* element = rows.elements<T>();
  for (int64_t row = 0; row < rows.size(0); ++row) {
    stop_if_requested();
    for (int64_t column = 0; column < columns; ++column) {
      if (column % kStopElements == kStopElements - 1) stop_if_requested();
      if (column > 0) out += separator;
      append_element(out, *element++);
    }
    out += '\n';
  }
}

}  // namespace

CsvNumbers read_csv(const std::string& path, const CsvReadOptions& options, const char* op) {
  const char separator = checked_separator(options.separator, kLettersAndDigits, op);
  const DType dtype = options.dtype.value_or(execution.default_dtype);
  InputFile file(path, op);
  ReadBudget budget(file.size(), options.max_bytes);
  const std::string text = read_for(file, budget);
  CsvReader reader(text, path, separator, op, budget, kNumberBytes);
  const bool integers = is_integral(dtype);
  CsvNumbers out = integers ? read_numbers<int64_t>(reader, path, options.header, op)
                            : read_numbers<double>(reader, path, options.header, op);
  if (integers && !all_fit(out.values, dtype))
    fail(op, ": '", path, "' has numbers that do not fit ", name(dtype));
  out.values = converted(out.values, dtype, op);
  return out;
}

CsvTexts read_csv_texts(const std::string& path, const CsvReadOptions& options, const char* op) {
  const char separator = checked_separator(options.separator, kDigits, op);
  InputFile file(path, op);
  ReadBudget budget(file.size(), options.max_bytes);
  // The texts hold as many bytes as the file.
  const std::string text = read_for(file, budget, 2);
  CsvReader reader(text, path, separator, op, budget, kTextBytes);
  CsvTexts out;
  out.names = each_row(reader, path, options.header, op, [&](const auto& fields) {
    out.columns.resize(fields.size());
    for (size_t i = 0; i < fields.size(); ++i) out.columns[i].emplace_back(fields[i]);
    out.lines.push_back(reader.line());
  });
  return out;
}

void write_csv(const std::string& path, const Tensor& tensor, const CsvWriteOptions& options,
               const char* op) {
  check(tensor.defined(), op, ": the tensor is undefined");
  if (tensor.dim() < 1 || tensor.dim() > 2)
    fail(op, ": a tensor of one or two dimensions is wanted, got shape ", tensor.sizes());
  if (is_complex(tensor.dtype()))
    fail(op, ": a tensor of real numbers is wanted, got ", name(tensor.dtype()));
  const char separator = checked_separator(options.separator, kLettersAndDigits, op);
  const int64_t columns = tensor.dim() == 2 ? tensor.size(1) : 1;
  std::string out;
  if (options.header) append_header(out, *options.header, columns, separator, op);
  const Tensor rows = host_rows(tensor, op);
  if (rows.dtype() == DType::Bool)
    append_rows<bool>(out, rows, columns, separator);
  else if (is_integral(rows.dtype()))
    append_rows<int64_t>(out, converted(rows, DType::Int64, op), columns, separator);
  else
    append_rows<double>(out, converted(rows, DType::Float64, op), columns, separator);
  write_file(path, {out}, op);
}

}  // namespace moonlet::io
