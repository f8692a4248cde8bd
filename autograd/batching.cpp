// autograd/batching.cpp: finds the vmap that a call belongs to, gives its rule the values, makes
// batches of what comes back; and the loop over samples for ops without a rule.
#include "autograd/batching.h"

#include <algorithm>
#include <cstring>

#include "autograd/uses_batching.h"
#include "tensor/core/warning.h"
#include "tensor/runtime/passed_modes.h"

namespace moonlet {

namespace {

template <class F>
void each_tensor(const BoxedValue& value, F&& visit) {
  if (const auto* one = std::get_if<Tensor>(&value))
    visit(*one);
  else if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
    for (const Tensor& x : *list) visit(x);
}

// The innermost level that a batched argument belongs to, or for random numbers the innermost one.
BatchLevelRef level_of(const OpInfo& op, const BoxedValues& arguments) {
  BatchLevelRef found = op.row->random ? find_batch_level(execution.vmap) : nullptr;
  for (const BoxedValue& value : arguments)
    each_tensor(value, [&](const Tensor& x) {
      const Batched* b = batched(x);
      if (!b) return;
      check(b->level->active, op.name, ": a tensor of a vmap that has ended is used");
      if (!found || b->level->depth > found->depth) found = b->level;
    });
  return found;
}

bool holds_batch(const BoxedValues& arguments, const BatchLevelRef& level) {
  bool out = false;
  for (const BoxedValue& value : arguments)
    each_tensor(value, [&](const Tensor& x) {
      const Batched* b = batched(x);
      out = out || (b && b->level == level);
    });
  return out;
}

// The first tensor among the arguments, made a batch.
void make_first_a_batch(BoxedValues& arguments, const BatchLevelRef& level, const char* op) {
  for (BoxedValue& value : arguments)
    if (auto* x = std::get_if<Tensor>(&value)) {
      Dims sizes{level->size};
      for (const int64_t n : x->sizes()) sizes.push_back(n);
      *x = make_batched(expand(*x, sizes), 0, level);
      return;
    }
  fail(op, ": no random numbers can be drawn for each sample of this call inside vmap");
}

// A random op that is made of others: new tensors are told to be batches.
void random_composite(const OpInfo& op, BoxedValues& arguments, BoxedValues& results,
                      const BatchLevelRef& level, bool any_batched) {
  if (level->randomness == Randomness::Same && !any_batched) {
    const OutsideBatchLevel outside(*level);
    return op.call(arguments, results);
  }
  if (!any_batched) {
    bool told = false;
    for (BoxedValue& value : arguments)
      if (auto* options = std::get_if<Options>(&value)) {
        const Device real = options->device.real();
        const unsigned levels = options->device.levels | 1u << level->depth;
        options->device = {DeviceType::Batched, real.index, real.type,
                           static_cast<uint8_t>(levels)};
        told = true;
      }
    if (!told) make_first_a_batch(arguments, level, op.name);
  }
  op.body(arguments, results);
}

}  // namespace

namespace {
// Where to put a result is asked of batched tensors too, as x:to(y): it is where their values are.
bool make_devices_real(BoxedValues& arguments) {
  bool any = false;
  for (BoxedValue& value : arguments)
    if (auto* device = std::get_if<Device>(&value); device && device->is_batched()) {
      *device = device->real();
      any = true;
    }
  return any;
}
}  // namespace

void fail_out_in_vmap(const char* op) { fail(op, ": out= cannot be used inside vmap"); }

void run_batched(const OpInfo& op, BoxedValues& arguments, BoxedValues& results) {
  // Modes that have let the call pass see those on values.
  const ModesScope visible(passed_modes);
  const PassedModesScope none(nullptr);
  const bool onto_batch = make_devices_real(arguments);
  const BatchLevelRef level = level_of(op, arguments);
  if (!level && op.body) return op.body(arguments, results);
  if (!level && onto_batch) return op.call(arguments, results);
  check(level != nullptr, op.name, ": a tensor of a vmap that has ended is used");
  const bool any_batched = holds_batch(arguments, level);
  if (op.row->random && level->randomness == Randomness::Error)
    fail(op.name,
         ": random numbers inside vmap: say randomness = \"different\" to draw for each sample, or "
         "\"same\" to draw once for all");
  if (op.row->random && op.body)
    return random_composite(op, arguments, results, level, any_batched);
  const OutsideBatchLevel outside(*level);
  if (!any_batched && level->randomness == Randomness::Same) return op.call(arguments, results);
  BatchCall call(op, arguments, level);
  // What is the same for all samples is computed once.
  const bool same = !op.row->random && !call.any_batched();
  if (!same && op.form == OpInfo::Form::InPlace) call.check_written();
  if (op.row->random)
    call.random();
  else if (same)
    call.call();
  else if (op.row->batch_rule)
    op.row->batch_rule(call);
  else
    call.loop();
  const bool in_place = op.form == OpInfo::Form::InPlace;
  const int dim = same ? kNotBatched : 0;
  for (BoxedValue& value : call.results) {
    if (auto* y = std::get_if<Tensor>(&value); y && !y->defined()) {
      results.push_back(*y);  // what was not asked for
    } else if (y) {
      // Of what the caller did not ask for, as vectors of a factorization, no sample has anything.
      const bool left_out = y->numel() == 0 && (y->dim() == 0 || y->size(0) != level->size);
      results.push_back(in_place
                            ? arguments[0]
                            : BoxedValue(make_batched(*y, left_out ? kNotBatched : dim, level)));
    } else if (auto* list = std::get_if<std::vector<Tensor>>(&value)) {
      for (Tensor& x : *list) x = make_batched(x, dim, level);
      results.push_back(std::move(*list));
    } else {
      results.push_back(std::move(value));
    }
  }
}

BatchCall::BatchCall(const OpInfo& called, BoxedValues given, BatchLevelRef at)
    : op(called), arguments(std::move(given)), level(std::move(at)) {
  dims_.assign(arguments.size(), kNotBatched);
  for (size_t i = 0; i < arguments.size(); ++i) unwrap(arguments[i], i);
}

void BatchCall::unwrap(BoxedValue& value, size_t i) {
  const auto open = [&](Tensor& x) {
    const Batched* b = moonlet::batched(x);
    if (!b || b->level != level) return kNotBatched;
    const int dim = b->dim;
    if (b->are_units()) units_ |= 1u << i;
    const Tensor value = b->value;  // x may be what keeps it
    x = value;
    return dim;
  };
  if (auto* one = std::get_if<Tensor>(&value)) dims_[i] = open(*one);
  auto* list = std::get_if<std::vector<Tensor>>(&value);
  if (!list) return;
  list_dims_.resize(arguments.size());
  for (Tensor& x : *list) list_dims_[i].push_back(open(x));
}

namespace {
Tensor to_front(const Tensor& x, int dim, int64_t size) {
  if (dim > 0) return movedim(x, {dim}, {0});
  if (dim == 0) return x;
  Dims sizes{size};
  for (const int64_t n : x.sizes()) sizes.push_back(n);
  return expand(x, sizes);
}
}  // namespace

Tensor BatchCall::front(int i) const { return to_front(tensor(i), dims_[i], size()); }

Tensor BatchCall::repeated(const Tensor& x) const { return to_front(x, kNotBatched, size()); }

Tensor BatchCall::value_of(const Tensor& y) const {
  const Batched* b = moonlet::batched(y);
  if (!b || b->level != level) return repeated(y);
  return to_front(b->value, b->dim, size());
}

Tensor BatchCall::front(int i, int rank) const {
  Tensor x = front(i);
  while (x.dim() < rank + 1) x = unsqueeze(x, 1);
  return x;
}

std::vector<Tensor> BatchCall::list_front(int i) const {
  std::vector<Tensor> out;
  const auto& list = std::get<std::vector<Tensor>>(arguments[i]);
  for (size_t k = 0; k < list.size(); ++k)
    out.push_back(list[k].defined() ? to_front(list[k], list_dims_[i][k], size()) : Tensor());
  return out;
}

bool BatchCall::others_batched() const {
  return std::any_of(dims_.begin() + std::min<ptrdiff_t>(1, std::ssize(dims_)), dims_.end(),
                     [](int dim) { return dim != kNotBatched; }) ||
         any_list_batched();
}

bool BatchCall::any_list_batched() const {
  return std::any_of(list_dims_.begin(), list_dims_.end(), [](const std::vector<int>& dims) {
    return std::any_of(dims.begin(), dims.end(), [](int dim) { return dim != kNotBatched; });
  });
}

void BatchCall::call() {
  results.clear();
  op.call(arguments, results);
}

BoxedValue BatchCall::sample_of(size_t i, int64_t sample) const {
  const BoxedValue& value = arguments[i];
  if (const auto* one = std::get_if<Tensor>(&value))
    return dims_[i] == kNotBatched ? value : BoxedValue(select(*one, dims_[i], sample));
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
    std::vector<Tensor> out = *list;
    for (size_t k = 0; k < out.size(); ++k)
      if (list_dims_[i][k] != kNotBatched) out[k] = select(out[k], list_dims_[i][k], sample);
    return out;
  }
  return value;
}

namespace {

// The results of all samples as one: each tensor, and each of a list, is stacked.
BoxedValue stacked(const OpInfo& op, const std::vector<BoxedValues>& all, size_t result) {
  const auto stack_of = [&](auto&& pick) {
    std::vector<Tensor> each;
    each.reserve(all.size());
    for (const BoxedValues& one : all) each.push_back(pick(one[result]));
    for (const Tensor& y : each)
      check(y.sizes() == each[0].sizes(), op.name,
            ": inside vmap every sample must give a result of the same shape, got ",
            each[0].sizes(), " and ", y.sizes());
    return stack(each, 0);
  };
  const BoxedValue& first = all[0][result];
  if (const auto* y = std::get_if<Tensor>(&first); y && !y->defined()) return first;
  if (std::holds_alternative<Tensor>(first))
    return stack_of([](const BoxedValue& v) { return std::get<Tensor>(v); });
  if (const auto* list = std::get_if<std::vector<Tensor>>(&first)) {
    std::vector<Tensor> out;
    for (size_t k = 0; k < list->size(); ++k)
      out.push_back(stack_of([&](const BoxedValue& v) {
        const auto& mine = std::get<std::vector<Tensor>>(v);
        check(mine.size() == list->size(), op.name,
              ": inside vmap every sample must give as many tensors");
        return mine[k];
      }));
    return out;
  }
  check(std::holds_alternative<std::monostate>(first), op.name,
        ": gives a number of each sample, of which vmap makes no batch");
  return first;
}

}  // namespace

bool BatchCall::same_for_all(int i) const {
  if (has_tensor(i)) return !batched(i);
  if (list_dims_.empty()) return false;
  const std::vector<int>& dims = list_dims_[static_cast<size_t>(i)];
  return std::find(dims.begin(), dims.end(), kNotBatched) != dims.end();
}

void BatchCall::check_written() const {
  if (op.form == OpInfo::Form::Plain && op.row->kind == OpKind::Update) return;
  for (int i = 0; i < count(); ++i) {
    check(!op.writes(i) || !same_for_all(i), op.name, ": ", op.row->arguments[i].name,
          " is the same for all samples of a vmap, and what is written there is not; clone it for "
          "each sample first");
  }
}

// Draws for a batch: all samples at once, or one sample for all.
void BatchCall::random() {
  const bool in_place = op.form == OpInfo::Form::InPlace;
  if (level->randomness == Randomness::Different) {
    check_written();
    return batching::all(*this);
  }
  check(in_place, op.name,
        ": numbers that are the same for all samples cannot follow arguments that differ");
  const Tensor whole = front(0);
  BoxedValues one = arguments;
  one[0] = empty_like(select(whole, 0, 0));
  BoxedValues drawn;
  op.call(one, drawn);
  Tensor target = whole;
  copy_(target, std::get<Tensor>(one[0]));
  results = {target};
}

void BatchCall::loop() {
  check_written();
  if (!op.is_view())
    warn_once(op.row->name,
              text("vmap: ", op.row->name, " has no rule for a batch and runs sample by sample"));
  std::vector<BoxedValues> all(static_cast<size_t>(size()));
  for (int64_t sample = 0; sample < size(); ++sample) {
    BoxedValues mine;
    for (size_t i = 0; i < arguments.size(); ++i) mine.push_back(sample_of(i, sample));
    op.call(mine, all[static_cast<size_t>(sample)]);
  }
  results.clear();
  for (size_t r = 0; r < all[0].size(); ++r) results.push_back(stacked(op, all, r));
}

}  // namespace moonlet
