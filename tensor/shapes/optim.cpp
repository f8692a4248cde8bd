// tensor/shapes/optim.cpp: argument checks of the optimisers' steps and of clipping.
#include <cmath>
#include <initializer_list>
#include <utility>

#include "tensor/core/dispatch.h"
#include "tensor/optim_steps.h"
#include "tensor/shapes_optim.h"

namespace moonlet::shapes {
namespace {

using List = std::vector<Tensor>;
using Named = std::pair<const char*, const List*>;

void check_one(const char* op, const char* name, size_t i, const Tensor& x, const Tensor& other) {
  check(other.defined(), op, ": ", name, "[", i + 1, "] is not a tensor");
  check(other.sizes() == x.sizes(), op, ": ", name, "[", i + 1, "] has shape ", other.sizes(),
        ", the parameter ", x.sizes());
  check_same_dtype(op, x, name, other);
  check_same_device(op, x, name, other);
}

// All of a list that is not empty are of one floating dtype and device.
void check_alike(const char* op, const List& x) {
  for (const Tensor& each : x) {
    check_dtype(op, "x", each, dtypes::floating);
    check_same_dtype(op, x[0], "x", each);
    check_same_device(op, x[0], "x", each);
  }
}

// Every list has as many tensors as `x`, each of the shape of the parameter of its number, and all
// are of one dtype and device. Those in `optional` may be empty.
void check_lists(const char* op, const List& x, std::initializer_list<Named> wanted,
                 std::initializer_list<Named> optional = {}) {
  check_alike(op, x);
  const auto each = [&](const Named& named) {
    const auto& [name, list] = named;
    check(list->size() == x.size(), op, ": ", name, " has ", list->size(), " tensors for ",
          x.size(), " parameters");
    for (size_t i = 0; i < x.size(); ++i) check_one(op, name, i, x[i], (*list)[i]);
  };
  for (const Named& named : wanted) each(named);
  for (const Named& named : optional)
    if (!named.second->empty()) each(named);
}

void check_number(const char* op, const char* name, const Tensor& x, const Tensor& one) {
  check_dtype(op, name, one, dtypes::floating);
  check_same_device(op, x, name, one);
}

void check_one_number(const char* op, const char* name, const Tensor& like, const Tensor& one,
                      DType dtype) {
  check(one.dtype() == dtype && one.numel() == 1, op, ": ", name, " must be of one ", dtype,
        ", got ", one.dtype(), " of shape ", one.sizes());
  check_same_device(op, like, name, one);
}

// Counts on the device: a tensor of one number for each parameter; and what is given there:
// nothing, or in the stead of each number a tensor of one for all parameters, or of one for each.
// `found_inf` may be none.
void check_numbers(const char* op, const List& x, std::initializer_list<Named> counts,
                   const List& given, int numbers, const Tensor& found_inf) {
  for (const auto& [name, list] : counts) {
    check(list->size() == x.size(), op, ": ", name, " has ", list->size(), " tensors for ",
          x.size(), " parameters");
    for (size_t i = 0; i < x.size(); ++i) {
      check((*list)[i].defined(), op, ": ", name, "[", i + 1, "] is not a tensor");
      check((*list)[i].numel() == 1, op, ": ", name, "[", i + 1,
            "] must have one element, got shape ", (*list)[i].sizes());
      check_number(op, name, x[0], (*list)[i]);
    }
  }
  check(given.empty() || given.size() == static_cast<size_t>(numbers), op, ": given has ",
        given.size(), " tensors for ", numbers, " numbers");
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    const bool each = given[i].dim() == 1 && given[i].numel() == static_cast<int64_t>(x.size());
    check(each || given[i].numel() == 1, op, ": given[", i + 1,
          "] must have one element, or one for each of ", x.size(), " parameters, got shape ",
          given[i].sizes());
    check_number(op, "given", x[0], given[i]);
  }
  if (found_inf.defined()) check_one_number(op, "found_inf", x[0], found_inf, DType::Float32);
}

}  // namespace

#include "tensor/optim_checks-inl.h"

Result list_norm(const List& x, double p) {
  check(p > 0, "list_norm: p must be above 0, got ", p);
  check_alike("list_norm", x);
  for (const Tensor& each : x)
    check(each.numel() > 0 || !std::isinf(p), "list_norm: the infinity norm of no elements");
  return {{}, options_of(x[0])};
}

void list_limit_norm(const List& x, const Tensor& norm, double) {
  check_alike("list_limit_norm", x);
  check_dtype("list_limit_norm", "norm", norm, dtypes::floating);
  check_same_device("list_limit_norm", x[0], "norm", norm);
  check(norm.dim() == 0, "list_limit_norm: norm must have no dimension, got shape ", norm.sizes());
}

void list_clamp(const List& x, double, double) { check_alike("list_clamp", x); }

void list_unscale(const List& x, const List& found_inf, const Tensor& scale) {
  check_alike("list_unscale", x);
  check_one_number("list_unscale", "scale", x[0], scale, DType::Float32);
  check(found_inf.size() == 1, "list_unscale: found_inf must be a list of one tensor, got ",
        found_inf.size());
  check_one_number("list_unscale", "found_inf", x[0], found_inf[0], DType::Float32);
}

void update_loss_scale(const List& scale, const List& growth_tracker, const Tensor& found_inf,
                       double, double, int64_t) {
  check(scale.size() == 1 && growth_tracker.size() == 1,
        "update_loss_scale: scale and growth_tracker must be lists of one tensor, got ",
        scale.size(), " and ", growth_tracker.size());
  const auto one = [&](const char* name, const Tensor& x, DType dtype) {
    check_one_number("update_loss_scale", name, scale[0], x, dtype);
  };
  one("scale", scale[0], DType::Float32);
  one("growth_tracker", growth_tracker[0], DType::Int32);
  one("found_inf", found_inf, DType::Float32);
}

}  // namespace moonlet::shapes
