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
//
// Forward mode asks a member, where there is one, for the tangents of the results; its `tangents`
// are those of the arguments, undefined for none:
//
//     static std::vector<Tensor> jvp(FunctionContext& ctx, const std::vector<Tensor>& tangents);
//
// Else it differentiates `backward`, which must then be made of ops: the gradients are linear in
// those of the results, by the Jacobian transposed. Inside vmap `forward` gets tensors that stand
// for a whole batch, which ops take and `data<T>()` refuses.
// Scripts have the same as ml.autograd.Function.
#pragma once

#include <algorithm>
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

// Gives tangents of results from those of the inputs, as `jvp` does.
using FunctionJvp =
    std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>& tangents)>;

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
  // `along`: the inputs by which `tangents` will differentiate backward; none where it is empty.
  FunctionCall(std::string name, const std::vector<Tensor>& inputs,
               const std::vector<bool>& along = {});
  ~FunctionCall();
  FunctionCall(const FunctionCall&) = delete;
  FunctionCall& operator=(const FunctionCall&) = delete;
  const std::shared_ptr<FunctionContext>& context() const { return context_; }
  // Whether its backward may be called.
  bool needs_backward() const { return recorded_ || for_tangents_; }
  bool derives_tangents() const { return for_tangents_; }
  // Of a finished call, whether some results are inputs, changed in place.
  bool changes_inputs() const {
    return std::find(changed_.begin(), changed_.end(), true) != changed_.end();
  }
  // Gives the results (undefined for what is no tensor) their history. Puts another tensor on the
  // same data where an argument itself was returned.
  void finish(std::vector<Tensor>& results, std::shared_ptr<FunctionBody> body);
  void finish(std::vector<Tensor>& results, FunctionBackward backward);
  // Of a finished call, the tangents of the results from those of the inputs, undefined for none:
  // the derivative of backward by the gradients that it is given. Throws where ops do not tell it.
  std::vector<Tensor> tangents(const std::vector<Tensor>& along) const;
  // The same by `jvp`.
  std::vector<Tensor> tangents_by(const FunctionJvp& jvp, const std::vector<Tensor>& along) const;
  // Gives result i, where it is differentiable, its tangent of a level; undefined for zero.
  void set_tangent(size_t i, const Tensor& tangent, uint64_t level) const;

 private:
  void check_dirty(const std::vector<Tensor>& results) const;
  int input_index(const Tensor& t) const;
  bool is_marked(const std::vector<Tensor>& list, const Tensor& t) const;
  Tensor result_of(const Tensor& result, class FunctionNode* node, int output);
  void save(class FunctionNode& node, const std::vector<Tensor>& tensors) const;
  std::vector<Tensor> starts() const;
  [[noreturn]] void refuse_tangents(const char* what, size_t i) const;
  void check_linear(const std::vector<Tensor>& starts, const std::vector<Tensor>& tangents,
                    const std::vector<Tensor>& gradients, const std::vector<Tensor>& along) const;

  // What is saved is at hand as it was, for a C++ scope.
  class InsideCall {
   public:
    explicit InsideCall(const FunctionCall& call);
    ~InsideCall();
    InsideCall(const InsideCall&) = delete;
    InsideCall& operator=(const InsideCall&) = delete;

   private:
    const FunctionCall& call_;
  };

  std::string name_;  // of the function
  bool recorded_ = false, for_tangents_ = false, recorded_outside_ = false;
  std::vector<Tensor> inputs_;
  Edges edges_;
  std::shared_ptr<FunctionContext> context_;
  // Once it is finished.
  NodeRef node_;
  std::vector<Tensor> results_;
  std::vector<int> outputs_;   // which output of the node a result is, or -1
  std::vector<bool> changed_;  // results that are inputs, changed in place
};

// The levels of forward mode that a call of a function in C++ is made in. They are suspended until
// it is finished, so that forward may compute in whatever way; then its results get their tangents.
class FunctionLevels {
 public:
  FunctionLevels(const char* name, const std::vector<Tensor>& inputs);
  ~FunctionLevels() { resume(); }
  FunctionLevels(const FunctionLevels&) = delete;
  FunctionLevels& operator=(const FunctionLevels&) = delete;
  // The inputs that have tangents.
  const std::vector<bool>& along() const { return along_; }
  // By `jvp`, or where it is empty by the call's backward.
  void finish(const FunctionCall& call, const FunctionJvp& jvp);

 private:
  struct Level {
    uint64_t level;
    bool any;
    std::vector<Tensor> tangents;  // of the inputs
  };
  void resume();

  std::vector<Level> suspended_;  // the innermost first
  std::vector<bool> along_;
};

// Where the node is one of a function: results that it has saved get the tangents of y, its output
// of that number.
void take_tangents(Node& node, const Tensor& y, int output);
// Whether the node is one of a function.
bool is_function_node(const Node& node);

namespace detail {

// "ns::Cube" from a mangled name, without the namespaces.
std::string class_name(const std::type_info& type);

template <class T>
concept Named = requires {
  T::name;
};

template <class T>
concept HasJvp = requires(FunctionContext& ctx, const std::vector<Tensor>& tangents) {
  T::jvp(ctx, tangents);
};

template <class T>
FunctionJvp function_jvp() {
  if constexpr (HasJvp<T>)
    return [](FunctionContext& ctx, const std::vector<Tensor>& tangents) {
      return T::jvp(ctx, tangents);
    };
  else
    return {};
}

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
    const std::string name = detail::function_name<Derived>();
    FunctionLevels levels(name.c_str(), inputs);
    FunctionCall call(name, inputs, levels.along());
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
      levels.finish(call, detail::function_jvp<Derived>());
      return std::move(results[0]);
    } else {
      call.finish(result, backward);
      levels.finish(call, detail::function_jvp<Derived>());
      return result;
    }
  }
};

}  // namespace moonlet::autograd
