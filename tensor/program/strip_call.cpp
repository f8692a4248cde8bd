// tensor/program/strip_call.cpp: runs the parts of a strip, rows after rows.
#include "tensor/program/strip_call.h"

#include <algorithm>

#include "tensor/core/dispatch.h"
#include "tensor/kernels_random.h"
#include "tensor/program/arena.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::program {

namespace {

using Kind = StripPart::Kind;

int64_t numel_of(const Dims& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

void put(Tensor& t, Storage& storage) {
  TensorImpl* impl = t.impl();
  if (impl->storage == &storage) return;
  storage.retain();
  impl->storage->release();
  impl->storage = &storage;
}

}  // namespace

// Lets go of a run's memory when it ends or throws.
class StripCall::Let {
 public:
  explicit Let(StripCall& call) : call_(call) {}
  ~Let() { call_.let_go(); }
  Let(const Let&) = delete;
  Let& operator=(const Let&) = delete;

 private:
  StripCall& call_;
};

StripCall::StripCall(const Strip& strip, const Graph& graph,
                     const std::function<const Tensor&(ValueId)>& tensor)
    : strip_(strip),
      graph_(graph),
      parts_(strip.parts.size()),
      idle_(Storage::allocate(Arena::kAlignment, Device())) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const StripPart& part = strip.parts[i];
    Part& made = parts_[i];
    switch (part.kind) {
      case Kind::Loop:
        for (const StripPart::Operand& each : part.operands)
          made.operands.push_back(home_of(each.buffer));
        break;
      case Kind::Fold: prepare_fold(part, made, tensor); break;
      default:
        made.whole = make_call(part, strip.step, tensor);
        if (const int64_t rest = strip.rows % strip.step; rest != 0)
          made.last = make_call(part, rest, tensor);
    }
  }
}

StripCall::~StripCall() {
  tensors_.clear();
  if (idle_) idle_->release();
}

int StripCall::home_of(BufferId buffer) {
  const auto found = std::ranges::find(buffers_, buffer);
  const auto at = static_cast<int>(found - buffers_.begin());
  if (found == buffers_.end()) {
    buffers_.push_back(buffer);
    is_local_.push_back(strip_.is_local(buffer));
  }
  return at;
}

// So many rows of a value.
Tensor StripCall::row_tensor(ValueId id, int64_t rows) {
  const Value& v = graph_.values[id];
  Dims sizes{rows};
  const int lead = leading_dims(v.sizes, strip_.rows);
  for (int d = std::max(lead, 0); d < v.sizes.size(); ++d) sizes.push_back(v.sizes[d]);
  const int64_t row = numel_of(v.sizes) / strip_.rows;
  // A mask's elements alone count.
  if (lead < 0) sizes = {rows, row};
  RowTensor& made = tensors_.emplace_back();
  made.tensor = view_of(*idle_, {0}, {1}, 0, v.dtype);
  TensorImpl* impl = made.tensor.impl();
  impl->sizes = sizes;
  impl->strides = contiguous_strides(sizes);
  impl->numel = rows * row;
  impl->contiguous = true;
  made.home = home_of(v.buffer);
  made.offset = v.offset;
  made.step = is_local_[made.home] ? 0 : row;
  return made.tensor;
}

StripCall::Call StripCall::make_call(const StripPart& part, int64_t rows,
                                     const std::function<const Tensor&(ValueId)>& tensor) {
  const Node& node = graph_.nodes[part.node()];
  Call out;
  for (const Result& each : node.results)
    out.results.push_back(row_tensor(std::get<ValueRef>(each).id, rows));
  if (part.kind == Kind::Mask) return out;
  if (part.kind == Kind::Out)
    for (const Tensor& each : out.results) out.arguments.emplace_back(each);
  int lead = -1;
  for (int i = 0; i < static_cast<int>(node.arguments.size()); ++i) {
    const auto* one = std::get_if<ValueRef>(&node.arguments[i]);
    if (!one) {
      out.arguments.push_back(std::get<BoxedValue>(node.arguments[i]));
    } else if (one->id == kNone) {
      out.arguments.emplace_back();
    } else if ((part.by_rows >> i & 1u) != 0) {
      if (lead < 0) lead = leading_dims(graph_.values[one->id].sizes, strip_.rows);
      out.arguments.emplace_back(row_tensor(one->id, rows));
    } else {
      out.arguments.emplace_back(tensor(one->id));
    }
  }
  if (part.dims < 0) return out;
  // One dimension stands for those that are rows.
  const auto outs = part.kind == Kind::Out ? out.results.size() : 0;
  BoxedValue& dims = out.arguments[outs + static_cast<size_t>(part.dims)];
  if (auto* dim = std::get_if<int64_t>(&dims)) *dim -= lead - 1;
  if (auto* list = std::get_if<Dims>(&dims))
    for (int d = 0; d < list->size(); ++d) (*list)[d] -= lead - 1;
  return out;
}

void StripCall::prepare_fold(const StripPart& part, Part& to,
                             const std::function<const Tensor&(ValueId)>& tensor) {
  const Node& node = graph_.nodes[part.node()];
  const Value& x = graph_.values[std::get<ValueRef>(node.arguments[0]).id];
  to.from.home = home_of(x.buffer);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  to.from.offset = x.offset * size;
  to.from.step = numel_of(x.sizes) / strip_.rows;
  to.runs.resize(static_cast<size_t>(part.fold->bytes()));
  to.result = tensor(std::get<ValueRef>(node.results[0]).id);
}

void StripCall::bind(std::span<const Home> homes) {
  for (RowTensor& each : tensors_) put(each.tensor, *homes[each.home].storage);
}

void StripCall::let_go() {
  results_.clear();
  for (RowTensor& each : tensors_) {
    put(each.tensor, *idle_);
    each.tensor.impl()->offset = 0;
  }
}

// The numbers of all masks, in their order, as one after the other would draw them.
void StripCall::draw() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (strip_.parts[i].kind != Kind::Mask) continue;
    const Node& node = graph_.nodes[strip_.parts[i].node()];
    const auto* given = std::get_if<BoxedValue>(&node.arguments[2]);
    const auto* generator = given ? std::get_if<Generator*>(given) : nullptr;
    const Value& y = graph_.values[std::get<ValueRef>(node.results[0]).id];
    parts_[i].numbers = moonlet::draw(generator ? *generator : nullptr, numel_of(y.sizes));
  }
}

void StripCall::run_loop(size_t i, std::span<const Home> homes, int64_t first, int64_t rows) {
  const StripPart& part = strip_.parts[i];
  char* addresses[Loop::kMaxOperands];
  int64_t index[kMaxDims];
  for (int d = 0; d < part.outer; ++d) {
    index[d] = first % part.outer_sizes[d];
    first /= part.outer_sizes[d];
  }
  for (size_t k = 0; k < part.operands.size(); ++k) {
    const int home = parts_[i].operands[k];
    addresses[k] = homes[home].storage->data() + homes[home].shift;
    for (int d = 0; d < part.outer && !is_local_[home]; ++d)
      addresses[k] += index[d] * part.operands[k].strides[d];
  }
  (rows == strip_.step ? part.whole : part.last)->run(addresses);
}

void StripCall::run_part(size_t i, std::span<const Home> homes, int64_t first, int64_t rows) {
  const StripPart& part = strip_.parts[i];
  Part& made = parts_[i];
  if (part.kind == Kind::Loop) return run_loop(i, homes, first, rows);
  const Node& node = graph_.nodes[part.node()];
  if (part.kind == Kind::Fold) {
    const Value& x = graph_.values[std::get<ValueRef>(node.arguments[0]).id];
    const Home& home = homes[made.from.home];
    const int64_t begin = first * made.from.step;
    const char* from = home.storage->data() + home.shift + made.from.offset;
    if (!is_local_[made.from.home]) from += begin * static_cast<int64_t>(size_of(x.dtype));
    return part.fold->add(from, begin, rows * made.from.step, made.runs.data());
  }
  Call& call = rows == strip_.step ? made.whole : made.last;
  if (part.kind == Kind::Mask) {
    Tensor& y = call.results[0];
    Philox numbers = made.numbers;
    numbers.offset += static_cast<uint64_t>(first * (y.numel() / rows) / 4);
    const auto* p = std::get_if<double>(&std::get<BoxedValue>(node.arguments[1]));
    return kernels_for(DeviceType::CPU, "dropout_mask").random->dropout_mask(y, *p, numbers, y);
  }
  if (part.kind == Kind::Kernel) return node.op->kernel(call.arguments, call.results);
  results_.clear();
  node.op->out(call.arguments, results_);
}

void StripCall::run(std::span<const Home> homes, int32_t& at) {
  const Let at_end(*this);
  bind(homes);
  draw();
  for (int64_t first = 0; first < strip_.rows; first += strip_.step) {
    const int64_t rows = std::min(strip_.step, strip_.rows - first);
    for (RowTensor& each : tensors_)
      each.tensor.impl()->offset =
          each.offset + first * each.step +
          homes[each.home].shift / static_cast<int64_t>(size_of(each.tensor.dtype()));
    for (size_t i = 0; i < parts_.size(); ++i) {
      at = strip_.parts[i].node();
      stop_if_requested();
      run_part(i, homes, first, rows);
    }
  }
  for (size_t i = 0; i < parts_.size(); ++i)
    if (strip_.parts[i].kind == Kind::Fold)
      strip_.parts[i].fold->finish(parts_[i].runs.data(), parts_[i].result);
}

}  // namespace moonlet::program
