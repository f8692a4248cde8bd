// tests/embed/weights.cpp: a host saves and loads weights and tables in C++ alone, and loads what a
// script saved. Exits with 1 on a failure.
#include <moonlet/io.h>
#include <moonlet/moonlet.h>
#include <moonlet/ops.h>
#include <cstdio>
#include <string>

#include "expect.h"

namespace ml = moonlet;

namespace {

void test_weights() {
  ml::Generator generator(1);
  const ml::Tensor weight = ml::randn({3, 2}, &generator);
  ml::io::save_safetensors("net.st", {{"fc.weight", weight}, {"fc.bias", ml::ones({3})}},
                           {{"epoch", "7"}});
  ml::io::Safetensors file = ml::io::load_safetensors("net.st");
  expect(file.metadata.at("epoch") == "7" && file.tensors.size() == 2, "what a file holds");
  const ml::Tensor y =
      ml::linear(ml::ones({1, 2}), file.tensors.at("fc.weight"), file.tensors.at("fc.bias"));
  const ml::Tensor wanted = ml::linear(ml::ones({1, 2}), weight, ml::ones({3}));
  expect(*ml::all(ml::eq(y, wanted)).data<bool>(), "the weights come back");
  const auto mapped = ml::io::load_safetensors("net.st", {.mmap = true});
  expect(mapped.tensors.at("fc.bias").data<float>()[2] == 1, "a mapped file");
  expect_error([] { ml::io::load_safetensors("no.st"); },
               "load_safetensors: 'no.st': No such file");
}

void test_tables() {
  ml::io::write_csv("x.csv", ml::reshape(ml::arange(0, 5), {3, 2}), {{{"a", "b"}}, ";"});
  ml::io::CsvReadOptions options;
  options.header = true;
  options.separator = ";";
  const ml::io::CsvNumbers table = ml::io::read_csv("x.csv", options);
  expect(table.names.size() == 2 && table.names[1] == "b", "the names of columns");
  expect(table.values.size(0) == 3 && table.values.data<float>()[5] == 5, "the numbers");
  expect(ml::io::read_csv_texts("x.csv", options).columns[1][2] == "5", "the same as texts");
  expect_error([] { ml::io::read_idx("x.csv"); }, "read_idx: 'x.csv' is no IDX file");
}

void test_files_of_scripts() {
  ml::Interpreter lua;
  lua.run_string("local ml = require 'moonlet' ml.save('of_script.st', { w = ml.ones(2) * 3 })");
  const auto file = ml::io::load_safetensors("of_script.st");
  expect(file.tensors.at("w").data<float>()[1] == 3, "what a script saved");
}

}  // namespace

int main() {
  test_weights();
  test_tables();
  test_files_of_scripts();
  std::printf("weights in C++: %s\n", failures == 0 ? "good" : "failed");
  return failures == 0 ? 0 : 1;
}
