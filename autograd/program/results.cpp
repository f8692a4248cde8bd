// autograd/program/results.cpp: how the results of a captured function come about: as what it was
// given, as what its graph makes, or as views of these.
#include <algorithm>

#include "autograd/history.h"
#include "autograd/program/trace.h"

namespace moonlet::program {

namespace {

// The steps that made a view of its base, the last one first.
std::vector<ViewRecipe::Step> steps_of(const Tensor& t) {
  std::vector<ViewRecipe::Step> out;
  const AutogradMeta* const meta = meta_of(t);
  if (!meta || !meta->base) return out;
  for (const ViewRecipe* each = &meta->view.recipe; each; each = each->before.get())
    out.push_back(each->step);
  return out;
}

const Tensor& root_of(const Tensor& t) {
  const AutogradMeta* const meta = meta_of(t);
  return meta && meta->base ? moonlet::root_of(meta->view) : t;
}

bool lies_as(const Tensor& a, const Tensor& b) {
  return &a.storage() == &b.storage() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.offset() == b.offset();
}

class Sorter {
 public:
  Sorter(const CapturedRun& run, RecordedGraphs& out) : run_(run), out_(out) {}

  std::vector<Tensor> run() {
    for (const Tensor& t : run_.results) {
      const auto first = std::find_if(run_.results.begin(), run_.results.end(),
                                      [&](const Tensor& each) { return each.is_same(t); });
      const auto earlier = static_cast<size_t>(first - run_.results.begin());
      if (earlier == out_.results.size()) {
        out_.results.push_back(sort(t));
        continue;
      }
      FunctionResult& again = out_.results.emplace_back();
      again.kind = FunctionResult::Kind::Again;
      again.earlier = static_cast<int>(earlier);
    }
    return std::move(made_);
  }

 private:
  FunctionResult sort(const Tensor& t) {
    for (const Given each : run_.given())
      if (run_.tensor_of(each).is_same(t)) {
        FunctionResult result;
        result.kind = FunctionResult::Kind::Given;
        result.seen.given = each;
        return result;
      }
    if (is_leaf_with_grad(t)) refuse("a result is a new leaf that requires grad");
    const ValueId id = run_.capture.value_of(t);
    if (is_view(t) && !is_alone(t)) return view(t);
    if (run_.buffer_of(id).kind == Buffer::Kind::Internal) {
      FunctionResult result;
      result.made = make(t);
      return result;
    }
    if (t.requires_grad())
      refuse("a result shares the memory of an argument and has a history of its own");
    return seen(t);
  }

  static bool is_leaf_with_grad(const Tensor& t) { return t.requires_grad() && is_leaf(t); }

  // Whether no other result lies on the memory that the function has made for it.
  bool is_alone(const Tensor& t) const {
    if (run_.buffer_of(run_.capture.value_of(t)).kind != Buffer::Kind::Internal) return false;
    return std::none_of(run_.results.begin(), run_.results.end(), [&](const Tensor& other) {
      return !other.is_same(t) && &other.storage() == &t.storage();
    });
  }

  // The position of a tensor among those that the graph makes.
  int make(const Tensor& t) {
    const auto found = std::find_if(made_.begin(), made_.end(),
                                    [&](const Tensor& each) { return each.is_same(t); });
    const auto at = static_cast<int>(found - made_.begin());
    if (found == made_.end()) {
      made_.push_back(t);
      out_.made.push_back(t.requires_grad() ? out_.output_count++ : kNone);
    }
    return at;
  }

  FunctionResult view(const Tensor& t) {
    FunctionResult result;
    result.kind = FunctionResult::Kind::View;
    result.no_grad = meta_of(t)->view.no_grad;
    const Tensor& root = root_of(t);
    std::vector<ViewRecipe::Step> steps = steps_of(t);
    std::reverse(steps.begin(), steps.end());
    if (run_.buffer_of(run_.capture.value_of(t)).kind == Buffer::Kind::Internal) {
      if (!run_.capture.knows(root)) refuse("a result is a view of a tensor that no op made");
      result.steps = std::move(steps);
      check_steps(root, result.steps, t);
      result.made = make(root);
      return result;
    }
    result.made = kNone;
    for (const Given each : run_.given()) {
      const Tensor& from = run_.tensor_of(each);
      const size_t before = steps_of(from).size();
      if (!root_of(from).is_same(root) || before > steps.size()) continue;
      result.steps.assign(steps.begin() + static_cast<int64_t>(before), steps.end());
      if (!is_made_by(from, result.steps, t)) continue;
      result.seen.given = each;
      return result;
    }
    if (t.requires_grad() || std::any_of(run_.results.begin(), run_.results.end(),
                                         [&](const Tensor& each) { return each.is_same(root); }))
      refuse("a result is a view of a tensor that the function was not given");
    return seen(t);
  }

  FunctionResult seen(const Tensor& t) const {
    FunctionResult result;
    result.kind = FunctionResult::Kind::Seen;
    result.seen = run_.seen(run_.capture.value_of(t));
    return result;
  }

  static bool is_made_by(const Tensor& from, const std::vector<ViewRecipe::Step>& steps,
                         const Tensor& t) {
    const NoGrad unrecorded;
    try {
      Tensor made = detach(from);
      for (const ViewRecipe::Step& step : steps) made = step(made);
      return lies_as(made, t);
    } catch (const Error&) {
      return false;  // steps of another tensor's view
    }
  }
  static void check_steps(const Tensor& from, const std::vector<ViewRecipe::Step>& steps,
                          const Tensor& t) {
    if (!is_made_by(from, steps, t)) refuse("a result is a view that cannot be made again");
  }

  const CapturedRun& run_;
  RecordedGraphs& out_;
  std::vector<Tensor> made_;
};

}  // namespace

std::vector<Tensor> sort_results(const CapturedRun& run, RecordedGraphs& out) {
  return Sorter(run, out).run();
}

}  // namespace moonlet::program
