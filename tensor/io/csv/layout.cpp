// tensor/io/csv/layout.cpp: the options of CSV files, and their headers.
#include "tensor/io/csv/layout.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// What the format itself is written with.
constexpr std::string_view kSyntax = "\n\r";

char one_character(const std::string& text, const char* name, const char* op) {
  if (text.empty()) return '\0';
  if (text.size() != 1 || kSyntax.find(text[0]) != kSyntax.npos)
    fail(op, ": '", name, "' must be one character, got '", text, "'");
  return text[0];
}

void check_distinct(const CsvDialect& d, const char* op) {
  const char separator = d.blanks_separate ? ' ' : d.separator;
  const std::pair<const char*, char> used[] = {{"separator", separator},
                                               {"quotechar", d.quote},
                                               {"escapechar", d.escape},
                                               {"comment", d.comment}};
  for (size_t i = 0; i < std::size(used); ++i)
    for (size_t k = i + 1; k < std::size(used); ++k)
      if (used[i].second != '\0' && used[i].second == used[k].second)
        fail(op, ": '", used[i].first, "' and '", used[k].first, "' are the same character");
}

// The next record, or none where it is damaged: who reads the file in earnest says so.
bool read_loosely(CsvReader& reader, std::vector<CsvField>& fields) {
  try {
    return reader.next_record(fields);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

char checked_separator(const std::string& separator, std::string_view taken, const char* op) {
  constexpr std::string_view kTaken = "\"\n\r+-.";
  if (separator.size() != 1 || kTaken.find(separator[0]) != kTaken.npos ||
      taken.find(separator[0]) != taken.npos)
    fail(op, ": 'separator' must be one character that no number has");
  return separator[0];
}

namespace {

CsvDialect dialect_of(const CsvReadOptions& options, std::string_view taken, const char* op) {
  CsvDialect out;
  out.blanks_separate = options.delim_whitespace;
  if (!options.delim_whitespace && !options.detect_separator)
    out.separator = checked_separator(options.separator, taken, op);
  out.quote = one_character(options.quotechar, "quotechar", op);
  out.escape = one_character(options.escapechar, "escapechar", op);
  out.comment = one_character(options.comment, "comment", op);
  out.doubled_quotes = options.doublequote;
  out.skip_initial_space = options.skipinitialspace;
  out.skip_blank_lines = options.skip_blank_lines;
  out.skip_rows = options.skiprows;
  out.skip_lines = options.skip_lines;
  std::sort(out.skip_lines.begin(), out.skip_lines.end());
  check_distinct(out, op);
  return out;
}

CsvRules rules_of(const CsvReadOptions& options, const CsvDialect& dialect, const char* op) {
  CsvRules out;
  out.decimal = one_character(options.decimal, "decimal", op);
  if (out.decimal == '\0') fail(op, ": 'decimal' must be one character");
  out.grouped_in_quotes = !options.thousands && out.decimal == '.' && dialect.separator == ',' &&
                          !dialect.blanks_separate;
  if (options.thousands) out.thousands = one_character(*options.thousands, "thousands", op);
  if (out.thousands == out.decimal) fail(op, ": 'thousands' and 'decimal' are the same character");
  std::vector<std::string> trues = options.true_values, falses = options.false_values;
  trues.insert(trues.end(), {"true", "True", "TRUE"});
  falses.insert(falses.end(), {"false", "False", "FALSE"});
  out.trues = WordSet(trues);
  out.falses = WordSet(falses);
  out.dates = {options.dayfirst, options.date_format};
  out.day_first_dates = {true, options.date_format};
  return out;
}

// --- the beginning of a file ---------------------------------------------------------------------

// The separator that splits the first lines into the most fields of one number.
void detect_separator(CsvDialect& dialect, std::string_view text) {
  constexpr std::string_view kCandidates = ",\t;|: ";
  constexpr size_t kLines = 20, kLongest = size_t{1} << 16;
  const std::string none;
  size_t best = 1;
  dialect.separator = ',';
  for (const char candidate : kCandidates) {
    CsvDialect tried = dialect;
    tried.separator = candidate;
    tried.blanks_separate = candidate == ' ';
    ReadBudget budget(0);
    CsvReader reader(text.substr(0, kLongest), none, tried, "read_csv", budget);
    std::vector<CsvField> fields;
    size_t count = 0, lines = 0;
    while (lines < kLines && read_loosely(reader, fields)) {
      if (reader.left() == 0 && lines > 0 && text.size() > kLongest) break;
      if (lines++ > 0 && fields.size() != count) count = 1;
      if (lines == 1) count = fields.size();
      if (count == 1) break;
    }
    if (count <= best) continue;
    best = count;
    dialect.separator = candidate == ' ' ? ',' : candidate;
    dialect.blanks_separate = candidate == ' ';
  }
}

// How many lines at the beginning are remarks: they begin with '#' and have another number of
// fields than the first that does not.
int64_t remarks_in(std::string_view text, const CsvDialect& dialect) {
  if (dialect.comment != '\0' || dialect.skip_rows > 0 || dialect.separator == '#') return 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (!text.starts_with('#')) return 0;
  const std::string none;
  ReadBudget budget(text.size());
  CsvReader reader(text, none, dialect, "read_table", budget);
  std::vector<CsvField> fields;
  std::vector<size_t> counts;
  constexpr size_t kMost = 1000;
  while (counts.size() < kMost && read_loosely(reader, fields)) {
    if (!fields[0].text.starts_with('#') || fields[0].quoted) {
      // The last one may be the header, "#id,name".
      while (!counts.empty() && counts.back() == fields.size()) counts.pop_back();
      return static_cast<int64_t>(counts.size());
    }
    counts.push_back(fields.size());
  }
  return 0;
}

// The dialect with what only the text says.
const CsvDialect& completed(CsvDialect& dialect, std::string_view text,
                            const CsvReadOptions& options) {
  if (options.detect_separator) detect_separator(dialect, text);
  if (options.skip_remarks) dialect.skip_rows += remarks_in(text, dialect);
  return dialect;
}

}  // namespace

CsvFile::CsvFile(const std::string& file, const CsvReadOptions& options, std::string_view taken,
                 bool lenient, const char* op)
    : path(file),
      dialect(dialect_of(options, taken, op)),
      input(file, op),
      budget(input.size(), options.max_bytes),
      text(decoded(read_for(input, budget), options.encoding, budget, op)),
      rules(rules_of(options, completed(dialect, text, options), op)),
      reader(text, path, dialect, op, budget) {
  dialect.text_after_quotes = lenient;
}

int64_t rows_wanted(CsvReader& reader, const CsvReadOptions& options) {
  if (options.skipfooter == 0) return options.nrows;
  const CsvReader::Position start = reader.position();
  std::vector<CsvField> fields;
  int64_t count = 0;
  while (reader.next_record(fields)) ++count;
  reader.go_to(start);
  const int64_t rows = std::max<int64_t>(count - options.skipfooter, 0);
  return options.nrows < 0 ? rows : std::min(rows, options.nrows);
}

CsvLayout layout_of(CsvReader& reader, const CsvReadOptions& options) {
  CsvLayout out;
  std::vector<CsvField> fields;
  std::vector<int64_t> rows = options.header_rows;
  if (rows.empty() && options.header) rows.push_back(0);
  std::sort(rows.begin(), rows.end());
  int64_t at = -1;
  for (const int64_t row : rows) {
    for (; at < row; ++at)
      if (!reader.next_record(fields)) return out;
    out.header.resize(std::max(out.header.size(), fields.size()));
    for (size_t i = 0; i < fields.size(); ++i) {
      reader.take(sizeof(std::string) + fields[i].text.size() + sizeof(CsvColumnBuilder));
      std::string& name = out.header[i];
      if (!name.empty() && !fields[i].text.empty()) name += '_';
      name += fields[i].text;
    }
  }
  out.data = reader.position();
  const size_t named = options.names.empty() ? out.header.size() : options.names.size();
  const bool with_header = !rows.empty();
  const size_t first = reader.next_record(fields) ? fields.size() : 0;
  out.width = std::max(named, out.header.size());
  const bool chosen = !options.use_names.empty() || !options.use_columns.empty();
  if (first > out.width && !(with_header && chosen)) {
    const bool unnamed = out.width == 0;
    out.trailing_separator =
        !unnamed && options.leading_index && first == out.width + 1 && fields.back().text.empty();
    if (!unnamed && options.leading_index && !out.trailing_separator)
      out.index_columns = first - out.width;
    if (unnamed || options.leading_index) out.width = first;
  }
  reader.go_to(out.data);
  return out;
}

std::vector<std::string> column_names(const CsvLayout& layout, const CsvReadOptions& options) {
  const std::vector<std::string>& source = options.names.empty() ? layout.header : options.names;
  const size_t index = layout.index_columns;
  std::vector<std::string> out(layout.width);
  std::unordered_map<std::string, int64_t> seen;
  std::unordered_set<std::string> taken(source.begin(), source.end());
  // A second column "a" is "a.1", unless there is one of that name.
  const auto set = [&](size_t i, const std::string& name) {
    int64_t& count = seen[name];
    std::string unique = name;
    while (count > 0 && taken.contains(unique = name + "." + std::to_string(count))) ++count;
    if (count++ > 0) taken.insert(unique);
    out[i] = std::move(unique);
  };
  for (size_t i = 0; i < index; ++i) out[i] = index == 1 ? "index" : "level_" + std::to_string(i);
  // Names that the file has come before those that are made up.
  for (size_t i = index; i < layout.width; ++i)
    if (i - index < source.size() && !source[i - index].empty()) set(i, source[i - index]);
  for (size_t i = index; i < layout.width; ++i) {
    const size_t position = i - index;
    if (position >= source.size())
      set(i, std::to_string(position + 1));
    else if (source[position].empty())
      set(i, "Unnamed: " + std::to_string(position));
  }
  return out;
}

}  // namespace moonlet::io
