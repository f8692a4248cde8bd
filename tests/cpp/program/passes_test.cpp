// tests/cpp/program/passes_test.cpp: each pass on a graph that is printed before and after it, with
// traps: memory that is written in between, outputs, views. Each graph gives the same bits after.
#include "tests/cpp/catch2.h"

#include "tensor/program/passes/passes.h"
#include "tensor/program/passes/rewrite.h"
#include "tests/cpp/program/graph_checks.h"
#include "tests/cpp/program/raw_calls.h"

using namespace moonlet;
using namespace moonlet::program;
using namespace moonlet::program::calls;

namespace {

// The graph of f after the pass, printed with new numbers, once it is known to compute the same.
std::string after(const std::function<bool(Graph&)>& pass, const Tensors& inputs,
                  const Function& f) {
  Copies copies;
  const Tensors before = copies(inputs);
  Graph graph = captured(inputs, f);
  const size_t parameters = graph.parameters.size();
  const Outcome expected = outcome(graph, before, parameters);
  pass(graph);
  compact(graph);
  CHECK(outcome(graph, before, parameters) == expected);
  return to_string(graph);
}

std::string after_all(const Tensors& inputs, const Function& f, const PassOptions& options = {}) {
  return after([&](Graph& graph) { return run_passes(graph, options), true; }, inputs, f);
}

}  // namespace

TEST_CASE("a graph runs node by node, in the memory that it is given") {
  Tensor x = numbers({2, 3}), w = numbers({2, 3}, 2);
  Copies copies;
  const Tensors start = copies({x, w});
  Tensors gave;
  const Graph graph = captured(
      {x, w},
      [](Tensors& in) -> Tensors {
        Tensor t = transpose(in[0], 0, 1), y = mul(in[0], in[1]);
        add_(t, 1.5);
        mul_(y, in[0]);
        return {y, t};
      },
      &gave);
  Copies again;
  const Tensors given = again(start);
  const Tensors out = interpret_raw(graph, given);
  CHECK(bits(out[0]) == bits(gave[0]));
  CHECK(bits(out[1]) == bits(gave[1]));
  CHECK(bits(given[0]) == bits(x));
  CHECK(&out[1].storage() == &given[0].storage());
  CHECK_THROWS_WITH(interpret_raw(graph, Tensors{x}),
                    ContainsSubstring("expected 2 inputs, got 1"));
  CHECK_THROWS_WITH(interpret_raw(graph, Tensors{x, numbers({3, 2})}),
                    ContainsSubstring("input 2: expected float32 of shape (2, 3)"));
}

TEST_CASE("an input at another position in its memory is found there") {
  Tensor x = numbers({4});
  const Graph graph = captured({x}, [](Tensors& in) -> Tensors {
    Tensor part = slice(in[0], 0, 1, 3, 1);
    mul_(part, 2.0);
    return {sum(strided_view(part, {2}, {1}, part.offset()))};
  });
  Tensor larger = numbers({9}, 2), moved = slice(larger, 0, 3, 7, 1);
  Copies copies;
  Tensor same = copies(moved);
  const Tensors out = interpret_raw(graph, Tensors{moved});
  Tensor part = slice(same, 0, 1, 3, 1);
  mul_(part, 2.0);
  CHECK(bits(out[0]) == bits(sum(part)));
  CHECK(bits(moved) == bits(same));
}

TEST_CASE("dead code goes, with the views that led to it") {
  CHECK(after(drop_dead_code, {numbers({2, 3})}, [](Tensors& in) -> Tensors {
          static_cast<void>(exp(transpose(in[0], 0, 1)));
          Tensor t = neg(in[0]);
          Tensor unused = mul(t, 2.0);
          add_(unused, t);
          return {t};
        }) == R"(input %0 : float32 (2, 3)
%1 = neg(%0) : float32 (2, 3)
return %1
)");
}

TEST_CASE("what is written before it is read stays, through views too") {
  CHECK(after(drop_dead_code, {numbers({2, 3})}, [](Tensors& in) -> Tensors {
          Tensor t = neg(in[0]);
          Tensor row = select(t, 0, 1);
          fill_(row, 4.0);
          Tensor other = select(in[0], 0, 0);
          add_(other, 1.0);
          return {t};
        }) == R"(input %0 : float32 (2, 3)
%1 = neg(%0) : float32 (2, 3)
%2 = select(%1, 0, 1) : float32 (3,)
%2 = fill_(%2, 4) : float32 (3,)
%3 = select(%0, 0, 0) : float32 (3,)
%3 = add_(%3, 1) : float32 (3,)
return %1
)");
}

TEST_CASE("a dead node stays that writes to what is not its result") {
  const Tensor mean = numbers({3}), var = of({3}, {1, 2, 3});
  const Function f = [&](Tensors& in) -> Tensors {
    static_cast<void>(batch_norm(in[0], mean, var));
    const Tensor own = neg(in[1]), other = add(in[1], 2.0);
    static_cast<void>(batch_norm(mul(in[0], 3.0), own, other));
    return {mul(own, 2.0)};
  };
  const std::string text = after_all({numbers({4, 3}), numbers({3})}, f);
  CHECK(std::count(text.begin(), text.end(), '\n') == 11);
  CHECK_THAT(text, ContainsSubstring("native_batch_norm(%0, nil, nil, %2, %3"));
}

TEST_CASE("dead nodes that draw numbers or check what they read stay") {
  const std::string text =
      after(drop_dead_code,
            {numbers({2, 3}), of({2}, {1, 2}, DType::Int64), of({2}, {0, 3}, DType::Int64)},
            [](Tensors& in) -> Tensors {
              Tensor noise = neg(in[0]);
              uniform_(noise);
              static_cast<void>(index_select(in[0], 0, in[1]));
              static_cast<void>(add(in[1], in[2]));
              static_cast<void>(floor_divide(in[2], in[1]));
              Tensor y = neg(in[0]);
              uniform_(y);
              return {y};
            });
  CHECK_THAT(text, ContainsSubstring("index_select("));
  CHECK_THAT(text, ContainsSubstring("floor_divide("));
  CHECK_THAT(text, !ContainsSubstring("add("));
  CHECK(std::count(text.begin(), text.end(), '_') >= 3);
}

TEST_CASE("an error for what a dead node reads is raised as before") {
  const Tensors inputs = {numbers({2, 3}), of({2}, {1, 9}, DType::Int64)};
  Graph graph = captured({inputs[0], of({2}, {1, 2}, DType::Int64)}, [](Tensors& in) -> Tensors {
    static_cast<void>(index_select(in[0], 0, in[1]));
    return {neg(in[0])};
  });
  const Outcome before = outcome(graph, inputs, 0);
  CHECK_THAT(before.error, ContainsSubstring("index_select"));
  run_passes(graph);
  CHECK(outcome(graph, inputs, 0) == before);
}

TEST_CASE("views that look the same are one, and views of views one view") {
  CHECK(after_all({numbers({2, 3, 4})}, [](Tensors& in) -> Tensors {
          Tensor a = transpose(in[0], 0, 1), b = transpose(in[0], 0, 1);
          Tensor back = transpose(a, 0, 1);
          Tensor turned = permute(a, {2, 0, 1});
          Tensor flat = view(view(neg(in[0]), {6, 4}), {3, 8});
          return {add(mul(a, b), a), mul(back, 2.0), neg(turned), exp(flat)};
        }) == R"(input %0 : float32 (2, 3, 4)
%1 = transpose(%0, 0, 1) : float32 (3, 2, 4) strides (4, 12, 1)
%2 = permute(%0, (2, 1, 0)) : float32 (4, 3, 2) strides (1, 4, 12)
%3 = neg(%0) : float32 (2, 3, 4)
%4 = view(%3, (3, 8)) : float32 (3, 8)
%5 = mul(%1, %1) : float32 (3, 2, 4) strides (4, 12, 1)
%6 = add(%5, %1) : float32 (3, 2, 4) strides (4, 12, 1)
%7 = mul(%0, 2) : float32 (2, 3, 4)
%8 = neg(%2) : float32 (4, 3, 2) strides (1, 4, 12)
%9 = exp(%4) : float32 (3, 8)
return %6, %7, %8, %9
)");
}

TEST_CASE("a view that is an output stays a tensor of its own") {
  CHECK(after(merge_views, {numbers({2, 3})}, [](Tensors& in) -> Tensors {
          Tensor a = transpose(in[0], 0, 1);
          return {a, transpose(in[0], 0, 1), transpose(a, 0, 1)};
        }) == R"(input %0 : float32 (2, 3)
%1 = transpose(%0, 0, 1) : float32 (3, 2) strides (1, 3)
%2 = transpose(%0, 0, 1) : float32 (3, 2) strides (1, 3)
%3 = permute(%0, (0, 1)) : float32 (2, 3)
return %1, %2, %3
)");
}

TEST_CASE("changes in place become values, as far as views of them") {
  CHECK(after(make_functional, {numbers({2, 3}), numbers({3}, 2)}, [](Tensors& in) -> Tensors {
          Tensor y = neg(in[0]);
          Tensor t = transpose(y, 0, 1);
          add_(y, in[1]);
          mul_(t, t);
          Tensor z = exp(t);
          return {y, z};
        }) == R"(input %0 : float32 (2, 3)
input %1 : float32 (3,)
%2 = neg(%0) : float32 (2, 3)
%3 = transpose(%2, 0, 1) : float32 (3, 2) strides (1, 3)
%4 = add(%2, %1) : float32 (2, 3)
%5 = strided_view(%4, (3, 2), (1, 3), 0, (3, 1), 0) : float32 (3, 2) strides (1, 3)
%6 = mul(%5, %5) : float32 (3, 2) strides (1, 3)
%7 = strided_view(%6, (2, 3), (3, 1), 0, (1, 3), 0) : float32 (2, 3)
%8 = exp(%6) : float32 (3, 2) strides (1, 3)
return %7, %8
)");
}

TEST_CASE("changes in place stay where somebody could tell") {
  const auto unchanged = [](const Tensors& inputs, const Function& f) {
    const std::string before = after([](Graph&) { return false; }, inputs, f);
    CHECK(after(make_functional, inputs, f) == before);
  };
  // Inputs, parts, wider dtypes of the other argument, results that would lie otherwise.
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors { return {add_(in[0], 1.0)}; });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor y = neg(in[0]), part = select(y, 0, 0);
    mul_(part, 2.0);
    return {y};
  });
  unchanged({numbers({2, 3}), numbers({2, 3}, 2, DType::Float64)}, [](Tensors& in) -> Tensors {
    Tensor y = neg(in[0]);
    add_(y, in[1]);
    return {y};
  });
  Tensor weight = numbers({2, 3}, 5);
  unchanged({numbers({2, 3})}, [&](Tensors& in) -> Tensors {
    add_(weight, in[0]);
    return {mul(weight, 2.0)};
  });
}

TEST_CASE("a copy over the whole of new memory is a clone or a conversion") {
  CHECK(after(make_functional, {numbers({2, 3}), numbers({2, 3}, 2, DType::Float64)},
              [](Tensors& in) -> Tensors {
                Tensor y = neg(in[0]);
                copy_(y, in[1]);
                Tensor z = mul(y, 2.0);
                copy_(y, in[0]);
                return {z, y};
              }) == R"(input %0 : float32 (2, 3)
input %1 : float64 (2, 3)
%2 = neg(%0) : float32 (2, 3)
%3 = convert(%1, float32, nil, nil) : float32 (2, 3)
%4 = mul(%3, 2) : float32 (2, 3)
%5 = clone(%0, nil) : float32 (2, 3)
return %4, %5
)");
}

TEST_CASE("what is computed twice is computed once") {
  CHECK(after(merge_common, {numbers({2, 3})}, [](Tensors& in) -> Tensors {
          Tensor a = exp(in[0]), b = exp(in[0]);
          Tensor d = mul(transpose(b, 0, 1), 2.0), e = mul(b, -0.0), f = mul(a, 0.0);
          return {add(a, b), d, e, f, mul(a, 0.0)};
        }) == R"(input %0 : float32 (2, 3)
%1 = exp(%0) : float32 (2, 3)
%2 = transpose(%1, 0, 1) : float32 (3, 2) strides (1, 3)
%3 = mul(%2, 2) : float32 (3, 2) strides (1, 3)
%4 = mul(%1, -0) : float32 (2, 3)
%5 = mul(%1, 0) : float32 (2, 3)
%6 = add(%1, %1) : float32 (2, 3)
%7 = mul(%1, 0) : float32 (2, 3)
return %6, %3, %4, %5, %7
)");
}

TEST_CASE("what looks the same but is not is computed twice") {
  const auto unchanged = [](const Tensors& inputs, const Function& f) {
    const std::string before = after([](Graph&) { return false; }, inputs, f);
    CHECK(after(merge_common, inputs, f) == before);
  };
  // The argument changes in between; the result does; both are outputs; random numbers.
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor a = exp(in[0]), row = select(in[0], 0, 1);
    add_(row, 1.0);
    return {a, neg(exp(in[0]))};
  });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor a = exp(in[0]), b = exp(in[0]);
    add_(a, 1.0);
    return {mul(a, b)};
  });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors { return {exp(in[0]), exp(in[0])}; });
  unchanged({numbers({2, 3})},
            [](Tensors& in) -> Tensors { return {mul(dropout_mask(in[0]), dropout_mask(in[0]))}; });
}

TEST_CASE("large results that are not alive any more are computed again, as in a checkpoint") {
  const auto f = [](Tensors& in) -> Tensors {
    Tensor y = sum(exp(in[0]));
    return {y, add(mul(exp(in[0]), 3.0), y)};
  };
  CHECK_THAT(after(merge_common, {numbers({400, 100})}, f), ContainsSubstring("%3 = exp(%0)"));
  CHECK_THAT(after(merge_common, {numbers({4, 100})}, f), !ContainsSubstring("%3 = exp(%0)"));
}

TEST_CASE("copies go whose source could have been used") {
  CHECK(after(drop_copies, {numbers({2, 3}), numbers({2, 3})}, [](Tensors& in) -> Tensors {
          // Read only; the last use of the source; an output of new memory.
          Tensor a = clone(in[0]), b = clone(exp(in[0]));
          Tensor part = slice(clone(slice(in[1], 1, 1, 3, 1)), 0, 1, 2, 1);
          add_(b, a);
          return {b, clone(neg(transpose(a, 0, 1))), neg(part)};
        }) == R"(input %0 : float32 (2, 3)
input %1 : float32 (2, 3)
%2 = exp(%0) : float32 (2, 3)
%3 = slice(%1, 1, 1, 3, 1) : float32 (2, 2) strides (3, 1)
%4 = clone(%3, nil) : float32 (2, 2)
%5 = slice(%4, 0, 1, 2, 1) : float32 (1, 2)
%2 = add_(%2, %0) : float32 (2, 3)
%6 = transpose(%0, 0, 1) : float32 (3, 2) strides (1, 3)
%7 = neg(%6) : float32 (3, 2) strides (1, 3)
%8 = neg(%5) : float32 (1, 2)
return %2, %7, %8
)");
}

TEST_CASE("copies stay that somebody could tell from their source") {
  const auto unchanged = [](const Tensors& inputs, const Function& f) {
    const std::string before = after([](Graph&) { return false; }, inputs, f);
    CHECK(after(drop_copies, inputs, f) == before);
  };
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors { return {clone(in[0])}; });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor a = clone(in[0]);
    add_(in[0], 1.0);
    return {mul(a, in[0])};
  });
  // Read by the very op that writes the source.
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor a = clone(in[0]);
    add_(in[0], a);
    return {};
  });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor y = exp(in[0]), a = clone(y);
    add_(a, 1.0);
    return {mul(a, y)};
  });
  unchanged({numbers({2, 3})}, [](Tensors& in) -> Tensors {
    Tensor y = exp(in[0]);
    return {y, clone(y)};
  });
  unchanged({numbers({2, 3})},
            [](Tensors& in) -> Tensors { return {neg(contiguous(transpose(in[0], 0, 1)))}; });
}

TEST_CASE("relu of a convolution that nothing else uses becomes part of it") {
  const Tensor w = numbers({3, 2, 2, 2}), b = numbers({3});
  const Tensors images{numbers({1, 2, 3, 3}, -4)};
  CHECK(after_all(images, [&](Tensors& in) -> Tensors {
          Tensor y = conv(in[0], w, b, 0);
          inplace("relu", y);
          return {sum(relu(conv(y, numbers({2, 3, 1, 1}), {}, 0)), {1})};
        }) == R"(input %0 : float32 (1, 2, 3, 3)
parameter %1 : float32 (3, 2, 2, 2)
parameter %2 : float32 (3,)
parameter %3 : float32 (2, 3, 1, 1)
%4 = native_conv_relu(%0, %1, %2, (1, 1), (0, 0), (1, 1), 1) : float32 (1, 3, 2, 2)
%5 = native_conv_relu(%4, %3, nil, (1, 1), (0, 0), (1, 1), 1) : float32 (1, 2, 2, 2)
%6 = sum(%5, (1,), false, nil) : float32 (1, 2, 2)
return %6
)");
  const auto stays = [&](const Function& f) {
    CHECK_THAT(after_all(images, f), !ContainsSubstring("native_conv_relu"));
  };
  // Seen by who gets it, by another op, or by what was written to it.
  stays([&](Tensors& in) -> Tensors {
    const Tensor y = conv(in[0], w, b, 0);
    return {y, relu(y)};
  });
  stays([&](Tensors& in) -> Tensors {
    const Tensor y = conv(in[0], w, b, 0);
    return {relu(y), sum(y)};
  });
  stays([&](Tensors& in) -> Tensors {
    Tensor y = conv(in[0], w, b, 0);
    Tensor part = select(y, 1, 0);
    add_(part, 1.0);
    return {relu(y)};
  });
  // Another part of it, and one that lies otherwise.
  stays([&](Tensors& in) -> Tensors { return {relu(slice(conv(in[0], w, b, 0), 2, 0, 1, 1))}; });
  stays([&](Tensors& in) -> Tensors { return {relu(transpose(conv(in[0], w, b, 0), 2, 3))}; });
  // In one loop with what comes next.
  stays([&](Tensors& in) -> Tensors { return {add(relu(conv(in[0], w, b, 0)), 1.0)}; });
}

TEST_CASE("what depends on constants alone is computed once") {
  const Tensor weight = numbers({3, 2}), scale = numbers({3, 1}, 2);
  const Function f = [&](Tensors& in) -> Tensors {
    Tensor w = mul(weight, scale);
    return {mm(in[0], transpose(exp(w), 0, 1)), neg(weight)};
  };
  PassOptions options;
  options.parameters_constant = true;
  CHECK(after_all({numbers({4, 2})}, f, options) == R"(input %0 : float32 (4, 2)
parameter %1 : float32 (3, 2)
parameter %2 : float32 (3, 1)
parameter %3 : float32 (3, 2)
%4 = transpose(%3, 0, 1) : float32 (2, 3) strides (1, 2)
%5 = mm(%0, %4) : float32 (4, 3)
%6 = neg(%1) : float32 (3, 2)
return %5, %6
)");
  CHECK_THAT(after_all({numbers({4, 2})}, f), ContainsSubstring("exp("));
  options.constant_bytes = 8;
  CHECK_THAT(after_all({numbers({4, 2})}, f, options), ContainsSubstring("exp("));
}

TEST_CASE("a parameter that the graph writes is no constant") {
  Tensor weight = numbers({3});
  PassOptions options;
  options.parameters_constant = true;
  CHECK_THAT(after_all(
                 {numbers({3})},
                 [&](Tensors& in) -> Tensors {
                   Tensor y = mul(exp(weight), in[0]);
                   add_(weight, in[0]);
                   return {y};
                 },
                 options),
             ContainsSubstring("exp("));
}
