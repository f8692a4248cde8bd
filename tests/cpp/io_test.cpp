// tests/cpp/io_test.cpp: files of tensors without Lua: safetensors, CSV and IDX, whole and damaged.
#include "tests/cpp/catch2.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>

#include <unistd.h>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "tensor/io/csv.h"
#include "tensor/io/deflate.h"
#include "tensor/io/idx.h"
#include "tensor/io/picture.h"
#include "tensor/io/read_budget.h"
#include "tensor/io/safetensors.h"
#include "tensor/memory/live_bound.h"
#include "tensor/runtime/interrupt.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

// A path for a file that goes with the scope, and its content.
struct TemporaryFile {
  std::string path = "/tmp/moonlet_io_test." + std::to_string(::getpid());
  explicit TemporaryFile(const std::string& content = "") {
    std::ofstream(path, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string content() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

// The bytes of a safetensors file with that header.
std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && *all(eq(a, b)).data<bool>();
}

std::string load_error(const std::string& content) {
  const TemporaryFile file(content);
  return message_of([&] { io::load_safetensors(file.path); });
}

}  // namespace

TEST_CASE("tensors of every dtype and layout come back from a safetensors file") {
  const TemporaryFile file;
  io::NamedTensors tensors{{"transposed", transpose(reshape(arange(0, 5), {2, 3}), 0, 1)},
                           {"expanded", expand(ones({1}), {4})},
                           {"empty", zeros({0, 3})},
                           {"scalar", full({}, 2.5)}};
  for (int i = 0; i < kDTypeCount; ++i)
    tensors.emplace(kDTypes[i].name, to(ones({3}), static_cast<DType>(i)));
  set_requires_grad(tensors["scalar"], true);
  io::save_safetensors(file.path, tensors, {{"format", "pt"}});
  for (const bool mmap : {false, true}) {
    const io::Safetensors loaded = io::load_safetensors(file.path, {.mmap = mmap});
    CHECK(loaded.metadata == io::Metadata{{"format", "pt"}});
    REQUIRE(loaded.tensors.size() == tensors.size());
    CHECK(loaded.tensors.at("float32").storage().is_mapped() == mmap);
    for (const auto& [name, tensor] : loaded.tensors) {
      INFO(name);
      CHECK(same(tensor, detach(tensors.at(name))));
      CHECK_FALSE(tensor.requires_grad());
    }
  }
}

TEST_CASE("what is not to be saved leaves the old file") {
  const TemporaryFile file("old");
  const auto error = [&](const io::NamedTensors& tensors, const io::Metadata& metadata) {
    return message_of([&] { io::save_safetensors(file.path, tensors, metadata); });
  };
  CHECK(error({{"x", {}}}, {}) == "save_safetensors: the tensor 'x' is undefined");
  CHECK(error({{"__metadata__", ones({1})}}, {}) ==
        "save_safetensors: '__metadata__' cannot be the name of a tensor");
  CHECK(contains(error({{"\xff", ones({1})}}, {}), "is not UTF-8"));
  CHECK(contains(error({}, {{"note", "\xff"}}), "is not UTF-8"));
  CHECK(file.content() == "old");
}

TEST_CASE("damaged safetensors files") {
  const std::string entry = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(contains(load_error("abc"), "load_safetensors: '/tmp/"));
  CHECK(contains(load_error("abc"), "too short to hold a header"));
  CHECK(contains(load_error(with_header(entry, "1234")), "lies at bytes 0 to 8 of 4"));
  CHECK(contains(load_error(with_header(entry, "123456789")), "1 bytes after the last tensor"));
  CHECK(contains(load_error(with_header("{}x", "")), "bad header"));
  CHECK(contains(
      load_error(with_header(R"({"x":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\2")),
      "'x': byte 1 of bool data"));
  CHECK(message_of([] { io::load_safetensors("/tmp"); }) ==
        "load_safetensors: '/tmp': Is a directory");
  CHECK(contains(message_of([] { io::load_safetensors("/nowhere/x", {.mmap = true}); }),
                 "load_safetensors: "));
}

TEST_CASE("types without a dtype are left out of a safetensors file") {
  const TemporaryFile file(
      with_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                  R"("b":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[1,3]}})",
                  "\5xy"));
  const io::Safetensors loaded = io::load_safetensors(file.path);
  CHECK(loaded.tensors.size() == 1);
  CHECK(*loaded.tensors.at("a").data<uint8_t>() == 5);
  CHECK(loaded.left_out == std::map<std::string, std::string>{{"b", "F8_E8M0"}});
}

TEST_CASE("deflate streams") {
  const std::string text(100000, 'x');
  const std::string stream = io::deflate({text, "end"});
  CHECK(stream.size() < 1000);
  std::string back(text.size() + 3, '\0');
  io::inflate(stream, back.data(), back.size());
  CHECK(back == text + "end");
  const auto error = [&](std::string_view bytes, size_t size) {
    return message_of([&] { io::inflate(bytes, back.data(), size); });
  };
  CHECK(error(stream, back.size() - 1) == "compressed data are damaged");
  CHECK(error(stream.substr(0, stream.size() - 1), back.size()) == "compressed data are damaged");
  CHECK(error("", 0) == "compressed data are damaged");
  CHECK(error(stream, 0) == "compressed data are damaged");
  io::inflate(io::deflate({}), nullptr, 0);
  CHECK_FALSE(io::may_inflate_to(1, 1 << 20));
}

TEST_CASE("pictures") {
  const Tensor picture = to(reshape(arange(1, 24), {2, 4, 3}), DType::UInt8);
  const TemporaryFile file(io::encode_png(picture, 6, "test"));
  CHECK(same(io::read_picture(file.path, {}, "test").pixels, picture));
  const Tensor gray =
      io::read_picture(file.path, {.mode = io::PictureMode::GrayAlpha}, "test").pixels;
  CHECK(gray.sizes() == Dims{2, 4, 2});
  const TemporaryFile cut(file.content().substr(0, 40));
  CHECK(contains(
      message_of([&] { io::read_picture(cut.path, {.mode = io::PictureMode::Rgb}, "test"); }),
      "the file is cut off"));
  CHECK(contains(message_of([&] {
                   io::encode_png(ones({2, 2, 3}), 6, "test");
                 }),
                 "test: a picture"));
}

TEST_CASE("CSV files of numbers") {
  const TemporaryFile file("a;\"b;c\"\n 1.5 ;\t-2\n+3;\"4\"\r\n");
  io::CsvReadOptions options;
  options.header = true;
  options.separator = ";";
  options.dtype = DType::Float64;
  const io::CsvNumbers read = io::read_csv(file.path, options);
  CHECK(read.names == std::vector<std::string>{"a", "b;c"});
  REQUIRE(read.values.sizes() == Dims{2, 2});
  CHECK(read.values.data<double>()[0] == 1.5);
  CHECK(read.values.data<double>()[3] == 4);
}

TEST_CASE("numbers go through a CSV file unchanged") {
  const TemporaryFile file;
  const double inf = std::numeric_limits<double>::infinity();
  double given[8] = {0.1, 1e300, -0.0, 5e-324, 1.0 / 3, inf, -inf, std::nan("")};
  io::write_csv(file.path, from_blob(given, {8}, DType::Float64));
  CHECK(file.content().find("0.1\n") == 0);
  const Tensor read = io::read_csv(file.path, {false, ",", DType::Float64}).values;
  REQUIRE(read.sizes() == Dims{8, 1});
  CHECK(std::memcmp(read.raw(), given, 7 * sizeof(double)) == 0);
  CHECK(std::isnan(read.data<double>()[7]));

  int64_t whole[2] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const Tensor rows = from_blob(whole, {1, 2}, DType::Int64);
  io::write_csv(file.path, rows, {{{"a \"b\"", "c"}}, "|"});
  CHECK(file.content() == "\"a \"\"b\"\"\"|c\n-9223372036854775808|9223372036854775807\n");
  CHECK(same(io::read_csv(file.path, {true, "|", DType::Int64}).values, rows));
}

TEST_CASE("CSV files as texts, with the lines of their rows") {
  const TemporaryFile file("name,note\nx,\"two\nlines\"\n,\"a \"\"b\"\"\"\n");
  io::CsvReadOptions options;
  options.header = true;
  const io::CsvTexts read = io::read_csv_texts(file.path, options);
  CHECK(read.names == std::vector<std::string>{"name", "note"});
  CHECK(read.columns[0] == std::vector<std::string>{"x", ""});
  CHECK(read.columns[1] == std::vector<std::string>{"two\nlines", "a \"b\""});
  CHECK(read.lines == std::vector<int64_t>{2, 4});
}

TEST_CASE("CSV files as columns, each of its own kind") {
  const TemporaryFile file("n,x,s,t\n1,0.5, a ,2020-01-31\n1700000001,NA,,1970-01-01\n");
  io::CsvReadOptions options;
  options.header = true;
  options.missing = {"", "NA"};
  options.date_columns = {"t"};
  const io::CsvTable read = io::read_csv_table(file.path, options);
  REQUIRE(read.columns.size() == 4);
  CHECK(read.rows == 2);
  CHECK(read.columns[0].values.data<int64_t>()[1] == 1700000001);
  CHECK(std::isnan(read.columns[1].values.data<float>()[1]));
  CHECK(read.columns[2].texts == std::vector<std::string_view>{" a ", ""});
  CHECK(read.columns[3].dates);
  CHECK(read.columns[3].values.data<int64_t>()[0] == 1580428800);
  const TemporaryFile written;
  io::write_csv_table(written.path, read.columns);
  CHECK(written.content() == "n,x,s,t\n1,0.5, a ,2020-01-31\n1700000001,,,1970-01-01\n");
}

TEST_CASE("bad CSV files and what cannot be one") {
  const auto read_error = [](const std::string& content, const io::CsvReadOptions& options = {}) {
    const TemporaryFile file(content);
    return message_of([&] { io::read_csv(file.path, options); });
  };
  CHECK(contains(read_error("1,2\n3,x\n"), "line 2, column 2: 'x' is no number"));
  CHECK(contains(read_error("\"1\",2\n3\n"), "line 2: 1 fields where the lines before have 2"));
  CHECK(contains(read_error("\"a\nb\"\nx\n", {true, ",", {}}), "line 3, column 1"));
  CHECK(contains(read_error(""), "has no rows"));
  CHECK(contains(read_error("-129\n", {false, ",", DType::Int8}), "do not fit int8"));
  CHECK(contains(read_error("1\n", {false, "e", {}}), "'separator' must be one character"));
  CHECK(contains(message_of([] { io::write_csv("/nowhere/x", Tensor()); }), "is undefined"));
  CHECK(message_of([] {
          io::write_csv("/nowhere/x", ones({1, 1, 1}));
        }) == "write_csv: a tensor of one or two dimensions is expected, got shape (1, 1, 1)");
  CHECK(message_of([] { io::write_csv("/nowhere/x", to(ones({1}), DType::Complex64)); }) ==
        "write_csv: a tensor of real numbers is expected, got complex64");
}

TEST_CASE("a request to stop ends the reading and writing of tables") {
  const TemporaryFile file("1\n2\n");
  StopFlag flag;
  ExecutionState state;
  state.stop = &flag;
  const ExecutionScope scope(state);
  flag.request("stopped");
  CHECK_THROWS_AS(io::read_csv_texts(file.path), Interrupted);
  flag.request("stopped");
  CHECK_THROWS_AS(io::write_csv(file.path, ones({2})), Interrupted);
  flag.cancel();
  CHECK(file.content() == "1\n2\n");
}

TEST_CASE("IDX files") {
  const std::string whole("\0\0\x0B\1\0\0\0\2\xFF\xFE\1\0", 12);
  const TemporaryFile file(whole);
  const Tensor read = io::read_idx(file.path);
  REQUIRE(read.sizes() == Dims{2});
  CHECK(read.data<int16_t>()[0] == -2);
  CHECK(read.data<int16_t>()[1] == 256);
  const TemporaryFile cut(whole.substr(0, 11));
  CHECK(contains(message_of([&] { io::read_idx(cut.path); }), "the file is cut short"));
}

TEST_CASE("what readers make of a file is bounded") {
  const char* const bound = "the option 'max_bytes' raises it";
  const TemporaryFile table("1,2\n3,4\n");
  const auto read_table = [&](int64_t max_bytes) {
    io::CsvReadOptions options;
    options.max_bytes = max_bytes;
    return message_of([&] { io::read_csv(table.path, options); }) +
           message_of([&] { io::read_csv_texts(table.path, options); });
  };
  CHECK(read_table(0).empty());
  CHECK(read_table(100000).empty());
  CHECK(contains(read_table(100), "line 1: to read it takes more than 100 bytes"));
  const TemporaryFile array(std::string("\0\0\x08\1\0\0\0\2ab", 10));
  CHECK(io::read_idx(array.path, "read_idx", 100000).numel() == 2);
  CHECK(contains(message_of([&] { io::read_idx(array.path, "read_idx", 10); }), bound));
  const TemporaryFile weights("");
  io::save_safetensors(weights.path, {{"a", ones({4})}});
  CHECK(io::load_safetensors(weights.path, {.max_bytes = 100000}).tensors.size() == 1);
  CHECK(
      contains(message_of([&] { io::load_safetensors(weights.path, {.max_bytes = 500}); }), bound));

  io::ReadBudget budget(uint64_t{4} << 20);
  CHECK(budget.left() == int64_t{1} << 30);
  budget.take(uint64_t{1} << 30);
  CHECK_FALSE(budget.has(1));
  CHECK_THROWS_AS(budget.take(1), Error);
  budget.give_back(5);
  budget.take(5);
  CHECK_THROWS_AS(budget.take(std::numeric_limits<uint64_t>::max()), Error);
}

TEST_CASE("a bound of live tensors counts those of its time") {
  const Tensor before = ones({1000});
  {
    const memory::LiveBound bound(8000);
    Tensor one = ones({1000});
    CHECK_THROWS_AS(ones({1001}), OutOfMemory);
    one = Tensor();
    CHECK(ones({2000}).numel() == 2000);
    {
      const memory::LiveBound inner(int64_t{1} << 40);
      CHECK_THROWS_AS(ones({2001}), OutOfMemory);
    }
  }
  CHECK(ones({10000}).numel() == 10000);
}
