// autograd/forward_mode.cpp: tangents of the results of ops, in the cheapest way that a row offers:
// the op itself for views and linear ops, the derivative's expressions for elementwise ones, and
// else the derivative of the derivative: the gradient's dependence on what it starts from is the
// Jacobian transposed.
#include "autograd/forward_mode.h"

#include <algorithm>
#include <unordered_set>

#include "autograd/history.h"
#include "autograd/recording.h"
#include "autograd/uses_forward_mode.h"
#include "tensor/batched.h"

namespace moonlet {

namespace {

std::atomic<uint64_t> last_level{0};

Tensor own_tangent(const Tensor& x, uint64_t level) {
  const AutogradMeta* meta = meta_of(x);
  if (!meta || !meta->tangents) return {};
  for (const auto& [at, tangent] : meta->tangents->all)
    if (at == level) return tangent;
  return {};
}

void set_tangent(const Tensor& x, uint64_t level, const Tensor& tangent) {
  AutogradMeta& meta = ensure_meta(x);
  auto changed = std::make_shared<Tangents>();
  if (meta.tangents)
    for (const auto& entry : meta.tangents->all)
      if (entry.first != level) changed->all.push_back(entry);
  changed->all.emplace_back(level, tangent);
  meta.tangents = std::move(changed);
  // What the producer saved of its result was saved before.
  if (auto* node = dynamic_cast<RecordedNode*>(meta.grad_fn.get()))
    node->take_tangents(x, meta.output);
}

// The storage that holds the elements.
const Storage& memory_of(const Tensor& x) {
  const Batched* b = batched(x);
  return b ? memory_of(b->value) : x.storage();
}

}  // namespace

namespace {
int vmaps_around() {
  const BatchLevelRef level = find_batch_level(execution.vmap);
  return level ? level->depth + 1 : 0;
}
}  // namespace

ForwardMode::ForwardMode() : level_(++last_level), vmaps_(vmaps_around()) {}

uint64_t forward_level() {
  const ForwardMode* mode = find_mode<ForwardMode>([](const ForwardMode&) { return true; });
  return mode ? mode->level() : 0;
}

bool is_differentiated(const Tensor& x) {
  if (!x.defined()) return false;
  if (grad_enabled() && x.requires_grad()) return true;
  if (const Batched* b = batched(x); b && is_differentiated(b->value)) return true;
  return intercepted() && tangent_of(x, forward_level()).defined();
}

namespace {
bool values_require_grad(const Tensor& x) {
  const Batched* b = batched(x);
  return b && (b->value.requires_grad() || values_require_grad(b->value));
}
}  // namespace

Tensor tangent_of(const Tensor& x, uint64_t level) {
  if (!x.defined()) return {};
  // A view's is a part of that of its base, which may have got one since.
  const AutogradMeta* meta = meta_of(x);
  const Tensor whole = meta && meta->base ? own_tangent(meta->view.base, level) : Tensor();
  return whole.defined() ? meta->view.recipe.replay(whole) : own_tangent(x, level);
}

namespace {

// A new handle with x's history and tangents; no view of it.
Tensor same_history(const Tensor& x) {
  const Edge edge = edge_of(x);
  return edge ? with_history(x, edge.node, edge.index) : without_history(x);
}

// Inside vmap x belongs to the innermost one, so that what is attached to it is its own.
Tensor lifted(const Tensor& x) {
  const BatchLevelRef level = find_batch_level(execution.vmap);
  if (!level) return x;
  const Batched* b = batched(x);
  return b && b->level == level ? x : make_batched(x, kNotBatched, level);
}

}  // namespace

Tensor make_dual(const Tensor& x, const Tensor& tangent, uint64_t level, bool keep) {
  check(level != 0, "make_dual: it is used inside of forward_ad.dual_level");
  check(is_differentiable(x.dtype()), "make_dual: a floating or complex tensor is wanted, got ",
        x.dtype());
  check(tangent.sizes() == x.sizes() && tangent.dtype() == x.dtype() &&
            tangent.device().real() == x.device().real(),
        "make_dual: a tangent of shape ", x.sizes(), ", ", x.dtype(), " on ", x.device(),
        " is wanted, got shape ", tangent.sizes(), ", ", tangent.dtype(), " on ", tangent.device());
  const Tensor from = lifted(x);
  Tensor out = same_history(from);
  const Tensor own = lifted(tangent);
  set_tangent(out, level, keep ? own : clone(own));
  return out;
}

Tensor without_tangent(const Tensor& x, uint64_t level) {
  Tensor out = same_history(x);
  if (!own_tangent(out, level).defined()) return out;
  AutogradMeta& meta = ensure_meta(out);
  auto left = std::make_shared<Tangents>(*meta.tangents);
  std::erase_if(left->all, [&](const auto& entry) { return entry.first == level; });
  meta.tangents = left->all.empty() ? nullptr : std::move(left);
  return out;
}

Tensor differentiation_input(const Tensor& x) {
  check(is_differentiable(x.dtype()), "a floating or complex tensor is wanted, got ", x.dtype());
  const Tensor from = lifted(x);
  if (from.requires_grad() && grad_enabled()) return view(from, from.sizes());
  Tensor out = without_history(from);
  set_requires_grad(out, true);
  return out;
}

bool needs_graph(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return false;
  std::unordered_set<Node*> own;
  for (const Tensor& x : inputs)
    if (is_leaf(x)) own.insert(edge_of(x).node.get());
  std::vector<NodeRef> order;
  std::unordered_set<Node*> seen;
  const auto visit = [&](const Edge& edge) {
    if (edge && seen.insert(edge.node.get()).second) order.push_back(edge.node);
  };
  for (const Tensor& y : outputs) {
    if (values_require_grad(y)) return true;
    visit(edge_of(y));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeRef node = order[i];
    if (node->edges.empty() && !own.contains(node.get())) return true;
    for (const Edge& edge : node->edges) visit(edge);
  }
  return false;
}

namespace {

// A tensor of the arguments that has a tangent.
struct Active {
  size_t argument;
  int in_list;  // its place in a list, or -1
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
  BoxedValues with(const Active& active, const Tensor& replacement) const;
  static void replace(BoxedValues& arguments, const Active& active, const Tensor& replacement);
  static BoxedValues run(const OpInfo& op, const BoxedValues& arguments) {
    return call_op(op, arguments);
  }
  void of_view();
  void of_linear(const OpInfo& op);
  void of_any(const OpInfo& op);
  void in_place();
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

// Whether it is recorded, or outside of the vmap that runs its values are.
bool records(const Tensor& x) {
  return x.defined() && (x.requires_grad() || values_require_grad(x));
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
  if (tangent.defined() && y && is_differentiable(y->dtype())) set_tangent(*y, level_, tangent);
}

void Tangent::of_view() {
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

// The sum over the arguments of the op with a tangent in one place. A list is one place. What is
// added has its own tangent, or none, in the first of them, and is left out of the others.
void Tangent::of_linear(const OpInfo& op) {
  BoxedValues added = call_.arguments;
  for (size_t k = 0; k < added.size(); ++k)
    if (is_added(op, k)) added[k] = Tensor();
  BoxedValues rest = added;
  for (const Active& active : active_)
    if (is_added(op, active.argument)) replace(added, active, active.tangent);
  Tensor sum;
  for (size_t i = 0; i < active_.size(); ++i) {
    const size_t place = active_[i].argument;
    if (is_added(op, place) || (i > 0 && active_[i - 1].argument == place)) continue;
    BoxedValues arguments = sum.defined() ? rest : added;
    if (auto* list = std::get_if<std::vector<Tensor>>(&arguments[place]))
      for (Tensor& x : *list) x = zeros_like(x);
    for (const Active& active : active_)
      if (active.argument == place) replace(arguments, active, active.tangent);
    const Tensor part = std::get<Tensor>(run(op, arguments)[0]);
    sum = sum.defined() ? add(sum, part) : part;
  }
  tangents_ = {own_memory(sum)};
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
    Tensor start = expand(active_[i].tangent, y.sizes());
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
    Tensor start = ones_like(y);
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

// The same data, and tangents of other levels, without histories.
Tensor stripped(const Tensor& y) {
  Tensor out = shallow_copy(y);
  const AutogradMeta* meta = meta_of(y);
  if (!meta || !meta->tangents) return out;
  auto tangents = std::make_shared<Tangents>();
  for (const auto& [level, tangent] : meta->tangents->all)
    tangents->all.emplace_back(level, stripped(tangent));
  ensure_meta(out).tangents = std::move(tangents);
  return out;
}

// Runs the op with the active tensors as inputs to differentiate by.
void Tangent::of_any(const OpInfo& op) {
  const bool record = recorded();
  BoxedValues arguments = call_.arguments;
  std::vector<Tensor> locals, results;
  for (const Active& active : active_) {
    const bool through = record && active.x.requires_grad();
    Tensor local = through ? view(active.x, active.x.sizes()) : without_history(active.x);
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
  const bool elementwise = std::string_view(op.row->kind) == "pointwise" && is_real() &&
                           results.size() == 1 && results[0].requires_grad() &&
                           !is_complex(results[0].dtype());
  tangents_ = elementwise ? pointwise_tangents(results[0], locals, record)
                          : general_tangents(results, locals, record);
  const bool same_call = &op == &call_.op;
  if (!same_call) return;
  if (record) {
    call_.proceed();
    return;
  }
  for (BoxedValue& value : made)
    if (auto* y = std::get_if<Tensor>(&value)) value = stripped(*y);
  call_.results = std::move(made);
}

// `whole`, or a copy for each sample of the vmaps by which `part` is batched and it is not.
Tensor for_samples_of(const Tensor& whole, const Tensor& part) {
  const Device own = whole.device();
  Device device = part.device();
  if ((device.levels & ~own.levels) == 0) return whole;
  device.levels = static_cast<uint8_t>(device.levels | own.levels);
  Tensor out = empty(whole.sizes(), {whole.dtype(), device});
  return copy_(out, whole);
}

// The tangent that x has after a change is that of the plain op, written over the one it had.
void Tangent::in_place() {
  const Tensor x = std::get<Tensor>(call_.arguments[0]);
  const OpInfo* plain = find_op(call_.op.row->name);
  if (call_.op.row->differentiable && plain) {
    is_linear(*plain) ? of_linear(*plain) : of_any(*plain);
  }
  const Tensor next = tangents_.empty() ? Tensor() : tangents_[0];
  call_.proceed();
  const AutogradMeta* meta = meta_of(x);
  const Tensor root = meta && meta->base ? meta->view.base : x;
  Tensor whole = tangent_of(root, level_);
  if (!whole.defined()) {
    if (!next.defined()) return;
    whole = zeros_like(root);
  }
  if (next.defined()) whole = for_samples_of(whole, next);
  set_tangent(root, level_, whole);
  Tensor have = tangent_of(x, level_);
  next.defined() ? copy_(have, next) : fill_(have, 0.0);
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
  const std::string_view kind = op.row->kind;
  check(op.form != OpInfo::Form::Out, op.name, ": out= cannot be used with forward-mode tangents");
  if (op.form == OpInfo::Form::InPlace) return in_place();
  if (!op.row->differentiable) return without_derivative();
  if (kind == "view") return of_view();
  if (is_linear(op)) {
    of_linear(op);
    call_.proceed();
  } else {
    of_any(op);
  }
  for (size_t i = 0; i < tangents_.size(); ++i) attach(i, tangents_[i]);
}

// In-place forms that are made of the plain one and an assignment meet the mode again in these.
bool is_made_of_others(const OpInfo& op) {
  const std::string_view kind = op.row->kind;
  if (kind == "composite" && !op.row->own_derivative) return true;
  return op.form == OpInfo::Form::InPlace && kind != "pointwise" && kind != "update";
}

}  // namespace

// Whether the call is for the samples of a vmap inside this level: it comes again for their values.
bool ForwardMode::is_inside_vmap(const BoxedValues& arguments) const {
  const auto inside = [&](const Tensor& x) {
    return x.defined() && x.device().levels >> vmaps_ != 0;
  };
  return std::any_of(arguments.begin(), arguments.end(), [&](const BoxedValue& value) {
    if (const auto* x = std::get_if<Tensor>(&value)) return inside(*x);
    const auto* list = std::get_if<std::vector<Tensor>>(&value);
    return list && std::any_of(list->begin(), list->end(), inside);
  });
}

void ForwardMode::call(ModeCall& call) {
  if (is_inside_vmap(call.arguments)) return call.proceed();
  const std::string_view kind = call.op.row->kind;
  check(!(call.op.form == OpInfo::Form::InPlace && kind == "view" && Tangent(call, level_).any()),
        call.op.name, ": a tensor with a tangent cannot be given another shape in place");
  if (is_made_of_others(call.op)) return call.proceed();
  Tangent tangent(call, level_);
  tangent.any() ? tangent.compute() : call.proceed();
}

}  // namespace moonlet
