// tensor/cpu/conv/conv_onednn.cpp: convolution through oneDNN 2.x. Primitives are made once per
// thread and shape and kept, the latest used ones; oneDNN picks the layouts it computes in. Those
// that it computes by matrix products are left to ours, which signals cannot hurt
// (gemm_onednn.cpp).
#include "moonlet_config.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/prepared_operands.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/conv/conv_parts.h"
#include "tensor/cpu/gemm/gemm_onednn.h"
#include "tensor/raw_activation.h"

#if MOONLET_ONEDNN
#include <dnnl.hpp>
#endif

#if MOONLET_ONEDNN && DNNL_VERSION_MAJOR == 2
#include <array>
#include <cstring>
#include <list>
#include <unordered_map>

namespace moonlet::cpu {
namespace {

using dnnl::memory;

// What a primitive depends on: the pass, whether there is a bias, and the geometry.
using Key = std::array<int64_t, 7 + 6 * ConvShape::kAxes>;

Key key_of(ConvPass pass, bool bias, const ConvShape& s) {
  Key key{static_cast<int64_t>(pass) * 2 + bias,
          s.batch,
          s.groups,
          s.in_channels,
          s.out_channels,
          s.channels_last,
          static_cast<int64_t>(s.dtype)};
  auto at = key.begin() + 7;
  for (const auto* axes : {&s.in, &s.out, &s.kernel, &s.stride, &s.pad, &s.dilation})
    at = std::copy(axes->begin(), axes->end(), at);
  return key;
}

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t v : key) h = (h ^ static_cast<uint64_t>(v)) * 0x100000001b3u;
    return static_cast<size_t>(h ^ (h >> 32));
  }
};

// One tensor of a primitive: its plain layout and the one oneDNN wants, with the reorder between.
struct Slot {
  int argument = 0;
  memory::desc plain, wanted;
  dnnl::reorder reorder;
  bool same = true;
};

struct Plan {
  bool supported = false;
  dnnl::primitive primitive;
  memory::desc scratchpad;
  Slot inputs[2], output;
};

dnnl::engine& engine() {
  thread_local dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

// The three layouts of one convolution; `any` lets oneDNN choose.
struct Layouts {
  memory::desc x, weight, y, x_any, weight_any, y_any, bias;
  memory::dims stride, dilation, pad_low, pad_high;
};

// Whether the convolution is one of images, which lie as volumes of depth 1 do.
bool is_flat(const ConvShape& s) {
  return s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.pad[0] == 0;
}

Layouts layouts_of(const ConvShape& s) {
  using tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  const auto type = s.dtype == DType::BFloat16 ? memory::data_type::bf16 : f32;
  memory::dims x{s.batch, s.in_channels}, y{s.batch, s.out_channels};
  memory::dims w{s.out_channels / s.groups, s.in_channels / s.groups};
  if (s.groups > 1) w.insert(w.begin(), s.groups);
  const bool flat = is_flat(s);
  Layouts l;
  for (int i = flat ? 1 : 0; i < ConvShape::kAxes; ++i) {
    x.push_back(s.in[i]);
    y.push_back(s.out[i]);
    w.push_back(s.kernel[i]);
    l.stride.push_back(s.stride[i]);
    l.dilation.push_back(s.dilation[i] - 1);
    l.pad_low.push_back(s.pad[i]);
    l.pad_high.push_back((s.out[i] - 1) * s.stride[i] + (s.kernel[i] - 1) * s.dilation[i] + 1 -
                         s.in[i] - s.pad[i]);
  }
  const tag rows = flat ? tag::nchw : tag::ncdhw, last = flat ? tag::nhwc : tag::ndhwc;
  const tag grouped = flat ? tag::goihw : tag::goidhw, filters = flat ? tag::oihw : tag::oidhw;
  const tag image_tag = s.channels_last ? last : rows;
  l.x = {x, type, image_tag};
  l.y = {y, type, image_tag};
  l.weight = {w, type, s.groups > 1 ? grouped : filters};
  l.x_any = {x, type, tag::any};
  l.y_any = {y, type, tag::any};
  l.weight_any = {w, type, tag::any};
  l.bias = {{s.out_channels}, f32, tag::x};
  return l;
}

Slot slot(int argument, const memory::desc& plain, const memory::desc& wanted, bool is_output) {
  Slot out{argument, plain, wanted, {}, plain == wanted};
  if (!out.same)
    out.reorder =
        dnnl::reorder(is_output ? dnnl::reorder::primitive_desc(engine(), wanted, engine(), plain)
                                : dnnl::reorder::primitive_desc(engine(), plain, engine(), wanted));
  return out;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_desc(const Layouts& l, bool bias) {
  using Forward = dnnl::convolution_forward;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto desc = bias ? Forward::desc(kind, kAlgorithm, l.x_any, l.weight_any, l.bias, l.y_any,
                                         l.stride, l.dilation, l.pad_low, l.pad_high)
                         : Forward::desc(kind, kAlgorithm, l.x_any, l.weight_any, l.y_any, l.stride,
                                         l.dilation, l.pad_low, l.pad_high);
  return {desc, attributes(), engine()};
}

void plan_forward(Plan& plan, const Layouts& l, bool bias) {
  const auto pd = forward_desc(l, bias);
  plan.primitive = dnnl::convolution_forward(pd);
  plan.scratchpad = pd.scratchpad_desc();
  plan.inputs[0] = slot(DNNL_ARG_SRC, l.x, pd.src_desc(), false);
  plan.inputs[1] = slot(DNNL_ARG_WEIGHTS, l.weight, pd.weights_desc(), false);
  plan.output = slot(DNNL_ARG_DST, l.y, pd.dst_desc(), true);
}

void plan_input_grad(Plan& plan, const Layouts& l) {
  using Backward = dnnl::convolution_backward_data;
  const Backward::primitive_desc pd(Backward::desc(kAlgorithm, l.x_any, l.weight_any, l.y_any,
                                                   l.stride, l.dilation, l.pad_low, l.pad_high),
                                    attributes(), engine(), forward_desc(l, false));
  plan.primitive = Backward(pd);
  plan.scratchpad = pd.scratchpad_desc();
  plan.inputs[0] = slot(DNNL_ARG_DIFF_DST, l.y, pd.diff_dst_desc(), false);
  plan.inputs[1] = slot(DNNL_ARG_WEIGHTS, l.weight, pd.weights_desc(), false);
  plan.output = slot(DNNL_ARG_DIFF_SRC, l.x, pd.diff_src_desc(), true);
}

void plan_weight_grad(Plan& plan, const Layouts& l) {
  using Backward = dnnl::convolution_backward_weights;
  const Backward::primitive_desc pd(Backward::desc(kAlgorithm, l.x_any, l.weight_any, l.y_any,
                                                   l.stride, l.dilation, l.pad_low, l.pad_high),
                                    attributes(), engine(), forward_desc(l, false));
  plan.primitive = Backward(pd);
  plan.scratchpad = pd.scratchpad_desc();
  plan.inputs[0] = slot(DNNL_ARG_DIFF_DST, l.y, pd.diff_dst_desc(), false);
  plan.inputs[1] = slot(DNNL_ARG_SRC, l.x, pd.src_desc(), false);
  plan.output = slot(DNNL_ARG_DIFF_WEIGHTS, l.weight, pd.diff_weights_desc(), true);
}

[[noreturn]] void out_of_memory() {
  moonlet::memory::note_shortage();
  throw OutOfMemory("conv: oneDNN ran out of memory");
}

bool by_matrix_products(const dnnl::primitive& primitive) {
  const char* name = "";
  dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &name);
  return std::strstr(name, "gemm") != nullptr;
}

// Whether most of the gradient of a weight is one of channels that are not there: few channels are
// padded to a vector, and then products of the channels that are there take less time.
bool mostly_padding(const Slot& weight) {
  return weight.wanted.get_size() > 2 * weight.plain.get_size();
}

Plan make_plan(ConvPass pass, bool bias, const ConvShape& s) {
  if (!moonlet::memory::has_room(moonlet::memory::kKernelCode)) out_of_memory();
  Plan plan;
  try {
    const Layouts l = layouts_of(s);
    if (pass == ConvPass::Forward) plan_forward(plan, l, bias);
    if (pass == ConvPass::InputGrad) plan_input_grad(plan, l);
    if (pass == ConvPass::WeightGrad) plan_weight_grad(plan, l);
    plan.supported = !by_matrix_products(plan.primitive) &&
                     !(pass == ConvPass::WeightGrad && mostly_padding(plan.output));
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) out_of_memory();
  }
  return plan;
}

// The thread's plans, the latest used first.
class PlanCache {
 public:
  std::shared_ptr<const Plan> get(ConvPass pass, bool bias, const ConvShape& s) {
    const Key key = key_of(pass, bias, s);
    if (auto found = index_.find(key); found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    order_.emplace_front(key, std::make_shared<const Plan>(make_plan(pass, bias, s)));
    index_[key] = order_.begin();
    if (order_.size() > kCapacity) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

 private:
  static constexpr size_t kCapacity = thresholds::conv::kOnednnPlans;
  using Order = std::list<std::pair<Key, std::shared_ptr<const Plan>>>;
  Order order_;
  std::unordered_map<Key, Order::iterator, KeyHash> index_;
};

// Memory of a layout, held by a tensor so that it comes from the pooled allocator.
memory scratch(const memory::desc& desc, Tensor& holder) {
  holder = empty_plain({static_cast<int64_t>(std::max<size_t>(desc.get_size(), 1))},
                       {DType::UInt8, {}}, "conv");
  return memory(desc, engine(), holder.raw());
}

memory plain_memory(const memory::desc& desc, const Tensor& t) {
  return memory(desc, engine(), t.raw());
}

// An input in the layout that the primitive wants; in `holder`, but for weights of programs, which
// are reordered once.
memory reordered(const std::shared_ptr<const Plan>& plan, const Slot& in, const Tensor& given,
                 memory plain, Tensor& holder) {
  if (prepared_operands != nullptr && in.argument == DNNL_ARG_WEIGHTS) {
    const size_t bytes = in.wanted.get_size();
    const Tensor* const kept =
        prepared_operands->get(given.raw(), {{}, plan}, bytes, [&](Tensor& to) {
          memory wanted = plain_memory(in.wanted, to);
          in.reorder.execute(stream(), plain, wanted);
          stream().wait();
        });
    if (kept != nullptr) return plain_memory(in.wanted, *kept);
  }
  memory wanted = scratch(in.wanted, holder);
  in.reorder.execute(stream(), plain, wanted);
  return wanted;
}

bool run(ConvPass pass, const ConvShape& s, const ConvTensors& t) {
  thread_local PlanCache cache;
  const TeamLimit team;
  const auto plan = cache.get(pass, t.bias.defined(), s);
  if (!plan->supported) return false;
  try {
    Tensor holders[4];
    std::unordered_map<int, memory> arguments;
    const Tensor* given[2] = {pass == ConvPass::Forward ? &t.x : &t.y,
                              pass == ConvPass::WeightGrad ? &t.x : &t.weight};
    const Tensor& destination = pass == ConvPass::Forward     ? t.y
                                : pass == ConvPass::InputGrad ? t.x
                                                              : t.weight;
    for (int i = 0; i < 2; ++i) {
      const Slot& in = plan->inputs[i];
      memory plain = plain_memory(in.plain, *given[i]);
      if (!in.same) plain = reordered(plan, in, *given[i], plain, holders[i]);
      arguments.emplace(in.argument, plain);
    }
    const Slot& out = plan->output;
    memory result = plain_memory(out.plain, destination);
    memory computed = out.same ? result : scratch(out.wanted, holders[2]);
    arguments.emplace(out.argument, computed);
    arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch(plan->scratchpad, holders[3]));
    if (t.bias.defined())
      arguments.emplace(
          DNNL_ARG_BIAS,
          plain_memory({{s.out_channels}, memory::data_type::f32, memory::format_tag::x}, t.bias));
    plan->primitive.execute(stream(), arguments);
    if (!out.same) out.reorder.execute(stream(), computed, result);
    stream().wait();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) out_of_memory();
    fail("conv: oneDNN failed: ", e.what());
  }
  // oneDNN's own relu behind a convolution makes 0 of what is no number.
  if (Tensor y = t.y; s.relu) raw::relu_(y);
  return true;
}

// Parts of a result are added up in float32.
bool in_parts(ConvPass pass, const ConvShape& s, const ConvTensors& t, double work) {
  if (s.dtype == DType::BFloat16 && (!multiplies_bfloat16() || !fits_one_part(pass, s, work)))
    return false;
  return conv_in_parts(pass, s, t, work, run);
}

}  // namespace

bool conv_onednn(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, double work) {
  return in_parts(ConvPass::Forward, s, {x, weight, bias, y}, work);
}

bool conv_transpose_onednn(const ConvShape& s, const Tensor& x, const Tensor& weight, Tensor& y,
                           double work) {
  return in_parts(ConvPass::InputGrad, s, {y, weight, {}, x}, work);
}

bool conv_grad_weight_onednn(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y,
                             double work) {
  return in_parts(ConvPass::WeightGrad, s, {x, y, {}, grad}, work);
}

}  // namespace moonlet::cpu

#else

namespace moonlet::cpu {

bool conv_onednn(const ConvShape&, const Tensor&, const Tensor&, const Tensor&, Tensor&, double) {
  return false;
}
bool conv_transpose_onednn(const ConvShape&, const Tensor&, const Tensor&, Tensor&, double) {
  return false;
}
bool conv_grad_weight_onednn(const ConvShape&, const Tensor&, const Tensor&, Tensor&, double) {
  return false;
}

}  // namespace moonlet::cpu
#endif
