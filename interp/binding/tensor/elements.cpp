// interp/binding/tensor/elements.cpp: Lua functions called for each element of a tensor.
#include <array>

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/uses_elements.h"
#include "tensor/program/captured_call.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::binding {
namespace {

// The elements of a tensor in row order on the host.
class Elements {
 public:
  Elements(const char* op, const Tensor& x) {
    check(!is_complex(x.dtype()), op, ": complex elements are no Lua numbers; use view_as_real");
    check(!x.device().is_batched(), op,
          ": elements of a tensor inside vmap cannot be looked at one by one");
    program::note_values_read(op);
    host_ = contiguous(to(detach(x), std::nullopt, Device{}));
  }
  void push(lua_State* L, int64_t i) const {
    visit<dtypes::any>(host_.dtype(),
                       [&]<class T>() { push_result(L, Scalar::of(host_.elements<T>()[i])); });
  }

 private:
  Tensor host_;
};

constexpr ArgSpec kApplyArgs[] = {{"x", ArgType::Tensor}, {"f", ArgType::Any}};
constexpr char kApply[] = "apply_";
const Signature kApplySignature = {kApply, "apply_(x, f)", kApplyArgs, std::size(kApplyArgs)};
constexpr ArgSpec kMapArgs[] = {
    {"x", ArgType::Tensor}, {"other", ArgType::Tensor}, {"f", ArgType::Any}};
constexpr char kMap[] = "map_";
const Signature kMapSignature = {kMap, "map_(x, other, f)", kMapArgs, std::size(kMapArgs)};
constexpr ArgSpec kMap2Args[] = {
    {"x", ArgType::Tensor}, {"a", ArgType::Tensor}, {"b", ArgType::Tensor}, {"f", ArgType::Any}};
constexpr char kMap2[] = "map2_";
const Signature kMap2Signature = {kMap2, "map2_(x, a, b, f)", kMap2Args, std::size(kMap2Args)};

// x[i] = f(x[i], others[i], ...) for all elements in row order. What f sees is what was there
// before the call; x changes at its end.
int call_for_each(lua_State* L, const Signature& signature) {
  ArgReader args(L, signature);
  const int tensors = signature.count - 1;
  Tensor x = args.tensor(0);  // f may free the script's
  check(!x.requires_grad(), signature.op,
        ": x requires grad, and what a Lua function computes has no "
        "derivative; x:detach() has the same memory");
  const int f = args.slot(tensors);
  check(is_callable(L, f), signature.op, ": argument 'f' must be a function, got ",
        type_name(L, f));
  std::vector<Elements> elements;
  for (int k = 0; k < tensors; ++k)
    elements.emplace_back(signature.op, k == 0 ? x : expand(args.tensor(k), x.sizes()));
  Tensor made = empty_plain(x.sizes(), {x.dtype(), Device{}}, signature.op);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (i % kStopBlock == kStopBlock - 1) stop_if_requested();
    lua_pushvalue(L, f);
    for (const Elements& each : elements) each.push(L, i);
    lua_call(L, tensors, 1);
    const std::optional<Scalar> value = scalar_at(L, -1);
    if (!value)
      fail(signature.op, ": f must give a number, got ", type_name(L, -1), " for element ", i + 1);
    check_fits(*value, x.dtype(), signature.op);
    visit<dtypes::any>(x.dtype(), [&]<class T>() { made.elements<T>()[i] = value->to<T>(); });
    lua_pop(L, 1);
  }
  copy_(x, made);
  lua_settop(L, 1);
  return 1;
}

int l_apply(lua_State* L) { return call_for_each(L, kApplySignature); }
int l_map(lua_State* L) { return call_for_each(L, kMapSignature); }
int l_map2(lua_State* L) { return call_for_each(L, kMap2Signature); }

}  // namespace

void register_elements(lua_State* L) {
  static const luaL_Reg kMethods[] = {
      {kApply, guard<l_apply>}, {kMap, guard<l_map>}, {kMap2, guard<l_map2>}, {nullptr, nullptr}};
  set_functions(L, -1, kMethods);
}

}  // namespace moonlet::binding
