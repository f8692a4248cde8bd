// autograd/custom_function.cpp: the node of a call of a custom function, and what its results get
// of history.
#include "autograd/custom_function.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "autograd/forward_mode.h"
#include "autograd/history.h"
#include "autograd/host_value.h"
#include "autograd/recording.h"
#include "autograd/saved_hooks.h"
#include "autograd/uses_custom_function.h"
#include "tensor/runtime/batched.h"

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
  // The same for `gradients` inside of the call, where hooks have no part in it.
  void save_for_call(const Tensor& t, int output) {
    const PlainSaving plain;
    save(t, output);
    saved_for_call_.push_back(std::move(saved_.back()));
    saved_.pop_back();
  }
  void end_call() { saved_for_call_.clear(); }
  void set_inside_call(bool on) { inside_call_ = on; }
  std::vector<Tensor> unpack();
  void take_tangents(const Tensor& y, int output) {
    for (Saved& saved : saved_) saved.take_tangents(y, output);
    for (Saved& saved : saved_for_call_) saved.take_tangents(y, output);
  }
  // What backward gives for the arguments, as it is; `grads`: one per result.
  std::vector<Tensor> gradients(Tensor* grads, std::vector<bool> wanted);
  // Throws unless it may be the gradient of argument i.
  void check_gradient(size_t i, const Tensor& g) const;
  std::string origin() const { return body_ ? body_->origin() : std::string(); }

 private:
  friend class FunctionContext;
  [[noreturn]] void fail_freed() const;

  const std::string name_;
  std::shared_ptr<FunctionContext> context_;
  std::shared_ptr<FunctionBody> body_;
  const size_t results_, inputs_;
  std::vector<bool> is_tensor_;  // of the results
  std::vector<OutputMeta, memory::SmallBlockAllocator<OutputMeta>> arguments_;
  bool needs_result_ = false, released_ = false, inside_call_ = false;
  std::vector<Saved, memory::SmallBlockAllocator<Saved>> saved_, saved_for_call_;
};

void FunctionNode::fail_freed() const {
  fail("backward: the tensors ", name_,
       " saved are freed already: this graph was used by an earlier backward; "
       "pass retain_graph = true there to use it again",
       origin());
}

std::vector<Tensor> FunctionNode::unpack() {
  if (released_) fail_freed();
  const auto& all = inside_call_ ? saved_for_call_ : saved_;
  std::vector<Tensor> out;
  out.reserve(all.size());
  for (const Saved& saved : all) out.push_back(saved.unpack(*this));
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

void FunctionNode::check_gradient(size_t i, const Tensor& g) const {
  const auto refuse = [&](const auto&... what) {
    fail("backward: ", name_, " gave ", what..., origin());
  };
  if (i >= inputs_) refuse("a gradient for argument ", i + 1, ", and its forward took ", inputs_);
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
}

std::vector<Tensor> FunctionNode::gradients(Tensor* grads, std::vector<bool> wanted) {
  if (released_) fail_freed();
  std::vector<Tensor> given(results_);
  for (size_t i = 0; i < results_; ++i) {
    if (!is_tensor_[i]) continue;
    const int at = static_cast<int>(i);
    given[i] = context_->materialize_ ? gradient_or_zeros(grads, at) : std::move(grads[i]);
  }
  // A backward inside this one may run the node again and release what it has.
  const std::shared_ptr<FunctionContext> context = context_;
  const std::shared_ptr<FunctionBody> body = body_;
  std::vector<bool> wanted_before = std::exchange(context->wanted_, std::move(wanted));
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
  const Back back{*context, wanted_before, running_before};
  return body->backward(*context, given);
}

void FunctionNode::run(Tensor* grads, Tensor* out, const Edges& edges, Wanted& wanted) {
  std::vector<bool> now(inputs_);
  for (size_t i = 0; i < inputs_; ++i) now[i] = wanted(edges[i]);
  std::vector<Tensor> found = gradients(grads, std::move(now));
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined() || (i < inputs_ && !edges[i])) continue;
    check_gradient(i, found[i]);
    out[i] = std::move(found[i]);
  }
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

FunctionCall::FunctionCall(std::string name, const std::vector<Tensor>& inputs,
                           const std::vector<bool>& along)
    : name_(std::move(name)), inputs_(inputs), context_(memory::make_shared<FunctionContext>()) {
  // The edges are those of the arguments as they are before forward may change some.
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& t = inputs_[i];
    const bool needs = t.defined() && t.requires_grad() && is_differentiable(t.dtype());
    const bool has_tangent = i < along.size() && along[i];
    context_->needs_.push_back(needs || has_tangent);
    edges_.push_back(needs && grad_enabled() ? edge_of(t) : Edge());
    recorded_ = recorded_ || edges_.back();
    for_tangents_ = for_tangents_ || has_tangent;
    recorded_outside_ = recorded_outside_ || (t.defined() && values_require_grad(t));
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
    // Views of that memory that were looked at since forward changed it have noted its old history,
    // as this one may have.
    result.storage().bump_version();
    rebase_history(result, NodeRef::share(*node), input_index(result));
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
  if (needs_backward()) {
    made = new FunctionNode(name_, context_, std::move(body), results.size(), inputs_);
    node = NodeRef(made);
    made->edges = std::move(edges_);
    context.node_ = made->weak();
    for (const Tensor& t : to_save)
      if (t.defined() && is_marked(before, t)) made->set_needs_result();
    made->number();
  }
  outputs_.assign(results.size(), -1);
  changed_.assign(results.size(), false);
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor& y = results[i];
    if (!y.defined()) continue;
    const bool differentiable =
        made && is_differentiable(y.dtype()) && !is_marked(context.not_differentiable_, y);
    if (made) made->add_output(i, y);
    changed_[i] = is_marked(context.dirty_, y);
    y = result_of(y, differentiable && recorded_ ? made : nullptr, static_cast<int>(i));
    if (differentiable) outputs_[i] = static_cast<int>(i);
  }
  results_ = results;
  if (made) save(*made, to_save);
  if (for_tangents_) node_ = node;
  inputs_.clear();
  context.dirty_.clear();
  context.not_differentiable_.clear();
}

void FunctionCall::save(FunctionNode& node, const std::vector<Tensor>& tensors) const {
  for (const Tensor& t : tensors) {
    int output = -1;
    for (size_t i = 0; t.defined() && i < results_.size(); ++i)
      if (outputs_[i] >= 0 && results_[i].is_same(t)) output = outputs_[i];
    if (recorded_) node.save(t, output);
    if (for_tangents_) node.save_for_call(t, output);
  }
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
  finish(results, memory::make_shared<PlainBody>(std::move(backward)));
}

// --- tangents ------------------------------------------------------------------------------------

FunctionCall::~FunctionCall() {
  if (node_) static_cast<FunctionNode&>(*node_).end_call();
}

namespace {

// Of one dtype and shape: the sum of the products of their elements, and that of their sizes.
struct Products {
  Tensor sum, sizes;
  void add(const Tensor& a, const Tensor& b) {
    const bool complex = is_complex(a.dtype());
    const Tensor wide = to(detach(a), complex ? DType::Complex128 : DType::Float64);
    const Tensor each = mul(conj(wide), to(detach(b), wide.dtype()));
    const Tensor parts = moonlet::sum(complex ? real(each) : each), all = moonlet::sum(abs(each));
    sum = sum.defined() ? moonlet::add(sum, parts) : parts;
    sizes = sizes.defined() ? moonlet::add(sizes, all) : all;
  }
};

double precision_of(DType dtype) {
  if (real_of(dtype) == DType::Float64) return 1e-7;
  return real_of(dtype) == DType::Float32 ? 1e-3 : 0.1;
}

}  // namespace

// What to call backward with: any would do, since what it gives is linear in it. The elements
// differ, so that they cancel nowhere, and none is above 1, so that a backward that limits
// gradients is linear there.
std::vector<Tensor> FunctionCall::starts() const {
  std::vector<Tensor> out(results_.size());
  for (size_t i = 0; i < results_.size(); ++i) {
    if (outputs_[i] < 0) continue;
    const Tensor like = filled_as(detach(results_[i]), 1.0);
    const Tensor steps =
        arange(Scalar(like.numel()), std::nullopt, 1, real_of(like.dtype()), like.device().real());
    out[i] = detach(mul(like, reshape(add(mul(sin(steps), 0.25), 0.75), like.sizes())));
    set_requires_grad(out[i], true);
  }
  return out;
}

void FunctionCall::refuse_tangents(const char* what, size_t i) const {
  fail(name_, ": a tensor with a tangent was given, and the function has no jvp; its backward, ",
       "which could be differentiated instead, gave argument ", i + 1, " a gradient that ", what,
       static_cast<const FunctionNode&>(*node_).origin());
}

// Throws where ops have told a part of the derivative only: both ways from the tangents of the
// inputs to the gradients of the results come to the same number.
void FunctionCall::check_linear(const std::vector<Tensor>& starts,
                                const std::vector<Tensor>& tangents,
                                const std::vector<Tensor>& gradients,
                                const std::vector<Tensor>& along) const {
  const NoModes own_affair;
  const NoGrad no_grad;
  Products forth, back;
  double precision = 0;
  const auto add = [&](Products& products, const Tensor& a, const Tensor& b) {
    precision = std::max(precision, precision_of(a.dtype()));
    products.add(a, b);
  };
  for (size_t i = 0; i < starts.size(); ++i)
    if (tangents[i].defined()) add(forth, starts[i], tangents[i]);
  for (size_t k = 0; k < gradients.size(); ++k) add(back, gradients[k], along[k]);
  if (!has_values(forth.sum) || !has_values(back.sum)) return;
  const Tensor apart = abs(sub(forth.sum, back.sum)), most = moonlet::add(forth.sizes, back.sizes);
  expect_all(logical_or(le(apart, mul(most, precision)), logical_not(isfinite(most))),
             name_ +
                 ": a tensor with a tangent was given, and the function has no jvp; its backward, "
                 "which could be differentiated instead, is not linear in the gradients that it "
                 "gets, or not all of it is recorded ops" +
                 static_cast<const FunctionNode&>(*node_).origin());
}

std::vector<Tensor> FunctionCall::tangents(const std::vector<Tensor>& along) const {
  auto& node = static_cast<FunctionNode&>(*node_);
  bool record = recorded_ || recorded_outside_;
  for (const Tensor& t : along)
    record = record || (t.defined() && (t.requires_grad() || values_require_grad(t)));
  record = record && grad_enabled();
  const std::vector<Tensor> starts = this->starts();
  std::vector<Tensor> found, out(results_.size());
  std::vector<bool> wanted(along.size());
  for (size_t i = 0; i < along.size(); ++i) wanted[i] = along[i].defined();
  const PlainSaving own_graph;
  const GradModeGuard recording(true);
  {
    const InsideCall inside(*this);
    std::vector<Tensor> given = starts;
    found = node.gradients(given.data(), wanted);
  }
  std::vector<Tensor> from, with, begin;
  std::vector<size_t> which;
  for (size_t i = 0; i < starts.size(); ++i)
    if (starts[i].defined()) begin.push_back(starts[i]), which.push_back(i);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined() || i >= along.size() || !along[i].defined()) continue;
    node.check_gradient(i, found[i]);
    if (!found[i].requires_grad())
      refuse_tangents("is not computed by recorded ops from those that it got", i);
    Tensor t = along[i];
    if (!(t.sizes() == found[i].sizes())) t = expand(t, found[i].sizes());
    if (t.dtype() != found[i].dtype()) t = to(t, found[i].dtype());
    from.push_back(found[i]);
    with.push_back(t);
    const std::vector<Tensor> parts = grad({from.back()}, begin, {t}, true, record, true);
    bool reached = false;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (!parts[k].defined()) continue;
      reached = true;
      Tensor& sum = out[which[k]];
      sum = sum.defined() ? add(sum, parts[k]) : parts[k];
    }
    if (!reached) refuse_tangents("does not depend on those that it got", i);
  }
  if (!from.empty()) check_linear(starts, out, from, with);
  return out;
}

FunctionCall::InsideCall::InsideCall(const FunctionCall& call) : call_(call) {
  auto& node = static_cast<FunctionNode&>(*call_.node_);
  // They have got tangents of the levels outside since they were saved.
  for (size_t i = 0; i < call.results_.size(); ++i)
    if (call.outputs_[i] >= 0 && meta_of(call.results_[i]))
      node.take_tangents(call.results_[i], call.outputs_[i]);
  node.set_inside_call(true);
}

FunctionCall::InsideCall::~InsideCall() {
  static_cast<FunctionNode&>(*call_.node_).set_inside_call(false);
}

std::vector<Tensor> FunctionCall::tangents_by(const FunctionJvp& jvp,
                                              const std::vector<Tensor>& along) const {
  const InsideCall inside(*this);
  std::vector<Tensor> out = jvp(*context_, along);
  check(out.size() == results_.size(), name_, ": jvp gave ", out.size(), " tangents for ",
        results_.size(), " results");
  return out;
}

void FunctionCall::set_tangent(size_t i, const Tensor& tangent, uint64_t level) const {
  if (outputs_[i] < 0 || (!tangent.defined() && !changed_[i])) return;
  const Tensor& y = results_[i];
  with_result_tangent(y, tangent.defined() ? tangent : zeros_like(detach(y)), level, changed_[i]);
}

namespace {
// The values of samples may be recorded outside of their vmap, where forward, which runs for the
// whole batch without recording, would pass by.
void refuse_outside_gradients(const char* name, const std::vector<Tensor>& inputs) {
  for (const Tensor& t : inputs)
    check(!grad_enabled() || !t.defined() || !values_require_grad(t), name,
          ": a function in C++ inside vmap has no gradient outside of it; differentiate inside, or "
          "call it on the whole batch");
}
}  // namespace

FunctionLevels::FunctionLevels(const char* name, const std::vector<Tensor>& inputs) {
  if (any_batch_level()) refuse_outside_gradients(name, inputs);
  if (!intercepted()) return;
  along_.resize(inputs.size());
  try {
    while (const uint64_t level = forward_level_of(inputs)) {
      Level& found = suspended_.emplace_back(Level{level, false, {}});
      for (size_t i = 0; i < inputs.size(); ++i) {
        found.tangents.push_back(tangent_of(inputs[i], level));
        if (!found.tangents.back().defined()) continue;
        found.any = along_[i] = true;
      }
      suspend_forward_level(level, true);
    }
  } catch (...) {
    resume();
    throw;
  }
}

void FunctionLevels::resume() {
  for (const Level& each : suspended_) suspend_forward_level(each.level, false);
  suspended_.clear();
}

void FunctionLevels::finish(const FunctionCall& call, const FunctionJvp& jvp) {
  while (!suspended_.empty()) {
    Level& outermost = suspended_.back();
    if (outermost.any) {
      // What is recorded of new tangents reads the old ones, over which they may be written.
      if (call.changes_inputs())
        for (Tensor& t : outermost.tangents)
          if (t.defined()) t = clone(t);
      const std::vector<Tensor> moved =
          jvp ? call.tangents_by(jvp, outermost.tangents) : call.tangents(outermost.tangents);
      for (size_t i = 0; i < moved.size(); ++i) call.set_tangent(i, moved[i], outermost.level);
    }
    suspend_forward_level(outermost.level, false);
    suspended_.pop_back();
  }
}

void take_tangents(Node& node, const Tensor& y, int output) {
  if (auto* own = dynamic_cast<FunctionNode*>(&node)) own->take_tangents(y, output);
}

bool is_function_node(const Node& node) {
  return dynamic_cast<const FunctionNode*>(&node) != nullptr;
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
