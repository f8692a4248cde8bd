// tests/bench/c_call.cpp: the same calls by the C interface and by the C++ one, in turn, in
// nanoseconds: the best of many short rounds. Nothing is asserted.  usage: c_call [CALLS [ROUNDS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "autograd/ops_arithmetic.h"
#include "interp/c/c.h"
#include "interp/embed/moonlet.h"
#include "tensor/core/op_info.h"

namespace {

int64_t calls = 20'000;
int rounds = 100;

template <class F>
double time_of(F&& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) call(i);
  const double time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  return time / static_cast<double>(calls);
}

template <class C, class Cpp>
void compare(const char* what, C&& in_c, Cpp&& in_cpp) {
  double c = 1e18, cpp = 1e18;
  for (int round = 0; round < rounds; ++round) {
    c = std::min(c, time_of(in_c));
    cpp = std::min(cpp, time_of(in_cpp));
  }
  std::printf("%-36s C %7.1f ns   C++ %7.1f ns   %.2f\n", what, c, cpp, c / cpp);
}

void check(moonlet_status status) {
  if (status == MOONLET_OK) return;
  std::printf("%s\n", moonlet_error_message());
  std::exit(1);
}

moonlet_status same(void*, moonlet_interpreter, const moonlet_value* arguments, size_t,
                    moonlet_results results) {
  return moonlet_results_push(results, &arguments[0]);
}

constexpr char kCode[] =
    "function same(x) return x end t = {x = 1} "
    "function loop(f, n) for i = 1, n do f(0.5) end end";

void compare_host_functions(moonlet_interpreter c, moonlet::Interpreter& cpp) {
  check(moonlet_register(c, "host", same, nullptr, nullptr));
  cpp.register_function("host", [](const moonlet::Values& v) -> moonlet::Values { return v; });
  moonlet_value loop[2]{};
  check(moonlet_get(c, "host", &loop[0]));
  loop[1].kind = MOONLET_INTEGER;
  loop[1].as.integer = 1000;
  const moonlet::Value host = cpp.get("host");
  compare(
      "host function, a number",
      [&](int64_t i) {
        if (i % 1000 == 0) check(moonlet_call(c, "loop", loop, 2, nullptr, 0, nullptr));
      },
      [&](int64_t i) {
        if (i % 1000 == 0) cpp.call("loop", host, 1000);
      });
}

void compare_calls() {
  moonlet_interpreter c;
  check(moonlet_open(nullptr, &c));
  check(moonlet_run(c, kCode, sizeof kCode - 1, nullptr, nullptr, 0, nullptr));
  moonlet_value f{}, t{}, x{}, r{};
  check(moonlet_get(c, "same", &f));
  check(moonlet_get(c, "t", &t));
  moonlet::Interpreter cpp;
  cpp.run_string(kCode);
  const moonlet::Function g = cpp.get("same").function();
  const moonlet::Table u = cpp.get("t").table();
  double sum = 0;
  x.kind = MOONLET_NUMBER;
  compare(
      "held function, a number",
      [&](int64_t i) {
        x.as.number = static_cast<double>(i);
        check(moonlet_function_call(f.as.function, &x, 1, &r, 1, nullptr));
        sum += r.as.number;
      },
      [&](int64_t i) { sum += g(static_cast<double>(i))[0].number(); });
  moonlet_value s{};
  s.kind = MOONLET_STRING;
  s.as.string = {"some text of a moderate length", 30};
  compare(
      "held function, a string",
      [&](int64_t) {
        check(moonlet_function_call(f.as.function, &s, 1, &r, 1, nullptr));
        sum += static_cast<double>(r.as.string.size);
      },
      [&](int64_t) {
        sum += static_cast<double>(g("some text of a moderate length")[0].string().size());
      });
  compare(
      "function by name, a number",
      [&](int64_t i) {
        x.as.number = static_cast<double>(i);
        check(moonlet_call(c, "same", &x, 1, &r, 1, nullptr));
        sum += r.as.number;
      },
      [&](int64_t i) { sum += cpp.call("same", static_cast<double>(i))[0].number(); });
  compare(
      "field of a table",
      [&](int64_t) {
        check(moonlet_table_get_field(t.as.table, "x", &r));
        sum += static_cast<double>(r.as.integer);
      },
      [&](int64_t) { sum += static_cast<double>(u.get("x").integer()); });
  compare_host_functions(c, cpp);
  std::printf("(sum %g)\n", sum);
}

void compare_tensors() {
  static float buffer[10];
  const int64_t size = 10;
  compare(
      "a new tensor on the host's memory",
      [&](int64_t) {
        moonlet_tensor x;
        check(moonlet_tensor_from_memory(buffer, &size, nullptr, 1, MOONLET_FLOAT32, nullptr,
                                         nullptr, &x));
        check(moonlet_tensor_free(x));
      },
      [&](int64_t) { moonlet::from_blob(buffer, {10}, moonlet::DType::Float32); });
  const moonlet::Tensor x = moonlet::from_blob(buffer, {10}, moonlet::DType::Float32);
  moonlet_value arguments[2]{}, result{};
  arguments[0].kind = arguments[1].kind = MOONLET_TENSOR;
  check(moonlet_tensor_from_memory(buffer, &size, nullptr, 1, MOONLET_FLOAT32, nullptr, nullptr,
                                   &arguments[0].as.tensor));
  arguments[1].as.tensor = arguments[0].as.tensor;
  moonlet_op op;
  check(moonlet_op_find("add", &op));
  const moonlet::OpInfo& info = *moonlet::find_op("add");
  const auto in_c = [&](int64_t) {
    check(moonlet_op_call(op, arguments, 2, &result, 1, nullptr));
    check(moonlet_value_free(&result));
  };
  compare("add of 10 elements, boxed", in_c, [&](int64_t) {
    const moonlet::BoxedValue boxes[] = {x, x};
    moonlet::call_op(info, boxes);
  });
  compare("the same beside moonlet::add", in_c, [&](int64_t) { moonlet::add(x, x); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) calls = std::max<int64_t>(1000, std::atoll(argv[1]));
  if (argc > 2) rounds = std::max(1, std::atoi(argv[2]));
  compare_calls();
  compare_tensors();
  return 0;
}
