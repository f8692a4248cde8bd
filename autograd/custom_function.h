// autograd/custom_function.h: functions with a derivative of their own, written in C++:
//
//   struct Cube : moonlet::autograd::Function<Cube> {
//     static Tensor forward(FunctionContext& ctx, const Tensor& x) {
//       ctx.save_for_backward({x});
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& grads) {
//       const Tensor x = ctx.saved_tensors()[0];
//       return {grads[0] * x * x * 3.0};
//     }
//   };
//   Tensor y = Cube::apply(x);
//
// `forward` gives a Tensor or a std::vector<Tensor>, and runs without recording. `backward` gets a
// gradient for each result and gives one for each argument: undefined for none and for what is no
// tensor; those missing at the end are none. It is recorded itself under create_graph. A
// std::vector<Tensor> among the arguments counts as the tensors in it. The node of the graph is
// called after the class, "CubeBackward", or after a member `static constexpr const char* name`.
// Scripts have the same as ml.autograd.Function.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/tape.h"

namespace moonlet::autograd {

// What one call of a function says to the tape and keeps for its backward.
class FunctionContext {
 public:
  FunctionContext() = default;
  FunctionContext(const FunctionContext&) = delete;
  FunctionContext& operator=(const FunctionContext&) = delete;

  // For `forward`. Keeps arguments, results and other tensors for `backward`, where
  // `saved_tensors` gives them with the history they have now; one that was changed in place since
  // is an error then. An undefined one stays so.
  void save_for_backward(std::vector<Tensor> tensors);
  // Arguments that `forward` has changed in place and gives back among its results.
  void mark_dirty(std::vector<Tensor> tensors);
  // Results that have no gradient.
  void mark_non_differentiable(std::vector<Tensor> tensors);
  // Whether `backward` gets zeros for results that no gradient has reached, as it does at first, or
  // undefined ones.
  void set_materialize_grads(bool on);
  // Whether the gradient of argument i, from 0, is of use: in `forward`, whether the argument
  // requires grad; in `backward`, whether the gradient is asked for.
  bool needs_input_grad(size_t i) const;
  size_t input_count() const { return needs_.size(); }
  // Throws when the graph was used and freed.
  std::vector<Tensor> saved_tensors() const;

  // Anything else that `backward` needs. Not for tensors: a result here would never be freed.
  std::unordered_map<std::string, std::any> saved_data;

 private:
  friend class FunctionCall;
  friend class FunctionNode;
  void check_forward(const char* what) const;

  std::vector<bool> needs_, wanted_;
  bool running_ = false;  // its backward
  bool finished_ = false;
  bool materialize_ = true;
  std::vector<Tensor> to_save_, dirty_, not_differentiable_;
  std::shared_ptr<HookList> node_;  // finds it without holding it
};

// `grads`: one per result. One per argument comes back.
using FunctionBackward =
    std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>& grads)>;

// How a backward that is not written in C++ runs, ends and words its errors.
class FunctionBody {
 public:
  FunctionBody() = default;
  virtual ~FunctionBody() = default;
  FunctionBody(const FunctionBody&) = delete;
  FunctionBody& operator=(const FunctionBody&) = delete;
  virtual std::vector<Tensor> backward(FunctionContext& context,
                                       const std::vector<Tensor>& grads) = 0;
  // Whether it has to go once the node has run, as what was saved.
  virtual bool holds_data() const { return false; }
  // For messages: " (its forward was called at ...)".
  virtual std::string origin() const { return {}; }
};

// One call: made with the tensors among the arguments (undefined for others) before `forward`, and
// finished with its results.
class FunctionCall {
 public:
  FunctionCall(std::string name, const std::vector<Tensor>& inputs);
  const std::shared_ptr<FunctionContext>& context() const { return context_; }
  // Whether it gets a node.
  bool recorded() const { return recorded_; }
  // Gives the results (undefined for what is no tensor) their history. Puts another tensor on the
  // same data where an argument itself was returned.
  void finish(std::vector<Tensor>& results, std::shared_ptr<FunctionBody> body);
  void finish(std::vector<Tensor>& results, FunctionBackward backward);

 private:
  void check_dirty(const std::vector<Tensor>& results) const;
  int input_index(const Tensor& t) const;
  bool is_marked(const std::vector<Tensor>& list, const Tensor& t) const;
  Tensor result_of(const Tensor& result, class FunctionNode* node, int output);

  std::string name_;  // of the function
  bool recorded_ = false;
  std::vector<Tensor> inputs_;
  Edges edges_;
  std::shared_ptr<FunctionContext> context_;
};

// Where the node is one of a function: results that it has saved get the tangents of y, its output
// of that number.
void take_tangents(Node& node, const Tensor& y, int output);

namespace detail {

// "ns::Cube" from a mangled name, without the namespaces.
std::string class_name(const std::type_info& type);

template <class T>
concept Named = requires {
  T::name;
};

template <class T>
std::string function_name() {
  if constexpr (Named<T>)
    return T::name;
  else
    return class_name(typeid(T));
}

inline void take_input(std::vector<Tensor>& out, const Tensor& t) { out.push_back(t); }
inline void take_input(std::vector<Tensor>& out, const std::vector<Tensor>& list) {
  out.insert(out.end(), list.begin(), list.end());
}
template <class T>
void take_input(std::vector<Tensor>& out, const T&) {
  out.emplace_back();
}

}  // namespace detail

template <class Derived>
struct Function {
  template <class... Arguments>
  static auto apply(Arguments&&... arguments) {
    std::vector<Tensor> inputs;
    (detail::take_input(inputs, arguments), ...);
    FunctionCall call(detail::function_name<Derived>(), inputs);
    inputs.clear();
    auto result = [&] {
      const NoGrad no_grad;
      return Derived::forward(*call.context(), std::forward<Arguments>(arguments)...);
    }();
    const FunctionBackward backward = [](FunctionContext& ctx, const std::vector<Tensor>& grads) {
      return Derived::backward(ctx, grads);
    };
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      std::vector<Tensor> results{std::move(result)};
      call.finish(results, backward);
      return std::move(results[0]);
    } else {
      call.finish(result, backward);
      return result;
    }
  }
};

}  // namespace moonlet::autograd
