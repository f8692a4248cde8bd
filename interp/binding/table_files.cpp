// interp/binding/table_files.cpp: reads CSV tables of numbers and IDX files (the format of MNIST)
// into tensors; either may be gzip. Damaged files give errors that say where.
#include <charconv>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "interp/binding/args.h"
#include "interp/binding/bytes.h"
#include "tensor/io/files.h"

namespace moonlet::binding {
namespace {

constexpr int64_t kShownBytes = 40;

// One pass over the text of a CSV file.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string path, char separator)
      : text_(text), path_(std::move(path)), separator_(separator) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
    while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\r')) text_.remove_suffix(1);
  }

  bool done() const { return at_ >= text_.size(); }
  int64_t line() const { return line_; }

  // The fields of the next line, quotes taken off; views into the text or into `unescaped_`.
  void next_line(std::vector<std::string_view>& fields) {
    fields.clear();
    ++line_;
    bool more = true;
    while (more) {
      fields.push_back(next_field(static_cast<int64_t>(fields.size()) + 1));
      more = at_ < text_.size() && text_[at_] == separator_;
      if (more) ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  }

  template <class... Parts>
  [[noreturn]] void bad(int64_t column, const Parts&... parts) const {
    fail("read_csv: '", path_, "', line ", line_, column > 0 ? text(", column ", column) : "", ": ",
         parts...);
  }

 private:
  std::string_view next_field(int64_t column) {
    while (at_ < text_.size() && text_[at_] == ' ' && separator_ != ' ') ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return quoted_field(column);
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' &&
           text_[at_] != '\r')
      ++at_;
    size_t end = at_;
    while (end > start && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
    return text_.substr(start, end - start);
  }

  std::string_view quoted_field(int64_t column) {
    const size_t start = ++at_;
    size_t end = start;
    bool doubled = false;  // a quote within the field is written twice
    while ((end = text_.find('"', end)) != text_.npos && text_.substr(end, 2) == "\"\"") {
      doubled = true;
      end += 2;
    }
    if (end == text_.npos) bad(column, "a quote is not closed");
    at_ = end + 1;
    while (at_ < text_.size() && text_[at_] == ' ' && separator_ != ' ') ++at_;
    const bool closed =
        at_ >= text_.size() || text_[at_] == separator_ || text_[at_] == '\n' || text_[at_] == '\r';
    if (!closed) bad(column, "text follows a closing quote");
    const std::string_view field = text_.substr(start, end - start);
    return doubled ? unescape(field) : field;
  }

  std::string_view unescape(std::string_view field) {
    std::string& out = unescaped_.emplace_back();
    for (size_t i = 0; i < field.size(); ++i) {
      out += field[i];
      if (field[i] == '"') ++i;
    }
    return out;
  }

  std::string_view text_;
  std::deque<std::string> unescaped_;  // never moves what it holds
  std::string path_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

std::string_view shown(std::string_view field) {
  return field.substr(0, std::min<size_t>(field.size(), kShownBytes));
}

template <class T>
T number_in(const CsvReader& reader, std::string_view field, int64_t column, bool first_line) {
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
               first_line ? "; is the first line a header? (header = true)" : "");
  return value;
}

template <class T>
Tensor read_rows(CsvReader& reader, const std::string& path, int64_t columns, DType dtype) {
  std::vector<T> values;
  std::vector<std::string_view> fields;
  int64_t rows = 0;
  while (!reader.done()) {
    reader.next_line(fields);
    const int64_t count = static_cast<int64_t>(fields.size());
    if (columns < 0) columns = count;
    if (count != columns) reader.bad(0, count, " fields where the lines before have ", columns);
    for (int64_t i = 0; i < count; ++i)
      values.push_back(
          number_in<T>(reader, fields[static_cast<size_t>(i)], i + 1, reader.line() == 1));
    ++rows;
  }
  if (rows == 0) fail("read_csv: '", path, "' has no rows");
  Tensor out = empty_plain({rows, columns}, {dtype, {}}, "read_csv");
  std::memcpy(out.raw(), values.data(), values.size() * sizeof(T));
  return out;
}

// read_csv(path, separator, header, integer) -> tensor, names or nil. The separator is one
// character that no number has; the tensor is int64 or float64.
int l_read_csv(lua_State* L) {
  const std::string path = path_argument(L, 1, "read_csv");
  const char* separator = luaL_checkstring(L, 2);
  const std::string content = io::read_file(path, "read_csv");
  CsvReader reader(content, path, *separator);
  std::vector<std::string_view> names;
  if (lua_toboolean(L, 3) != 0) {
    if (reader.done()) fail("read_csv: '", path, "' is empty");
    reader.next_line(names);
  }
  const int64_t columns = names.empty() ? -1 : static_cast<int64_t>(names.size());
  push_result(L, lua_toboolean(L, 4) != 0
                     ? read_rows<int64_t>(reader, path, columns, DType::Int64)
                     : read_rows<double>(reader, path, columns, DType::Float64));
  if (names.empty()) return 1;
  lua_createtable(L, static_cast<int>(names.size()), 0);
  for (size_t i = 0; i < names.size(); ++i) {
    lua_pushlstring(L, names[i].data(), names[i].size());
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 2;
}

DType idx_dtype(const std::string& path, unsigned char code) {
  switch (code) {
    case 0x08: return DType::UInt8;
    case 0x09: return DType::Int8;
    case 0x0B: return DType::Int16;
    case 0x0C: return DType::Int32;
    case 0x0D: return DType::Float32;
    case 0x0E: return DType::Float64;
    default: fail("read_idx: '", path, "' has the unknown type code ", static_cast<int>(code));
  }
}

int64_t big_endian_32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

void swap_into(char* out, const char* in, int64_t count, size_t width) {
  for (int64_t i = 0; i < count; ++i, in += width, out += width)
    for (size_t b = 0; b < width; ++b) out[b] = in[width - 1 - b];
}

// read_idx(path) -> tensor
int l_read_idx(lua_State* L) {
  const std::string path = path_argument(L, 1, "read_idx");
  const std::string data = io::read_file(path, "read_idx");
  if (data.size() < 4 || data[0] != 0 || data[1] != 0)
    fail("read_idx: '", path, "' is no IDX file: it does not start with two zero bytes and a type");
  const DType dtype = idx_dtype(path, static_cast<unsigned char>(data[2]));
  const int rank = static_cast<unsigned char>(data[3]);
  if (rank > kMaxDims)
    fail("read_idx: '", path, "' has ", rank, " dimensions; at most ", kMaxDims, " are read");
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  if (data.size() < header) fail("read_idx: '", path, "' is cut short inside its header");
  Dims sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(big_endian_32(data.data() + 4 + 4 * i));
  const int64_t count = numel_of(sizes, "read_idx");
  const uint64_t wanted = static_cast<uint64_t>(count) * size_of(dtype);
  if (data.size() - header != wanted)
    fail("read_idx: '", path, "' has ", data.size() - header, " bytes of data; its shape ", sizes,
         " of ", name(dtype), " wants ", static_cast<int64_t>(wanted),
         data.size() - header < wanted ? "; the file is cut short" : "");
  Tensor out = empty_plain(sizes, {dtype, {}}, "read_idx");
  if (count > 0) swap_into(out.raw(), data.data() + header, count, size_of(dtype));
  return push_result(L, out);
}

}  // namespace

void register_table_files(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"read_csv", op_guard<l_read_csv>}, {"read_idx", op_guard<l_read_idx>}, {nullptr, nullptr}};
  set_functions(L, -1, kFunctions);
}

}  // namespace moonlet::binding
