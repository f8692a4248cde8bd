// autograd/recording.h: how the generated functions record a call. A row's formula says which
// arguments and results each gradient uses; what is saved, cloned, unpacked and released follows
// from it here, per call, from the gradients that are in demand.
#pragma once

#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "autograd/history.h"
#include "autograd/node.h"
#include "autograd/sparse_rows.h"
#include "autograd/tape.h"
#include "tensor/core/operand.h"

namespace moonlet {

class Backward;

inline constexpr int kMaxGradients = 6;

// The fixed part of a row's derivative. A slot is a tensor argument (from 0, in the order of the
// row) or a result (behind them).
struct Formula {
  const char* node;         // "MulBackward"
  int inputs;               // tensor arguments
  uint32_t differentiable;  // those with a gradient, by bit
  int edges;                // how many these are; a list counts once
  uint32_t tracked;         // results that get a history, by bit
  // Each expression of the row: the differentiable arguments (counted among themselves) it is the
  // gradient of, and the slots it reads, by bit.
  struct Gradient {
    uint32_t targets, uses;
  };
  Gradient gradients[kMaxGradients];
  // The slots by name, a list's with brackets: "tensors[],y".
  const char* slots;
};

// A tensor argument of a call being recorded.
class RecordedInput {
 public:
  RecordedInput() = default;
  RecordedInput(const Tensor& t) : kind_(Kind::Tensor), argument_(&t) {}
  RecordedInput(const Operand& o)
      : kind_(o.is_tensor() ? Kind::Tensor : Kind::Number),
        argument_(o.is_tensor() ? static_cast<const void*>(&o.tensor()) : &o.scalar()) {}
  RecordedInput(const std::vector<Tensor>& list) : kind_(Kind::List), argument_(&list) {}

  // The number in an operand's position, or null.
  const Scalar* number() const {
    return kind_ == Kind::Number ? static_cast<const Scalar*>(argument_) : nullptr;
  }
  // The tensors: one, those of a list, or none for a number.
  std::span<const Tensor> tensors() const {
    if (kind_ == Kind::Tensor) [[likely]]
      return {static_cast<const Tensor*>(argument_), 1};
    if (kind_ == Kind::Number) return {};
    return *static_cast<const std::vector<Tensor>*>(argument_);
  }

 private:
  enum class Kind { Tensor, Number, List };
  Kind kind_ = Kind::Number;
  const void* argument_ = nullptr;
};

// The node of a call that may be a change in place, and so run inside a `CopySlices`.
class ChangeNode : public Node {
 public:
  // `apply`, for the node of a change in place of a view with the edges of its `CopySlices`.
  virtual void run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) = 0;
  void set_outer(Node* outer) { outer_ = outer; }
  // Whether it will save the (first) result.
  virtual bool needs_result() const = 0;
  Tensor restore_output(const Tensor& value, int i) override;

 private:
  Node* outer_ = nullptr;  // the CopySlices around a change in place of a view
};

// The node of a row. Derived classes hold the plain arguments and evaluate the expressions.
class RecordedNode : public ChangeNode {
 public:
  explicit RecordedNode(const Formula& formula) : formula_(formula) {}

  const char* name() const override { return formula_.node; }
  void apply(Tensor* grads, Tensor* out, Wanted& wanted) override {
    RecordedNode::run(grads, out, edges, wanted);
  }
  void run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) override;
  void release_saved() override;
  // `y`, output `output`, was given tangents after it was saved.
  void take_tangents(const Tensor& y, int output);
  std::vector<std::string> saved_names() const override;
  bool read_saved(std::string_view name, std::vector<Operand>& values, bool& list) override;

  // Adds the edges of the inputs and saves what gradients in demand read. `changed` is the tensor
  // about to be changed in place, or null.
  void take_inputs(std::span<const RecordedInput> inputs, const Tensor* changed);
  void take_result(int i, const Tensor& y, int output);
  bool needs_result() const override { return needs_slot(formula_.inputs); }
  bool tracks(int result) const { return (formula_.tracked >> result & 1u) != 0; }

 protected:
  virtual void evaluate(Backward& backward) = 0;

 private:
  friend class Backward;
  struct Slot {
    int slot;
    bool number = false;
    Scalar scalar;
    Saved saved;
  };
  void save_input(int slot, const RecordedInput& input, const Tensor* changed);
  bool needs_slot(int slot) const { return (needed_ >> slot & 1u) != 0; }

  const Formula& formula_;
  uint32_t needed_ = 0;  // the slots that gradients in demand read
  bool released_ = false;
  std::vector<Slot, memory::SmallBlockAllocator<Slot>> slots_;
};

// Takes the gradient of an argument as rows. False when only a tensor will do.
class RowsTaker {
 public:
  RowsTaker() = default;
  RowsTaker(Wanted& wanted, const Edge& edge) : wanted_(&wanted), edge_(&edge) {}
  explicit operator bool() const { return wanted_ != nullptr; }
  void take(SparseRows rows) const { wanted_->give_rows(*edge_, std::move(rows)); }

 private:
  Wanted* wanted_ = nullptr;
  const Edge* edge_ = nullptr;
};

// What an expression sees while a node runs.
class Backward {
 public:
  Backward(RecordedNode& node, Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted)
      : node_(node), grads_(grads), out_(out), edges_(edges), wanted_(wanted) {}

  // Whether the gradient of some argument of the mask is wanted.
  bool needs(uint32_t targets) const;
  // The gradient of tracked result i, zeros when none reached it; the same, or undefined.
  Tensor g(int i = 0) const { return node_.gradient_or_zeros(grads_, i); }
  const Tensor& given(int i) const { return grads_[i]; }
  // What has come to the argument's gradient from elsewhere, where it may be added to in place; the
  // expression then gives nothing. Null where it must give the gradient.
  Tensor* so_far(int argument) const {
    return &edges_ == &node_.edges ? wanted_.so_far(edges_[argument]) : nullptr;
  }
  // What takes the gradient of an argument as rows, if something does; the expression then gives
  // nothing.
  RowsTaker rows_taker(int argument) const {
    const bool taken = &edges_ == &node_.edges && wanted_.takes_rows(edges_[argument]);
    return taken ? RowsTaker(wanted_, edges_[argument]) : RowsTaker();
  }
  bool keeps_graph() const { return wanted_.keeps_graph(); }
  // What was saved. Throws when it is freed or changed since.
  Tensor saved(int slot) const;
  Operand operand(int slot) const;
  std::vector<Tensor> list(int slot) const;
  // The position for the gradient of a differentiable argument.
  Tensor& operator[](int argument) { return out_[argument]; }
  // The gradients of the tensors in a list, which is the last differentiable argument.
  void give_list(int argument, std::vector<Tensor> gradients);

 private:
  void check_kept() const;
  const RecordedNode::Slot* find(int slot) const;

  RecordedNode& node_;
  Tensor* grads_;
  Tensor* out_;
  const Edges& edges_;
  Wanted& wanted_;
};

template <class F>
class FormulaNode final : public RecordedNode {
 public:
  FormulaNode(const Formula& formula, F expressions)
      : RecordedNode(formula), expressions_(std::move(expressions)) {}

 protected:
  void evaluate(Backward& backward) override { expressions_(backward); }

 private:
  F expressions_;
};

inline bool requires_grad(const Tensor& t) { return t.defined() && t.requires_grad(); }
inline bool requires_grad(const Operand& o) { return o.requires_grad(); }
bool requires_grad(const std::vector<Tensor>& list);

// Gives the results of a call that has run their history.
void record_results(RecordedNode* made, std::span<const RecordedInput> inputs,
                    std::span<const Tensor* const> results);
template <class F>
[[gnu::noinline]] void record(const Formula& formula, F expressions,
                              std::span<const RecordedInput> inputs,
                              std::span<const Tensor* const> results) {
  record_results(new FormulaNode<F>(formula, std::move(expressions)), inputs, results);
}

// Records a change in place: made before the op runs, finished after it.
class InplaceRecording {
 public:
  InplaceRecording(RecordedNode* node, const char* op, const Tensor& x,
                   std::span<const RecordedInput> inputs);
  void finish(const Tensor& x);

 private:
  RecordedNode* node_;
  NodeRef ref_;
};
template <class F>
[[gnu::noinline]] InplaceRecording record_inplace(const Formula& formula, F expressions,
                                                  const char* op, const Tensor& x,
                                                  std::span<const RecordedInput> inputs) {
  return {new FormulaNode<F>(formula, std::move(expressions)), op, x, inputs};
}

// The in-place form of an op without a kernel of its own for it: writes its result over x.
Tensor& assign_(Tensor& x, const Tensor& result, const char* op);
// What such an op reads instead of x: a copy, when its derivative may need it after the change.
Tensor before_change(const Tensor& x);

// Throws: an out= form was called with something that would have to be recorded.
[[noreturn]] void fail_out_gradient(const char* op);

// Geometry that expressions use instead of saving the tensor.
inline Dims sizes_of(const Tensor& x) { return x.defined() ? x.sizes() : Dims{}; }
inline Dims sizes_of(const Operand& x) { return sizes_of(x.tensor()); }
std::vector<Dims> sizes_of(const std::vector<Tensor>& list);
inline Options options_of_(const Tensor& x) { return options_of(x); }
inline Options options_of_(const Operand& x) { return options_of(x.tensor()); }
inline DType dtype_of_(const Tensor& x) { return x.dtype(); }

}  // namespace moonlet
