// autograd/meta.h: what the tape keeps beside a tensor, and how an op's result gets its history.
// Used by the generated recording functions.
#pragma once

#include "autograd/node.h"
#include "autograd/tape.h"

namespace moonlet {

struct TapeMeta final : AutogradMeta {
  static void* operator new(size_t) { return memory::FreeListOf<TapeMeta>::get(); }
  static void operator delete(void* meta) { memory::FreeListOf<TapeMeta>::put(meta); }

  Tensor grad;
  NodeRef grad_fn;
  int output = 0;                     // which output of grad_fn this tensor is
  Tensor base_handle;                 // keeps `base` alive when this tensor is a view
  uint32_t version = 0;               // the storage's version when a view's grad_fn was last right
  bool no_grad_view = false;          // a view made while recording was off
  std::shared_ptr<Tensor> kept_grad;  // of a non-leaf after retain_grad
  std::vector<HookEntry> hooks;       // of a leaf

  void set_base(const Tensor& t) {
    base_handle = t;
    base = t.impl();
  }
};

// The tape's part of a tensor, or null.
inline TapeMeta* meta_of(const Tensor& t) { return static_cast<TapeMeta*>(t.impl()->autograd); }
// The same, made when missing.
TapeMeta& ensure_meta(const Tensor& t);

// The node that produced t, brought up to date when t is a view whose base changed in place.
NodeRef grad_fn_of(const Tensor& t);

// Makes `y` output `output` of `node`.
void set_history(Tensor& y, const NodeRef& node, int output = 0);
// Makes `y` the product of whatever `edge` names.
void set_edge(Tensor& y, const Edge& edge);
// A new handle on t's data whose history is that output of `node`.
Tensor with_history(const Tensor& t, Node& node, int output);
// Notes that y is a view of x, so that in-place changes through either reach both histories.
void register_view(Tensor& y, const Tensor& x);

// Before an in-place op: throws when x is a leaf that requires grad, a view of one, or a view made
// without recording. Only called when recording is on and an input requires grad.
void check_inplace(const Tensor& x, const char* op);
// Throws for an op without a derivative that would change x in place while x has a history.
void check_inplace_without_derivative(const Tensor& x, const char* op);
// After an in-place op recorded as `node` (edge 0 is x's old value): x's history becomes `node`;
// when x is a view, its base's does too.
void rebase_history(Tensor& x, const NodeRef& node);

inline bool requires_grad(const Tensor& t) { return t.defined() && t.requires_grad(); }
inline bool requires_grad(const Operand& o) { return o.requires_grad(); }
bool requires_grad(const std::vector<Tensor>& list);

// Appends the edge of each tensor (or nothing, for a number).
void add_edge(Node& node, const Tensor& t);
void add_edge(Node& node, const Operand& o);
void add_edge(Node& node, const std::vector<Tensor>& list);

}  // namespace moonlet
