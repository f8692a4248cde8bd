// tensor/io/csv.h: CSV files (RFC 4180: a field in quotes may hold separators, line ends and
// doubled quotes) as tensors of numbers or as texts; reading takes gzip too. Spaces and tabs around
// a field do not count, nor does the locale.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace moonlet::io {

struct CsvReadOptions {
  bool header = false;          // whether the first line holds the columns' names
  std::string separator = ",";  // one character that no number has
  std::optional<DType> dtype;   // of the numbers; else the default dtype
  // What reading may take; 0: 512 MiB, or 256 times the file's size where that is more.
  int64_t max_bytes = 0;
};

struct CsvNumbers {
  Tensor values;                   // (rows, columns)
  std::vector<std::string> names;  // of the columns, with a header
};

// A file of numbers. Throws Error "OP: 'PATH', line N, column N: ..." for what is no number or does
// not fit the dtype, for an empty field, and for a line of another length than those before.
CsvNumbers read_csv(const std::string& path, const CsvReadOptions& options = {},
                    const char* op = "read_csv");

struct CsvTexts {
  std::vector<std::vector<std::string>> columns;
  std::vector<int64_t> lines;  // on which each row starts, from 1
  std::vector<std::string> names;
};

// The fields of a file of any kind as texts, column by column; the dtype is not used. The separator
// may be a letter here. Errors as above.
CsvTexts read_csv_texts(const std::string& path, const CsvReadOptions& options = {},
                        const char* op = "read_csv_texts");

struct CsvWriteOptions {
  std::optional<std::vector<std::string>> header;  // a name for each column
  std::string separator = ",";
};

// Writes a real tensor of one dimension, an element a line, or of two, a row a line; the file whole
// or not at all. What is read back is the same number. Throws Error naming `op`.
void write_csv(const std::string& path, const Tensor& tensor, const CsvWriteOptions& options = {},
               const char* op = "write_csv");

}  // namespace moonlet::io
