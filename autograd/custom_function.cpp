// autograd/custom_function.cpp: the node of a call of a custom function, and what its results get
// of history.
#include "autograd/custom_function.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "autograd/history.h"
#include "autograd/recording.h"
#include "autograd/uses_custom_function.h"

namespace moonlet::autograd {

class FunctionNode final : public ChangeNode {
 public:
  FunctionNode(const std::string& function, std::shared_ptr<FunctionContext> context,
               std::shared_ptr<FunctionBody> body, size_t results,
               const std::vector<Tensor>& inputs)
      : name_(function + "Backward"),
        context_(std::move(context)),
        body_(std::move(body)),
        results_(results),
        inputs_(inputs.size()),
        is_tensor_(results) {
    for (const Tensor& t : inputs) arguments_.push_back(t.defined() ? OutputMeta(t) : OutputMeta());
  }

  const char* name() const override { return name_.c_str(); }
  void apply(Tensor* grads, Tensor* out, Wanted& wanted) override {
    run(grads, out, edges, wanted);
  }
  void run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) override;
  bool needs_result() const override { return needs_result_; }
  void release_saved() override;
  std::vector<std::string> saved_names() const override { return {"tensors"}; }
  bool read_saved(std::string_view name, std::vector<Operand>& values, bool& list) override;

  void add_output(size_t i, const Tensor& t) {
    is_tensor_[i] = true;
    set_output(static_cast<int>(i), t);
  }
  void set_needs_result() { needs_result_ = true; }
  // `output`: which result it is, or -1.
  void save(const Tensor& t, int output) {
    Saved& saved = saved_.emplace_back();
    if (output >= 0)
      saved.save_output(t, output);
    else
      saved.save(t);
  }
  std::vector<Tensor> unpack();
  void take_tangents(const Tensor& y, int output) {
    for (Saved& saved : saved_) saved.take_tangents(y, output);
  }

 private:
  friend class FunctionContext;
  [[noreturn]] void fail_freed() const;
  void take(std::vector<Tensor>& given, Tensor* out, const Edges& edges) const;

  const std::string name_;
  std::shared_ptr<FunctionContext> context_;
  std::shared_ptr<FunctionBody> body_;
  const size_t results_, inputs_;
  std::vector<bool> is_tensor_;  // of the results
  std::vector<OutputMeta> arguments_;
  bool needs_result_ = false, released_ = false;
  std::vector<Saved> saved_;
};

void FunctionNode::fail_freed() const {
  fail("backward: the tensors ", name_,
       " saved are freed already: this graph was used by an earlier backward; "
       "pass retain_graph = true there to use it again",
       body_ ? body_->origin() : "");
}

std::vector<Tensor> FunctionNode::unpack() {
  if (released_) fail_freed();
  std::vector<Tensor> out;
  out.reserve(saved_.size());
  for (const Saved& saved : saved_) out.push_back(saved.unpack(*this));
  return out;
}

bool FunctionNode::read_saved(std::string_view name, std::vector<Operand>& values, bool& list) {
  if (name != "tensors") return false;
  for (Tensor& t : unpack()) values.emplace_back(std::move(t));
  list = true;
  return true;
}

void FunctionNode::release_saved() {
  const bool holds = body_ && body_->holds_data();
  if (saved_.empty() && !holds) return;
  released_ = true;
  saved_.clear();
  if (holds) body_ = nullptr;
}

// Puts what backward gave in its places.
void FunctionNode::take(std::vector<Tensor>& given, Tensor* out, const Edges& edges) const {
  for (size_t i = 0; i < given.size(); ++i) {
    Tensor& g = given[i];
    if (!g.defined()) continue;
    const auto refuse = [&](const auto&... what) {
      fail("backward: ", name_, " gave ", what..., body_ ? body_->origin() : "");
    };
    if (i >= inputs_) refuse("a gradient for argument ", i + 1, ", and its forward took ", inputs_);
    if (!edges[i]) continue;
    const OutputMeta& meta = arguments_[i];
    if (!is_differentiable(g.dtype()))
      refuse("a gradient of dtype ", g.dtype(), " for argument ", i + 1);
    if (!(g.sizes() == meta.sizes) && !can_expand(meta.sizes, g.sizes()))
      refuse("a gradient of shape ", g.sizes(), " for argument ", i + 1, ", a tensor of shape ",
             meta.sizes);
    // Inside vmap the gradient of a constant may be one per sample.
    if (g.device().real() != meta.options.device.real())
      refuse("a gradient on ", g.device(), " for argument ", i + 1, ", a tensor on ",
             meta.options.device);
    out[i] = std::move(g);
  }
}

void FunctionNode::run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) {
  if (released_) fail_freed();
  std::vector<Tensor> given(results_);
  for (size_t i = 0; i < results_; ++i) {
    if (!is_tensor_[i]) continue;
    const int at = static_cast<int>(i);
    given[i] = context_->materialize_ ? gradient_or_zeros(grads, at) : std::move(grads[i]);
  }
  std::vector<bool> now(inputs_);
  for (size_t i = 0; i < inputs_; ++i) now[i] = wanted(edges[i]);
  // A backward inside this one may run the node again and release what it has.
  const std::shared_ptr<FunctionContext> context = context_;
  const std::shared_ptr<FunctionBody> body = body_;
  std::vector<bool> wanted_before = std::exchange(context->wanted_, std::move(now));
  const bool running_before = std::exchange(context->running_, true);
  struct Back {
    FunctionContext& context;
    std::vector<bool>& wanted;
    bool running;
    ~Back() {
      context.wanted_ = std::move(wanted);
      context.running_ = running;
    }
  };
  std::vector<Tensor> gradients;
  {
    const Back back{*context, wanted_before, running_before};
    gradients = body->backward(*context, given);
  }
  take(gradients, out, edges);
}

// --- context -------------------------------------------------------------------------------------

void FunctionContext::check_forward(const char* what) const {
  check(!finished_, what, ": forward has ended; call it there, or in setup_context");
}

void FunctionContext::save_for_backward(std::vector<Tensor> tensors) {
  check_forward("save_for_backward");
  to_save_ = std::move(tensors);
}

void FunctionContext::mark_dirty(std::vector<Tensor> tensors) {
  check_forward("mark_dirty");
  dirty_ = std::move(tensors);
}

void FunctionContext::mark_non_differentiable(std::vector<Tensor> tensors) {
  check_forward("mark_non_differentiable");
  not_differentiable_ = std::move(tensors);
}

void FunctionContext::set_materialize_grads(bool on) {
  check_forward("set_materialize_grads");
  materialize_ = on;
}

bool FunctionContext::needs_input_grad(size_t i) const {
  check(i < needs_.size(), "needs_input_grad: the function has ", needs_.size(), " arguments");
  return running_ ? wanted_[i] : needs_[i];
}

std::vector<Tensor> FunctionContext::saved_tensors() const {
  if (!finished_) return to_save_;
  const NodeRef node = node_ ? node_->owner() : NodeRef();
  if (!node) return {};
  return static_cast<FunctionNode&>(*node).unpack();
}

// --- a call --------------------------------------------------------------------------------------

FunctionCall::FunctionCall(std::string name, const std::vector<Tensor>& inputs)
    : name_(std::move(name)), inputs_(inputs), context_(std::make_shared<FunctionContext>()) {
  // The edges are those of the arguments as they are before forward may change some.
  for (const Tensor& t : inputs_) {
    const bool needs = t.defined() && t.requires_grad() && is_differentiable(t.dtype());
    context_->needs_.push_back(needs);
    edges_.push_back(needs && grad_enabled() ? edge_of(t) : Edge());
    recorded_ = recorded_ || edges_.back();
  }
}

int FunctionCall::input_index(const Tensor& t) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].defined() && inputs_[i].is_same(t)) return static_cast<int>(i);
  return -1;
}

bool FunctionCall::is_marked(const std::vector<Tensor>& list, const Tensor& t) const {
  return std::any_of(list.begin(), list.end(),
                     [&](const Tensor& each) { return each.defined() && each.is_same(t); });
}

// Before anything gets a history: whether what is marked dirty may be.
void FunctionCall::check_dirty(const std::vector<Tensor>& results) const {
  size_t tensors = 0;
  for (const Tensor& t : results) tensors += t.defined() ? 1 : 0;
  for (const Tensor& t : context_->dirty_) {
    if (!t.defined()) continue;
    check(input_index(t) >= 0, "mark_dirty: ", name_, " marked a tensor that is no argument of it");
    check(is_marked(results, t), "mark_dirty: ", name_,
          " changes an argument in place and does not return it");
    if (!recorded_) {
      check_unrecorded(t, name_.c_str());
      continue;
    }
    check_inplace(t, name_.c_str());
    check(tensors == 1 || !is_part_of_base(t), name_,
          ": a function that changes a view in place may return no other tensor than that");
  }
}

namespace {
// Another tensor on the same data: a view that keeps to itself what it gets of history.
Tensor alias(const Tensor& x) {
  Tensor out = shallow_copy(x);
  const NoGrad no_grad;
  note_view(out, x, [](const Tensor& base) { return shallow_copy(base); });
  return out;
}

void mark_of_function(const Tensor& y) {
  AutogradMeta* meta = meta_of(y);
  if (!meta || !meta->base) return;
  meta->view.no_grad = meta->view.of_function = true;
}
}  // namespace

// The tensor that the caller gets for a result. `node` is null where it has no gradient.
Tensor FunctionCall::result_of(const Tensor& result, FunctionNode* node, int output) {
  const bool input = input_index(result) >= 0, dirty = is_marked(context_->dirty_, result);
  if (!node) {
    if (dirty && !result.requires_grad()) return result;
    // What is kept by others does not lose its history.
    if (result.requires_grad() && !input && !is_view(result)) return shallow_copy(result);
    return input ? (result.requires_grad() ? shallow_copy(result) : alias(result)) : result;
  }
  if (dirty && is_part_of_base(result)) {
    rebase_history(result, NodeRef::share(*node), input_index(result));
    // Views of that memory that were looked at since forward changed it have noted its old history.
    result.storage().bump_version();
    return result;
  }
  // What has a history of its own, or another result's, keeps it.
  Tensor out = !dirty && (input || result.requires_grad()) ? alias(result) : result;
  node->add_output(static_cast<size_t>(output), out);
  set_history(out, NodeRef::share(*node), output);
  if (!dirty) mark_of_function(out);
  return out;
}

void FunctionCall::finish(std::vector<Tensor>& results, std::shared_ptr<FunctionBody> body) {
  FunctionContext& context = *context_;
  check_dirty(results);
  context.finished_ = true;
  const std::vector<Tensor> to_save = std::move(context.to_save_);
  const std::vector<Tensor> before = results;
  NodeRef node;
  FunctionNode* made = nullptr;
  if (recorded_) {
    made = new FunctionNode(name_, context_, std::move(body), results.size(), inputs_);
    node = NodeRef(made);
    made->edges = std::move(edges_);
    context.node_ = made->weak();
    for (const Tensor& t : to_save)
      if (t.defined() && is_marked(before, t)) made->set_needs_result();
    made->number();
  }
  std::vector<int> tracked(results.size(), -1);
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& y = results[i];
    if (!y.defined()) continue;
    const bool differentiable =
        made && is_differentiable(y.dtype()) && !is_marked(context.not_differentiable_, y);
    if (made) made->add_output(i, y);
    y = result_of(y, differentiable ? made : nullptr, static_cast<int>(i));
    if (differentiable) tracked[i] = static_cast<int>(i);
  }
  if (made) {
    for (const Tensor& t : to_save) {
      int output = -1;
      for (size_t i = 0; t.defined() && i < results.size(); ++i)
        if (tracked[i] >= 0 && results[i].is_same(t)) output = tracked[i];
      made->save(t, output);
    }
  }
  inputs_.clear();
  context.dirty_.clear();
  context.not_differentiable_.clear();
}

namespace {
class PlainBody final : public FunctionBody {
 public:
  explicit PlainBody(FunctionBackward backward) : backward_(std::move(backward)) {}
  std::vector<Tensor> backward(FunctionContext& context,
                               const std::vector<Tensor>& grads) override {
    return backward_(context, grads);
  }

 private:
  const FunctionBackward backward_;
};
}  // namespace

void FunctionCall::finish(std::vector<Tensor>& results, FunctionBackward backward) {
  finish(results, std::make_shared<PlainBody>(std::move(backward)));
}

void take_tangents(Node& node, const Tensor& y, int output) {
  if (auto* own = dynamic_cast<FunctionNode*>(&node)) own->take_tangents(y, output);
}

std::string detail::class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : type.name();
  const size_t colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

}  // namespace moonlet::autograd
