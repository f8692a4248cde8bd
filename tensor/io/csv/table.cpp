// tensor/io/csv/table.cpp: the columns of a CSV file of any kind.
#include <algorithm>
#include <deque>

#include "tensor/io/csv/column.h"
#include "tensor/io/csv/layout.h"
#include "tensor/io/files.h"

namespace moonlet::io {
namespace {

// What a value takes, with the room to grow and when it gets its dtype.
constexpr uint64_t kCellBytes = 24;
// The rows by whose length the number of all rows is guessed.
constexpr int64_t kSampleRows = 1024;
constexpr size_t kMostWarnings = 100;

class TableReader {
 public:
  TableReader(const std::string& path, const CsvReadOptions& options, const char* op);
  CsvTable read();

 private:
  void choose_columns();
  void check_names(const std::vector<std::string>& names, const char* option) const;
  CsvType type_of(size_t field) const;
  const WordSet& missing_of(const std::string& name);
  bool accept(size_t fields);
  void read_rows(const std::vector<size_t>& only);
  void add_row(const std::vector<CsvField>& fields, const std::vector<size_t>& only);
  void reserve(int64_t rows, size_t start);
  void read_columns();
  [[noreturn]] void no_column(const std::string& name, const char* option) const;

  const CsvReadOptions& options_;
  const char* const op_;
  std::shared_ptr<CsvFile> file_;  // the texts of columns refer to it
  WordSet missing_;
  std::deque<WordSet> missing_in_;
  CsvLayout layout_;
  std::vector<std::string> names_;          // of all columns
  std::vector<size_t> fields_;              // of a row, for each column that is read
  std::vector<CsvColumnBuilder> builders_;  // of those
  bool chosen_ = false;                     // whether only some are read
  bool again_ = false;                      // whether the rows are read a second time
  int64_t rows_ = 0;
  std::vector<std::string> warnings_;
};

TableReader::TableReader(const std::string& path, const CsvReadOptions& options, const char* op)
    : options_(options),
      op_(op),
      file_(std::make_shared<CsvFile>(path, options, kDigits, true, op)),
      missing_(options.missing) {}

void TableReader::no_column(const std::string& name, const char* option) const {
  std::string all;
  constexpr size_t kMost = 20;
  for (size_t i = 0; i < std::min(names_.size(), kMost); ++i)
    all += (i > 0 ? ", " : "") + names_[i];
  if (names_.size() > kMost) all += ", ...";
  fail(op_, ": '", option, "': there is no column '", name, "' (there are ", all, ")");
}

void TableReader::check_names(const std::vector<std::string>& names, const char* option) const {
  for (const std::string& name : names)
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) no_column(name, option);
}

CsvType TableReader::type_of(size_t field) const {
  const std::string& name = names_[field];
  for (const auto& [column, type] : options_.types)
    if (column == name) return type;
  const auto& dates = options_.date_columns;
  const auto& positions = options_.date_positions;
  if (std::find(dates.begin(), dates.end(), name) != dates.end() ||
      std::find(positions.begin(), positions.end(), static_cast<int64_t>(field)) != positions.end())
    return {CsvKind::Date, {}};
  return {};
}

const WordSet& TableReader::missing_of(const std::string& name) {
  for (const auto& [column, words] : options_.missing_in)
    if (column == name) return missing_in_.emplace_back(words);
  return missing_;
}

void TableReader::choose_columns() {
  names_ = column_names(layout_, options_);
  check_names(options_.use_names, "usecols");
  check_names(options_.date_columns, "parse_dates");
  for (const auto& [name, type] : options_.types) check_names({name}, "types");
  for (const auto& [name, words] : options_.missing_in) check_names({name}, "na_values");
  for (const int64_t column : options_.date_positions)
    if (column < 0 || column >= static_cast<int64_t>(names_.size()))
      fail(op_, ": 'parse_dates': there is no column ", column + 1, "; the file has ",
           names_.size());
  std::vector<bool> use(names_.size());
  for (size_t i = 0; i < names_.size(); ++i)
    use[i] = std::find(options_.use_names.begin(), options_.use_names.end(), names_[i]) !=
             options_.use_names.end();
  for (const int64_t column : options_.use_columns) {
    if (column < 0 || column >= static_cast<int64_t>(use.size()))
      fail(op_, ": 'usecols': there is no column ", column + 1, "; the file has ", use.size());
    use[static_cast<size_t>(column)] = true;
  }
  chosen_ = !options_.use_names.empty() || !options_.use_columns.empty();
  file_->budget.take(names_.size() * (sizeof(CsvColumnBuilder) + sizeof(CsvColumn)));
  for (size_t i = 0; i < names_.size(); ++i) {
    if (chosen_ && !use[i]) continue;
    fields_.push_back(i);
    builders_.emplace_back(file_->rules, missing_of(names_[i]), type_of(i), names_[i]);
  }
}

// Whether a row of so many fields counts. Of those that are too long only blank ends are let pass.
bool TableReader::accept(size_t fields) {
  if (fields <= layout_.width || chosen_) return true;
  CsvReader& reader = file_->reader;
  if (options_.on_bad_lines == CsvBadLines::Error)
    reader.bad(0, fields, " fields where the lines before have ", layout_.width,
               " (on_bad_lines = \"skip\" leaves such lines out)");
  if (options_.on_bad_lines == CsvBadLines::Warn && !again_ && warnings_.size() < kMostWarnings)
    warnings_.push_back(text(op_, ": '", file_->path, "', line ", reader.line(), " is left out: ",
                             fields, " fields where the lines before have ", layout_.width));
  return false;
}

// All columns where `only` is empty, else those.
void TableReader::add_row(const std::vector<CsvField>& fields, const std::vector<size_t>& only) {
  CsvReader& reader = file_->reader;
  const size_t count = only.empty() ? builders_.size() : only.size();
  reader.take(count * kCellBytes);
  static const CsvField kNone;
  for (size_t i = 0; i < count; ++i) {
    const size_t k = only.empty() ? i : only[i];
    const size_t field = fields_[k];
    builders_[k].add(field < fields.size() ? fields[field] : kNone, reader);
  }
}

void TableReader::reserve(int64_t rows, size_t start) {
  const size_t left = file_->reader.left();
  const size_t row_bytes = std::max<size_t>((start - left) / static_cast<size_t>(rows), 1);
  const size_t more = left / row_bytes;
  const uint64_t bytes = builders_.size() * (left / row_bytes) * sizeof(double);
  if (!file_->budget.has(bytes)) return;
  for (CsvColumnBuilder& builder : builders_)
    builder.reserve(static_cast<size_t>(rows) + more + more / 32 + 1);
}

void TableReader::read_rows(const std::vector<size_t>& only) {
  std::vector<CsvField> fields;
  CsvReader& reader = file_->reader;
  reader.go_to(layout_.data);
  const int64_t most = rows_wanted(reader, options_);
  const size_t start = reader.left();
  int64_t rows = 0;
  while ((most < 0 || rows < most) && reader.next_record(fields)) {
    if (!options_.leading_index)
      while (fields.size() > layout_.width && fields.back().text.empty()) fields.pop_back();
    if (!accept(fields.size())) continue;
    add_row(fields, only);
    if (++rows == kSampleRows && most < 0) reserve(rows, start);
  }
  rows_ = rows;
}

// Reads all rows, the columns that turn out to be of another kind than it seemed twice.
void TableReader::read_columns() {
  names_.clear();
  fields_.clear();
  builders_.clear();
  warnings_.clear();
  choose_columns();
  again_ = false;
  read_rows({});
  std::vector<size_t> again;
  for (size_t i = 0; i < builders_.size(); ++i) {
    if (!builders_[i].wants_again(options_.dtype.has_value())) continue;
    builders_[i].restart();
    again.push_back(i);
  }
  again_ = true;
  if (!again.empty()) read_rows(again);
}

CsvTable TableReader::read() {
  layout_ = layout_of(file_->reader, options_);
  if (layout_.width == 0) fail(op_, ": '", file_->path, "' has no rows");
  read_columns();
  if (layout_.trailing_separator && !builders_.back().is_empty()) {
    layout_.trailing_separator = false;
    layout_.index_columns = 1;
    read_columns();
  } else if (layout_.trailing_separator) {
    builders_.pop_back();
  }
  CsvTable out;
  out.rows = rows_;
  out.index_columns = static_cast<int64_t>(layout_.index_columns);
  for (CsvColumnBuilder& builder : builders_)
    out.columns.push_back(builder.finish(options_.dtype, op_));
  out.warnings = std::move(warnings_);
  out.holder = file_;
  return out;
}

}  // namespace

CsvTable read_csv_table(const std::string& path, const CsvReadOptions& options, const char* op) {
  return TableReader(path, options, op).read();
}

}  // namespace moonlet::io
