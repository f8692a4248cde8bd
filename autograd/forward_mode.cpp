// autograd/forward_mode.cpp: tangents of the results of ops, in the cheapest way that a row offers:
// the op itself for views and linear ops, the derivative's expressions for elementwise ones, and
// else the derivative of the derivative: the gradient's dependence on what it starts from is the
// Jacobian transposed.
#include "autograd/forward_mode.h"

#include <algorithm>

#include "autograd/dual_tensor.h"
#include "autograd/live_tangents.h"
#include "autograd/native/native_record.h"
#include "autograd/recording.h"
#include "autograd/saved_hooks.h"
#include "autograd/uses_forward_mode.h"
#include "tensor/runtime/batched.h"

namespace moonlet {

namespace {
std::atomic<uint64_t> last_level{0};

int vmaps_around() {
  const BatchLevelRef level = find_batch_level(execution.vmap);
  return level ? level->depth + 1 : 0;
}
}  // namespace

ForwardMode::ForwardMode() : level_(++last_level), vmaps_(vmaps_around()) {}
ForwardMode::~ForwardMode() { end_tangents(level_); }

ForwardModesOnly::ForwardModesOnly() : before_(execution.modes) {
  for (const ModeEntry* entry = before_; entry != nullptr; entry = entry->below)
    if (dynamic_cast<const ForwardMode*>(entry->mode.get())) levels_.push_back({entry->mode});
  for (size_t i = 1; i < levels_.size(); ++i) levels_[i - 1].below = &levels_[i];
  execution.modes = levels_.empty() ? nullptr : levels_.data();
}

namespace {
const ForwardMode* innermost_level() {
  return find_mode<ForwardMode>([](const ForwardMode& mode) { return !mode.is_suspended(); });
}
}  // namespace

uint64_t forward_level() {
  const ForwardMode* mode = innermost_level();
  return mode ? mode->level() : 0;
}

uint64_t forward_level_of(const std::vector<Tensor>& tensors) {
  const ForwardMode* mode = innermost_level();
  return mode && std::none_of(tensors.begin(), tensors.end(),
                              [&](const Tensor& x) { return mode->is_for_samples(x); })
             ? mode->level()
             : 0;
}

bool has_tangents_of(const Tensor& x, uint64_t level) {
  const ForwardMode* mode =
      find_mode<ForwardMode>([&](const ForwardMode& each) { return each.level() == level; });
  return mode != nullptr && !mode->is_for_samples(x);
}

void suspend_forward_level(uint64_t level, bool suspended) {
  const ForwardMode* mode =
      find_mode<ForwardMode>([&](const ForwardMode& each) { return each.level() == level; });
  if (mode) mode->suspend(suspended);
}

bool is_differentiated(const Tensor& x) {
  if (!x.defined()) return false;
  if (grad_enabled() && x.requires_grad()) return true;
  if (const Batched* b = batched(x); b && is_differentiated(b->value)) return true;
  return intercepted() && tangent_of(x, forward_level()).defined();
}

bool is_differentiated_anywhere(const Tensor& x) {
  const auto has_tangents = [](const Tensor& t) {
    const AutogradMeta* meta = meta_of(t);
    return meta && meta->tangents != nullptr && !meta->tangents->all.empty();
  };
  const AutogradMeta* meta = meta_of(x);
  const Batched* b = batched(x);
  return (grad_enabled() && x.requires_grad()) || has_tangents(x) ||
         (meta && meta->base && has_tangents(meta->view.base)) ||
         (b && is_differentiated_anywhere(b->value));
}

namespace {

// The storage that holds the elements.
const Storage& memory_of(const Tensor& x) {
  const Batched* b = batched(x);
  return b ? memory_of(b->value) : x.storage();
}

// Whether it is recorded, or outside of the vmap that runs its values are.
bool records(const Tensor& x) {
  return x.defined() && (x.requires_grad() || values_require_grad(x));
}

// A tensor of the arguments that has a tangent.
struct Active {
  size_t argument;
  int in_list;  // its position in a list, or -1
  Tensor x, tangent;
};

class Tangent {
 public:
  Tangent(ModeCall& call, uint64_t level) : call_(call), level_(level) {
    for (size_t i = 0; i < call.arguments.size(); ++i) find(i);
  }
  bool any() const { return !active_.empty(); }
  void compute();

 private:
  void find(size_t i);
  void note(size_t i, int in_list, const Tensor& x) {
    if (!x.defined() || !is_differentiable(x.dtype())) return;
    const Tensor tangent = tangent_of(x, level_);
    if (tangent.defined()) active_.push_back({i, in_list, x, tangent});
  }
  bool recorded() const;
  BatchLevelRef innermost_vmap() const;
  BoxedValues with(const Active& active, const Tensor& replacement) const;
  static void replace(BoxedValues& arguments, const Active& active, const Tensor& replacement);
  static BoxedValues run(const OpInfo& op, const BoxedValues& arguments) {
    return call_op(op, arguments);
  }
  void of_view();
  // Those of the results of an op, in the cheapest way.
  void of_op(const OpInfo& op);
  void of_jvp(const NativeRecord& record);
  void of_linear(const OpInfo& op);
  void of_any(const OpInfo& op);
  BoxedValues differentiated(const OpInfo& op, bool record);
  void in_place();
  void keep_changed(const Tensor& x);
  void without_derivative();
  std::vector<Tensor> pointwise_tangents(const Tensor& y, const std::vector<Tensor>& locals,
                                         bool record) const;
  std::vector<Tensor> general_tangents(const std::vector<Tensor>& results,
                                       const std::vector<Tensor>& locals, bool record) const;
  Tensor own_memory(const Tensor& tangent) const;
  void attach(size_t result, const Tensor& tangent);
  bool is_real() const;
  bool is_linear(const OpInfo& op) const;

  ModeCall& call_;
  const uint64_t level_;
  std::vector<Active> active_;
  std::vector<Tensor> tangents_;  // of the results, some undefined
};

void Tangent::find(size_t i) {
  const BoxedValue& value = call_.arguments[i];
  if (const auto* x = std::get_if<Tensor>(&value)) note(i, -1, *x);
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
    for (size_t k = 0; k < list->size(); ++k) note(i, static_cast<int>(k), (*list)[k]);
}

void Tangent::replace(BoxedValues& arguments, const Active& active, const Tensor& replacement) {
  BoxedValue& value = arguments[active.argument];
  if (active.in_list < 0)
    value = replacement;
  else
    std::get<std::vector<Tensor>>(value)[static_cast<size_t>(active.in_list)] = replacement;
}

BoxedValues Tangent::with(const Active& active, const Tensor& replacement) const {
  BoxedValues out = call_.arguments;
  replace(out, active, replacement);
  return out;
}

// Whether what is computed here may have to be differentiated backward.
bool Tangent::recorded() const {
  if (!grad_enabled()) return false;
  if (std::any_of(active_.begin(), active_.end(),
                  [](const Active& a) { return records(a.tangent); }))
    return true;
  for (const BoxedValue& value : call_.arguments) {
    if (const auto* x = std::get_if<Tensor>(&value); x && records(*x)) return true;
    const auto* list = std::get_if<std::vector<Tensor>>(&value);
    if (list && std::any_of(list->begin(), list->end(), records)) return true;
  }
  return false;
}

// The innermost vmap that the tensors among the arguments belong to.
BatchLevelRef Tangent::innermost_vmap() const {
  BatchLevelRef found;
  if (!any_batch_level()) return found;
  const auto look_at = [&](const Tensor& x) {
    const Batched* b = x.defined() ? batched(x) : nullptr;
    if (b && (!found || b->level->depth > found->depth)) found = b->level;
  };
  for (const BoxedValue& value : call_.arguments) {
    if (const auto* x = std::get_if<Tensor>(&value)) look_at(*x);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
      for (const Tensor& x : *list) look_at(x);
  }
  return found;
}

bool Tangent::is_real() const {
  for (const BoxedValue& value : call_.arguments)
    if (const auto* x = std::get_if<Tensor>(&value); x && x->defined() && is_complex(x->dtype()))
      return false;
  return true;
}

// Tangents are changed in place with their tensors, so none shares memory with another but by
// views.
Tensor Tangent::own_memory(const Tensor& tangent) const {
  for (const Active& active : active_)
    if (&memory_of(tangent) == &memory_of(active.tangent)) return clone(tangent);
  return tangent;
}

void Tangent::attach(size_t result, const Tensor& tangent) {
  const Tensor* y = std::get_if<Tensor>(&call_.results[result]);
  if (!tangent.defined() || !y || !is_differentiable(y->dtype())) return;
  const bool view = call_.op.is_view();
  set_tangent(*y, level_, view ? tangent : laid_out_as(*y, tangent));
  tell_producer(*y);
}

void Tangent::of_view() {
  // What shows the storage shows other elements of a tangent that lies otherwise.
  const bool of_storage = call_.op.row->name == std::string_view("strided_view");
  if (of_storage && !(active_[0].x.strides() == active_[0].tangent.strides())) {
    differentiated(call_.op, recorded());
    call_.proceed();
    return attach(0, tangents_[0]);
  }
  call_.proceed();
  const BoxedValues seen = run(call_.op, with(active_[0], active_[0].tangent));
  attach(0, std::get<Tensor>(seen[0]));
}

// A tensor that may be left out of an op that is linear in the others is added, as a bias is.
bool is_added(const OpInfo& op, size_t argument) {
  return op.row->arguments[argument].type == std::string_view("Tensor?");
}

// Whether the op on tangents gives the result's: it is linear, and some do not belong to what is
// added.
bool Tangent::is_linear(const OpInfo& op) const {
  return op.row->linear && std::any_of(active_.begin(), active_.end(), [&](const Active& active) {
           return !is_added(op, active.argument);
         });
}

// The sum over the arguments of the op with a tangent in one position. A list is one position. What
// is added has its own tangent, or none, in the first of them, and is left out of the others.
void Tangent::of_linear(const OpInfo& op) {
  BoxedValues added = call_.arguments;
  for (size_t k = 0; k < added.size(); ++k)
    if (is_added(op, k)) added[k] = Tensor();
  BoxedValues rest = added;
  for (const Active& active : active_)
    if (is_added(op, active.argument)) replace(added, active, active.tangent);
  Tensor sum;
  for (size_t i = 0; i < active_.size(); ++i) {
    const size_t position = active_[i].argument;
    if (is_added(op, position) || (i > 0 && active_[i - 1].argument == position)) continue;
    BoxedValues arguments = sum.defined() ? rest : added;
    if (auto* list = std::get_if<std::vector<Tensor>>(&arguments[position]))
      for (Tensor& x : *list) x = zeros_like(x);
    for (const Active& active : active_)
      if (active.argument == position) replace(arguments, active, active.tangent);
    const Tensor part = std::get<Tensor>(run(op, arguments)[0]);
    sum = sum.defined() ? add(sum, part) : part;
  }
  tangents_ = {own_memory(sum)};
}

// By the rule that an op declared in C++ has.
void Tangent::of_jvp(const NativeRecord& record) {
  BoxedValues given(call_.arguments.size());
  for (const Active& active : active_) {
    BoxedValue& value = given[active.argument];
    const auto* list = std::get_if<std::vector<Tensor>>(&call_.arguments[active.argument]);
    if (list && std::holds_alternative<std::monostate>(value))
      value = std::vector<Tensor>(list->size());
    if (list)
      std::get<std::vector<Tensor>>(value)[static_cast<size_t>(active.in_list)] = active.tangent;
    else
      value = active.tangent;
  }
  tangents_ = record.jvp(JvpArguments(record, call_.arguments, given));
  check(tangents_.size() == record.schema.results.size(), call_.op.name, ": its jvp gives ",
        tangents_.size(), " tensors, expected ", record.schema.results.size());
  for (Tensor& each : tangents_)
    if (each.defined()) each = own_memory(each);
}

void Tangent::of_op(const OpInfo& op) {
  const NativeRecord* native = native_record_of(*op.row);
  const bool by_rule = native != nullptr && native->jvp != nullptr;
  if (!by_rule && !is_linear(op)) return of_any(op);
  by_rule ? of_jvp(*native) : of_linear(op);
  if (&op == &call_.op) call_.proceed();
}

// Wants the gradient along one edge.
class OneEdge final : public Wanted {
 public:
  explicit OneEdge(const Edge& edge) : edge_(edge) {}
  bool operator()(const Edge& edge) const override {
    return edge && edge.node.get() == edge_.node.get() && edge.index == edge_.index;
  }
  Tensor* so_far(const Edge&) const override { return nullptr; }
  bool takes_rows(const Edge&) const override { return false; }
  void give_rows(const Edge&, SparseRows) override {}
  bool keeps_graph() const override { return true; }

 private:
  const Edge edge_;
};

// Element by element, the expression of a gradient multiplies what it starts from by the
// derivative: started from a tangent it gives the result's.
std::vector<Tensor> Tangent::pointwise_tangents(const Tensor& y, const std::vector<Tensor>& locals,
                                                bool record) const {
  const NodeRef node = grad_fn_of(y);
  Tensor sum;
  const GradModeGuard mode(record);
  for (size_t i = 0; i < locals.size(); ++i) {
    OneEdge wanted(edge_of(locals[i]));
    std::vector<Tensor> out(node->edges.size());
    Tensor start = active_[i].tangent;
    if (!(start.sizes() == y.sizes())) start = expand(start, y.sizes());
    if (start.dtype() != y.dtype()) start = to(start, y.dtype());
    node->apply(&start, out.data(), wanted);
    for (size_t k = 0; k < out.size(); ++k)
      if (out[k].defined() && wanted(node->edges[k]))
        sum = sum.defined() ? add(sum, out[k]) : out[k];
  }
  if (!sum.defined()) return {{}};
  if (sum.dtype() != y.dtype()) sum = to(sum, y.dtype());
  if (!(sum.sizes() == y.sizes())) sum = expand(sum, y.sizes());
  return {own_memory(sum)};
}

std::vector<Tensor> Tangent::general_tangents(const std::vector<Tensor>& results,
                                              const std::vector<Tensor>& locals,
                                              bool record) const {
  std::vector<Tensor> out(results.size()), starts, given;
  for (const Active& active : active_) given.push_back(active.tangent);
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& y = results[i];
    if (!y.defined() || !y.requires_grad()) continue;
    // Any start would do, as the gradients are linear in it; where they are computed from
    // logarithms of it, zero would not.
    Tensor start = filled_as(y, 1.0);
    set_requires_grad(start, true);
    std::vector<Tensor> by_x = grad({y}, locals, {start}, true, true, true), from, along;
    for (size_t k = 0; k < by_x.size(); ++k) {
      if (!by_x[k].defined() || !by_x[k].requires_grad()) continue;
      from.push_back(by_x[k]);
      along.push_back(given[k]);
    }
    if (from.empty()) continue;
    const Tensor t = grad(from, {start}, along, record, record, true)[0];
    if (t.defined()) out[i] = own_memory(t);
  }
  return out;
}

// Runs the op with the active tensors as inputs to differentiate by.
void Tangent::of_any(const OpInfo& op) {
  const bool record = recorded();
  BoxedValues made = differentiated(op, record);
  const bool same_call = &op == &call_.op;
  if (!same_call) return;
  // What is drawn at random is not drawn again.
  const bool drawn = op.row->random;
  if (record && !drawn) {
    call_.proceed();
    return;
  }
  if (record && std::any_of(active_.begin(), active_.end(),
                            [](const Active& each) { return each.x.requires_grad(); })) {
    call_.results = std::move(made);
    return;
  }
  for (BoxedValue& value : made)
    if (auto* y = std::get_if<Tensor>(&value)) value = stripped(*y);
  call_.results = std::move(made);
}

// Turns inference mode, in which nothing can be saved, off for a C++ scope.
class NoInferenceMode {
 public:
  NoInferenceMode() : before_(std::exchange(execution.inference_mode, false)) {}
  ~NoInferenceMode() { execution.inference_mode = before_; }
  NoInferenceMode(const NoInferenceMode&) = delete;
  NoInferenceMode& operator=(const NoInferenceMode&) = delete;

 private:
  const bool before_;
};

// The results of the op, with the tangents that they have.
BoxedValues Tangent::differentiated(const OpInfo& op, bool record) {
  const PlainSaving own_graph;
  const NoInferenceMode saving;
  BoxedValues arguments = call_.arguments;
  // A tensor of no vmap among samples must not have the values of these recorded outside.
  const BatchLevelRef vmap = innermost_vmap();
  std::vector<Tensor> locals, results;
  for (const Active& active : active_) {
    const bool through = record && active.x.requires_grad();
    Tensor local =
        through ? view(active.x, active.x.sizes()) : without_history(lifted(active.x, vmap));
    if (!through) set_requires_grad(local, true);
    locals.push_back(local);
    replace(arguments, active, local);
  }
  BoxedValues made;
  {
    const GradModeGuard mode(true);
    made = run(op, arguments);
  }
  for (const BoxedValue& value : made) {
    const auto* y = std::get_if<Tensor>(&value);
    results.push_back(y ? *y : Tensor());
  }
  const bool elementwise = op.row->kind == OpKind::Pointwise && is_real() && results.size() == 1 &&
                           results[0].requires_grad() && !is_complex(results[0].dtype());
  tangents_ = elementwise ? pointwise_tangents(results[0], locals, record)
                          : general_tangents(results, locals, record);
  return made;
}

// Puts copies in the place of what the change overwrites and the graph of the new tangent reads.
void Tangent::keep_changed(const Tensor& x) {
  for (BoxedValue& value : call_.arguments)
    if (auto* t = std::get_if<Tensor>(&value); t && t->defined() && &memory_of(*t) == &memory_of(x))
      *t = clone(*t);
  for (Active& active : active_) {
    const auto* t = std::get_if<Tensor>(&call_.arguments[active.argument]);
    if (t && active.in_list < 0) active.x = *t;
    active.tangent = clone(active.tangent);
  }
}

// The tangent that x has after a change is that of the plain op, written over the one it had.
void Tangent::in_place() {
  const Tensor x = std::get<Tensor>(call_.arguments[0]);
  const OpInfo* plain = find_op(call_.op.row->name);
  // Random numbers that are written over x do not depend on it.
  if (call_.op.row->differentiable && plain && !call_.op.row->random) {
    const BoxedValues arguments = call_.arguments;
    if (recorded()) keep_changed(x);
    of_op(*plain);
    call_.arguments = arguments;
  }
  const Tensor next = tangents_.empty() ? Tensor() : tangents_[0];
  // What the tape saves of a real result below the modes would have no tangent.
  const bool real_over_complex =
      next.defined() && is_complex(x.dtype()) && !is_complex(next.dtype());
  check(!real_over_complex || !recorded(), call_.op.name,
        ": written over complex numbers it has no derivative beside a tangent; use ",
        call_.op.row->name);
  call_.proceed();
  change_tangent(x, level_, next);
}

// What has no derivative gives whole numbers, truth values or random numbers, or it cannot be here.
void Tangent::without_derivative() {
  call_.proceed();
  if (call_.op.row->random) return;
  for (const BoxedValue& value : call_.results)
    if (const auto* y = std::get_if<Tensor>(&value); y && is_differentiable(y->dtype()))
      fail(call_.op.name, ": has no derivative, and a tensor with a tangent was given");
}

void Tangent::compute() {
  const OpInfo& op = call_.op;
  if (op.form == OpInfo::Form::InPlace) return in_place();
  if (!op.row->differentiable) return without_derivative();
  if (op.is_view()) return of_view();
  of_op(op);
  for (size_t i = 0; i < tangents_.size(); ++i) attach(i, tangents_[i]);
}

// Composites, whose body meets the mode, and in-place forms that are the plain one and an
// assignment.
bool is_made_of_others(const OpInfo& op) {
  const OpKind kind = op.row->kind;
  if (kind == OpKind::Composite && !op.row->own_derivative) return true;
  return op.form == OpInfo::Form::InPlace && kind != OpKind::Pointwise && kind != OpKind::Update;
}

}  // namespace

bool ForwardMode::is_for_samples(const Tensor& x) const {
  return x.defined() && x.device().levels >> vmaps_ != 0;
}

// Whether the call is for the samples of a vmap inside this level: it comes again for their values.
bool ForwardMode::is_inside_vmap(const BoxedValues& arguments) const {
  const auto inside = [&](const Tensor& x) { return is_for_samples(x); };
  return std::any_of(arguments.begin(), arguments.end(), [&](const BoxedValue& value) {
    if (const auto* x = std::get_if<Tensor>(&value)) return inside(*x);
    const auto* list = std::get_if<std::vector<Tensor>>(&value);
    return list && std::any_of(list->begin(), list->end(), inside);
  });
}

namespace {

// An in-place form that is made of the plain one and an assignment, which no mode sees: both again,
// for the tangents that they have.
void assign(ForwardMode& level, ModeCall& call) {
  const OpInfo* plain = find_op(call.op.row->name);
  check(plain != nullptr && plain->form == OpInfo::Form::Plain, call.op.name,
        ": cannot change a tensor with a tangent in place");
  const ModeScope visible(level);
  Tensor x = std::get<Tensor>(call.arguments[0]);
  BoxedValues arguments = call.arguments;
  arguments[0] = clone(x);
  assign_(x, std::get<Tensor>(call_op(*plain, arguments)[0]), call.op.name);
  call.results = {x};
}

}  // namespace

void ForwardMode::call(ModeCall& call) {
  if (suspended_ || is_inside_vmap(call.arguments)) return call.proceed();
  const OpInfo& op = call.op;
  if (op.form != OpInfo::Form::Plain && Tangent(call, level_).any()) {
    check(op.form != OpInfo::Form::Out, op.name,
          ": out= cannot be used with forward-mode tangents");
    check(!op.is_view(), op.name,
          ": a tensor with a tangent cannot be given another shape in place");
    if (is_made_of_others(op)) return assign(*this, call);
  }
  if (is_made_of_others(op)) return call.proceed();
  Tangent tangent(call, level_);
  tangent.any() ? tangent.compute() : call.proceed();
}

}  // namespace moonlet
