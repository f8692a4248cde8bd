// tensor/cpu/fft/fft_plan.cpp: makes and keeps the plans of Fourier transforms, and carries them
// out.
#include <algorithm>
#include <list>
#include <mutex>

#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/fft/fft.h"
#include "tensor/functors/functor_math.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::cpu::fft {

namespace {

// exp(-2 pi i k / n) for 0 <= k < n. The angle is brought into an eighth of the circle by integers,
// so the parts are right to rounding.
std::pair<double, double> root(int64_t k, int64_t n) {
  constexpr double kPi = 3.14159265358979323846;
  int64_t t = 8 * k;  // of 8 n
  const bool below = t > 4 * n;
  if (below) t = 8 * n - t;
  const bool left = t > 2 * n;
  if (left) t = 4 * n - t;
  const bool steep = t > n;
  if (steep) t = 2 * n - t;
  const double angle = kPi * static_cast<double>(t) / (4.0 * static_cast<double>(n));
  double cosine = std::cos(angle), sine = std::sin(angle);
  if (steep) std::swap(cosine, sine);
  return {left ? -cosine : cosine, below ? sine : -sine};
}

template <class T>
void set(Circle<T>& circle, int64_t at, std::pair<double, double> value) {
  circle.re[static_cast<size_t>(at)] = static_cast<T>(value.first);
  circle.im[static_cast<size_t>(at)] = static_cast<T>(value.second);
}

template <class T>
Circle<T> roots_of_unity(int64_t n, int64_t count) {
  Circle<T> out(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) set(out, k, root(k, n));
  return out;
}

// The odd prime factors that passes take, the largest first, and in `rest` what is left.
std::vector<int64_t> odd_factors(int64_t n, int64_t* rest) {
  std::vector<int64_t> out;
  while (n % 2 == 0) n /= 2;
  for (int64_t p = 3; p <= kLargestRadix && p <= n; p += 2)
    for (; n % p == 0; n /= p) out.push_back(p);
  std::reverse(out.begin(), out.end());
  *rest = n;
  return out;
}

// The radices of the passes, or none where a prime factor is too large. The passes of a single
// transform work on whole vectors once there are as many points before them as lanes: fours come
// first, else large primes. The first of several is no 8, whose results are not stored mixed.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  int64_t rest = 0;
  const std::vector<int64_t> odd = odd_factors(n, &rest);
  if (rest > 1) return out;
  const auto take = [&](int64_t radix) {
    out.push_back(radix);
    n /= radix;
  };
  const bool fours = n % 4 == 0;
  if (n != 8 && fours) take(4);
  while (n % 8 == 0 && n != 16) take(8);
  while (n % 4 == 0) take(4);
  if (fours && n % 2 == 0) take(2);
  for (const int64_t p : odd) take(p);
  if (n == 2) take(2);
  return out;
}

template <class T>
Stage<T> make_stage(int64_t radix, int64_t groups) {
  Stage<T> stage{radix, groups, Circle<T>(static_cast<size_t>((radix - 1) * groups)), {}};
  for (int64_t k = 1; k < radix; ++k) {
    for (int64_t p = 0; p < groups; ++p) {
      if (p % kStopBlock == 0) stop_if_requested();
      set(stage.twiddles, (k - 1) * groups + p, root(p * k, radix * groups));
    }
  }
  if (radix != 2 && radix != 3 && radix != 4 && radix != 5 && radix != 8)
    stage.roots = roots_of_unity<T>(radix, radix);
  return stage;
}

// The least length of at least n that is a power of two, or 3 or 5 times one.
int64_t padded_length(int64_t n) {
  int64_t best = 0;
  for (int64_t factor : {1, 3, 5}) {
    int64_t length = factor;
    while (length < n) length *= 2;
    if (best == 0 || length < best) best = length;
  }
  return best;
}

// X[k] = w[k] sum_j (x[j] w[j]) conj(w[k - j]) with w[k] = exp(-pi i k^2 / n).
template <class T>
void plan_convolution(Plan<T>& plan) {
  const int64_t n = plan.n, length = padded_length(2 * n - 1);
  plan.padded = plan_for<T>(length);
  plan.chirp = Circle<T>(static_cast<size_t>(n));
  plan.filter = Circle<T>(static_cast<size_t>(length));
  const double scale = 1.0 / static_cast<double>(length);
  int64_t square = 0;  // of k, modulo 2 n
  for (int64_t k = 0; k < n; ++k) {
    if (k % kStopBlock == 0) stop_if_requested();
    const auto [re, im] = root(square, 2 * n);
    set(plan.chirp, k, {re, im});
    set(plan.filter, k, {re * scale, -im * scale});
    if (k > 0) set(plan.filter, length - k, {re * scale, -im * scale});
    square = (square + 2 * k + 1) % (2 * n);
  }
  Circle<T> room(static_cast<size_t>(length));
  Work<T> work{plan.filter.re.data(), plan.filter.im.data(), room.re.data(), room.im.data()};
  transform(*plan.padded, work, 1);
  if (work.re == room.re.data()) plan.filter = std::move(room);
}

template <class T>
std::shared_ptr<const Plan<T>> make(int64_t n, const Plan<T>*) {
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  int64_t groups = n;
  for (const int64_t radix : radices_of(n)) {
    // Lanes are the points before a pass, or of the first one the groups.
    const int64_t before = n / groups;
    groups /= radix;
    plan->narrow |= radix > 8 && (before == 1 ? groups : before) < kFewPositions;
    plan->stages.push_back(make_stage<T>(radix, groups));
  }
  if (plan->stages.empty() && n > 1) plan_convolution(*plan);
  return plan;
}

template <class T>
std::shared_ptr<const RealPlan<T>> make(int64_t n, const RealPlan<T>*) {
  auto plan = std::make_shared<RealPlan<T>>();
  plan->n = n;
  int64_t rest = 0;
  const std::vector<int64_t> factors = odd_factors(n, &rest);
  if (n % 2 == 0) {
    plan->complex = plan_for<T>(n / 2);
    plan->turns = roots_of_unity<T>(n, n / 4 + 1);
  } else if (!factors.empty()) {
    const int64_t radix = factors.front();
    plan->complex = plan_for<T>(n / radix);
    plan->odd = make_stage<T>(radix, n / radix);
    plan->odd->roots = roots_of_unity<T>(radix, radix);
  } else {
    plan->complex = plan_for<T>(n);
  }
  return plan;
}

// The plans used last. A plan that is in use lives on when it is dropped here.
template <class P>
class Cache {
 public:
  std::shared_ptr<const P> get(int64_t n) {
    {
      const std::lock_guard lock(mutex_);
      for (auto it = plans_.begin(); it != plans_.end(); ++it) {
        if (it->first != n) continue;
        plans_.splice(plans_.begin(), plans_, it);
        return it->second;
      }
    }
    std::shared_ptr<const P> plan = make(n, static_cast<const P*>(nullptr));
    if (n > kPoints) return plan;
    const std::lock_guard lock(mutex_);
    plans_.emplace_front(n, plan);
    points_ += n;
    while (points_ > kPoints || plans_.size() > kPlans) {
      points_ -= plans_.back().first;
      plans_.pop_back();
    }
    return plan;
  }

 private:
  static constexpr size_t kPlans = thresholds::fft::kPlans;
  static constexpr int64_t kPoints = thresholds::fft::kPlannedPoints;
  std::mutex mutex_;
  int64_t points_ = 0;
  std::list<std::pair<int64_t, std::shared_ptr<const P>>> plans_;
};

template <class P>
std::shared_ptr<const P> cached(int64_t n) {
  static Cache<P> cache;
  return cache.get(n);
}

}  // namespace

template <class T>
std::shared_ptr<const Plan<T>> plan_for(int64_t n) {
  return cached<Plan<T>>(n);
}
template <class T>
std::shared_ptr<const RealPlan<T>> real_plan_for(int64_t n) {
  return cached<RealPlan<T>>(n);
}

template <class T>
void transform(const Plan<T>& plan, Work<T>& work, int64_t batch) {
  if (plan.padded) {
    const int64_t used = plan.n * batch, all = plan.padded->n * batch;
    multiply(plan.chirp, work.re, work.im, batch);
    std::fill(work.re + used, work.re + all, T(0));
    std::fill(work.im + used, work.im + all, T(0));
    transform(*plan.padded, work, batch);
    multiply(plan.filter, work.re, work.im, batch);
    work.swap_parts();
    transform(*plan.padded, work, batch);
    work.swap_parts();
    multiply(plan.chirp, work.re, work.im, batch);
    return;
  }
  int64_t span = batch;
  for (const Stage<T>& stage : plan.stages) {
    if (plan.n >= kStopBlock) stop_if_requested();
    run_stage(stage, work, span);
    work.turn();
    span *= stage.radix;
  }
}

template std::shared_ptr<const Plan<float>> plan_for(int64_t n);
template std::shared_ptr<const Plan<double>> plan_for(int64_t n);
template std::shared_ptr<const RealPlan<float>> real_plan_for(int64_t n);
template std::shared_ptr<const RealPlan<double>> real_plan_for(int64_t n);
template void transform(const Plan<float>& plan, Work<float>& work, int64_t batch);
template void transform(const Plan<double>& plan, Work<double>& work, int64_t batch);

}  // namespace moonlet::cpu::fft
