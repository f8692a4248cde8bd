// autograd/record.h: everything a generated recording function uses.
#pragma once

#include <array>
#include <tuple>

#include "autograd/formulas.h"
#include "autograd/meta.h"
#include "autograd/ops.h"
#include "tensor/raw.h"
#include "tensor/views.h"

namespace moonlet {

// Saves an argument of an op that may be changing `x` in place: what shares x's memory is cloned.
inline void save_beside(Saved& saved, const Tensor& t, bool inplace, const Tensor& x) {
  if (inplace && t.defined() && &t.storage() == &x.storage())
    saved.save_clone(t);
  else
    saved.save(t);
}
inline void save_beside(SavedOperand& saved, const Operand& o, bool inplace, const Tensor& x) {
  if (inplace && o.is_tensor() && &o.tensor().storage() == &x.storage())
    saved.save_clone(o.tensor());
  else
    saved.save(o);
}

inline void save_list(std::vector<Saved>& saved, const std::vector<Tensor>& list) {
  saved.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) saved[i].save(list[i]);
}
inline std::vector<Tensor> unpack_list(const std::vector<Saved>& saved, Node& owner) {
  std::vector<Tensor> out;
  for (const Saved& s : saved) out.push_back(s.unpack(owner));
  return out;
}
inline void assign_list(Tensor* out, std::vector<Tensor> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) out[i] = std::move(gradients[i]);
}

[[noreturn]] inline void no_out_gradient(const char* op) {
  fail(op,
       ": the out form is not recorded, and an input requires grad; use the plain form, or "
       "wrap the call in ml.no_grad");
}

}  // namespace moonlet
