// autograd/composite/sort.cpp: orders without the values, and elements or slices once each.
#include "autograd/tape.h"
#include "autograd/uses_composite_sort.h"

namespace moonlet {

Tensor argsort_composite(const Tensor& x, int64_t dim, bool descending, bool stable) {
  return std::get<1>(sort(x, dim, descending, stable));
}

Tensor msort_composite(const Tensor& x) { return std::get<0>(sort(x, 0)); }

namespace {

using Uniques = std::tuple<Tensor, Tensor, Tensor>;

// The runs of equal neighbours among n.
struct Runs {
  int64_t n;
  Tensor begins;  // (n): whether a run begins there
  Tensor first;   // the positions (from 1) where they do
};

// `differs` (n - 1) says whether a position after the first differs from the one before.
Runs runs_of(const Tensor& differs, int64_t n) {
  const Options bools{DType::Bool, differs.device()};
  const Tensor begins = n > 0 ? cat({ones({1}, bools), differs}, 0) : empty({0}, bools);
  return {n, begins, reshape(nonzero(begins), {-1})};
}

// The number (from 1) of the run that each position is in.
Tensor run_numbers(const Runs& runs) { return cumsum(runs.begins, 0); }

Tensor run_lengths(const Runs& runs) {
  return diff(cat({runs.first, full({1}, runs.n + 1, options_of(runs.first))}, 0));
}

Tensor differs_from_before(const Tensor& x) {
  const int64_t n = x.size(0);
  if (n == 0) return empty({0}, {DType::Bool, x.device()});
  const Tensor differs = ne(narrow(x, 0, 1, n - 1), narrow(x, 0, 0, n - 1));
  return x.dim() == 1 ? differs : any(differs, Dims{1});
}

Tensor put_back(const Tensor& order, const Tensor& of_sorted) {
  return scatter(empty_like(of_sorted), 0, order, of_sorted);
}

// x (n, m): the order of its rows by their first elements, among equal ones by the second, ...:
// stable sorts from the last column to the first.
Tensor row_order(const Tensor& rows) {
  Tensor order = cumsum(ones({rows.size(0)}, {DType::Int64, rows.device()}), 0);
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    const Tensor keys = index_select(select(rows, 1, column), 0, order);
    order = index_select(order, 0, argsort(keys, 0, false, true));
  }
  return order;
}

// The slices of x along d as rows.
Tensor slices(const char* op, const Tensor& x, int d) {
  const int64_t n = x.size(d);
  check(x.numel() > 0 || n == 0, op, ": x has shape ", x.sizes(), ", whose slices are empty");
  const int64_t width = n > 0 ? x.numel() / n : 1;
  return reshape(movedim(x, {d}, {0}), {n, width});
}

// `order` is undefined where x stays in its own.
Uniques from_runs(const Tensor& x, int d, const Tensor& order, const Runs& runs,
                  const Dims& inverse_sizes, bool return_inverse, bool return_counts) {
  const Tensor from = order.defined() ? index_select(order, 0, runs.first) : runs.first;
  Tensor inverse;
  if (return_inverse) {
    const Tensor numbers = run_numbers(runs);
    inverse = reshape(order.defined() ? put_back(order, numbers) : numbers, inverse_sizes);
  }
  return {index_select(x, d, from), inverse, return_counts ? run_lengths(runs) : Tensor()};
}

}  // namespace

Uniques unique_composite(const Tensor& x, bool, bool return_inverse, bool return_counts,
                         std::optional<int64_t> dim) {
  const NoGrad no_grad;
  check(!is_complex(x.dtype()), "unique: x has dtype ", x.dtype(), ", a real one is expected");
  if (!dim) {
    const Tensor flat = reshape(x, {-1});
    const auto [sorted, order] = sort(flat, 0, false, true);
    const Runs runs = runs_of(differs_from_before(sorted), flat.numel());
    return from_runs(flat, 0, order, runs, x.sizes(), return_inverse, return_counts);
  }
  check(x.dim() > 0, "unique: x has no dimension");
  const int d = wrap_dim(*dim, x.dim(), "unique");
  const Tensor rows = slices("unique", x, d);
  const Tensor order = row_order(rows);
  const Runs runs = runs_of(differs_from_before(index_select(rows, 0, order)), rows.size(0));
  return from_runs(x, d, order, runs, {rows.size(0)}, return_inverse, return_counts);
}

Uniques unique_consecutive_composite(const Tensor& x, bool return_inverse, bool return_counts,
                                     std::optional<int64_t> dim) {
  const NoGrad no_grad;
  if (!dim) {
    const Tensor flat = reshape(x, {-1});
    const Runs runs = runs_of(differs_from_before(flat), flat.numel());
    return from_runs(flat, 0, {}, runs, x.sizes(), return_inverse, return_counts);
  }
  check(x.dim() > 0, "unique_consecutive: x has no dimension");
  const int d = wrap_dim(*dim, x.dim(), "unique_consecutive");
  const Tensor rows = slices("unique_consecutive", x, d);
  const Runs runs = runs_of(differs_from_before(rows), rows.size(0));
  return from_runs(x, d, {}, runs, {rows.size(0)}, return_inverse, return_counts);
}

}  // namespace moonlet
