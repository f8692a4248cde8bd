// tensor/io/csv/write.cpp: numbers and columns as CSV files.
#include <charconv>
#include <cmath>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/core/platform/charconv.h"
#include "tensor/io/bytes.h"
#include "tensor/io/csv.h"
#include "tensor/io/csv/column.h"
#include "tensor/io/csv/layout.h"
#include "tensor/io/files.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// The elements of a row between two looks at the stop flag.
constexpr int64_t kStopElements = 4096;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

// A name that holds more than plain text goes between quotes.
void append_name(std::string& out, const std::string& name, char separator) {
  const bool plain = !name.empty() && !is_space(name.front()) && !is_space(name.back()) &&
                     name.find_first_of("\"\n\r") == name.npos && name.find(separator) == name.npos;
  if (plain) {
    out += name;
    return;
  }
  append_quoted(out, name);
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

// Nine digits where they are the number, as for many that people write, else all it takes; of a
// float32 the fewest digits that are read as it.
template <class T>
requires std::is_floating_point_v<T>
void append_element(std::string& out, T value) {
  if (value != value) {  // without the sign that its bits may have
    out += "nan";
    return;
  }
  char buffer[40];
  constexpr bool kSingle = std::is_same_v<T, float>;
  for (const int digits : {9, 17}) {
    const char* end =
        kSingle && digits == 9
            ? std::to_chars(buffer, buffer + sizeof buffer, value).ptr
            : std::to_chars(buffer, buffer + sizeof buffer, static_cast<double>(value),
                            std::chars_format::general, digits)
                  .ptr;
    double again = 0;
    platform::from_chars(buffer, end, again);
    if (static_cast<T>(again) != value && digits == 9) continue;
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

// --- columns -------------------------------------------------------------------------------------

// A column whose values are in the host's memory, as rows are written.
struct WrittenColumn {
  const CsvColumn* column;
  Tensor values;
};

void append_text(std::string& out, std::string_view text, char separator) {
  if (text.find_first_of("\"\n\r") == text.npos && text.find(separator) == text.npos)
    out += text;
  else
    append_quoted(out, text);
}

double real_at(const Tensor& values, int64_t row) {
  if (values.dtype() == DType::Int64) return static_cast<double>(values.elements<int64_t>()[row]);
  return values.dtype() == DType::Float32 ? static_cast<double>(values.elements<float>()[row])
                                          : values.elements<double>()[row];
}

void append_value(std::string& out, const WrittenColumn& c, int64_t row, char separator) {
  if (!c.values.defined())
    return append_text(out, c.column->texts[static_cast<size_t>(row)], separator);
  const DType dtype = c.values.dtype();
  if (dtype == DType::Bool) return append_element(out, c.values.elements<bool>()[row]);
  const double real = real_at(c.values, row);
  if (std::isnan(real)) return;
  if (c.column->dates && std::isfinite(real)) {
    out += date_text(real);
  } else if (dtype == DType::Int64) {
    append_element(out, c.values.elements<int64_t>()[row]);
  } else if (dtype == DType::Float32) {
    append_element(out, c.values.elements<float>()[row]);
  } else {
    append_element(out, real);
  }
}

// In a dtype that append_value takes.
Tensor written_values(const CsvColumn& column, const char* op) {
  const DType dtype = column.values.dtype();
  const bool as_it_is = dtype == DType::Bool || dtype == DType::Float64;
  const DType wanted = as_it_is ? dtype : is_integral(dtype) ? DType::Int64 : DType::Float32;
  return converted(host_rows(column.values, op), wanted, op);
}

}  // namespace

void write_csv_table(const std::string& path, const std::vector<CsvColumn>& columns,
                     const CsvWriteOptions& options, const char* op) {
  const char separator = checked_separator(options.separator, kLettersAndDigits, op);
  std::string out;
  std::vector<WrittenColumn> written;
  std::vector<std::string> names;
  int64_t rows = -1;
  for (const CsvColumn& column : columns) {
    const bool values = column.values.defined();
    if (values && (column.values.dim() != 1 || is_complex(column.values.dtype())))
      fail(op, ": column '", column.name, "' must hold real numbers in one dimension");
    const int64_t count =
        values ? column.values.size(0) : static_cast<int64_t>(column.texts.size());
    if (rows >= 0 && count != rows)
      fail(op, ": column '", column.name, "' has ", count, " rows, the ones before ", rows);
    rows = count;
    names.push_back(column.name);
    written.push_back({&column, values ? written_values(column, op) : Tensor()});
  }
  append_header(out, options.header ? *options.header : names, static_cast<int64_t>(names.size()),
                separator, op);
  for (int64_t row = 0; row < rows; ++row) {
    stop_if_requested();
    const size_t start = out.size();
    for (size_t i = 0; i < written.size(); ++i) {
      if (i > 0) out += separator;
      append_value(out, written[i], row, separator);
    }
    // An empty line would be none.
    if (out.size() == start) out += "\"\"";
    out += '\n';
  }
  write_file(path, {out}, op);
}

void write_csv(const std::string& path, const Tensor& tensor, const CsvWriteOptions& options,
               const char* op) {
  check(tensor.defined(), op, ": the tensor is undefined");
  if (tensor.dim() < 1 || tensor.dim() > 2)
    fail(op, ": a tensor of one or two dimensions is expected, got shape ", tensor.sizes());
  if (is_complex(tensor.dtype()))
    fail(op, ": a tensor of real numbers is expected, got ", name(tensor.dtype()));
  const char separator = checked_separator(options.separator, kLettersAndDigits, op);
  const int64_t columns = tensor.dim() == 2 ? tensor.size(1) : 1;
  std::string out;
  if (options.header) append_header(out, *options.header, columns, separator, op);
  const Tensor rows = host_rows(tensor, op);
  if (rows.dtype() == DType::Bool)
    append_rows<bool>(out, rows, columns, separator);
  else if (is_integral(rows.dtype()))
    append_rows<int64_t>(out, converted(rows, DType::Int64, op), columns, separator);
  else if (rows.dtype() == DType::Float64)
    append_rows<double>(out, rows, columns, separator);
  else
    append_rows<float>(out, converted(rows, DType::Float32, op), columns, separator);
  write_file(path, {out}, op);
}

}  // namespace moonlet::io
