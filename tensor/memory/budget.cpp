// tensor/memory/budget.cpp: charging what interpreters take to their budgets.
#include "tensor/memory/budget.h"

#include <algorithm>
#include <utility>

#include "tensor/core/storage.h"
#include "tensor/memory/free_list.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::memory {

constinit thread_local Account account;

namespace {
// What a thread takes of a budget at once, and at most keeps of it.
constexpr int64_t kStep = 64 << 10;
constexpr int64_t kMostKept = 4 * kStep;
// How far a growth is charged ahead at most, which is also where it looks at the stop flag.
constexpr int64_t kMostAhead = 4 << 20;
// More than a collector lets be owed.
constexpr int64_t kCollectNow = int64_t{1} << 40;

constinit thread_local bool may_overdraw = false;
}  // namespace

Budget::Budget(int64_t limit) : limit_(limit), notice_(limit / 2) {
  for (int i = 0; i < kMaxDeviceTypes; ++i) {
    allocators_[i].budget = this;
    allocators_[i].type = static_cast<DeviceType>(i);
  }
}

// Compared before it is added: a size from a script may be any. An interpreter's workers take of it
// too.
bool Budget::take(int64_t bytes) noexcept {
  int64_t before = used();
  do {
    if (bytes > limit() - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  const bool is_short = before + bytes > notice_.load(std::memory_order_relaxed);
  if (is_short && account.budget == this && account.debt != nullptr) *account.debt = kCollectNow;
  return true;
}

void Budget::refund_now(int64_t bytes) noexcept {
  if (used_.fetch_sub(bytes, std::memory_order_acq_rel) == bytes) delete this;
}

void Budget::refuse(size_t bytes) const {
  throw BudgetExceeded(text("out of memory: ", bytes, " bytes are expected and ", used(), " of ",
                            limit(), " in use, the limit of this interpreter"));
}

Overdraft::Overdraft() noexcept : before_(std::exchange(may_overdraw, true)) {}
Overdraft::~Overdraft() { may_overdraw = before_; }

void switch_account(Budget* next, int64_t* debt) noexcept {
  Account& mine = account;
  if (mine.left > 0) mine.budget->refund_now(mine.left);
  mine = {next, 0, debt};
}

void draw(int64_t bytes) {
  Account& mine = account;
  const int64_t missing = -mine.left;
  if (mine.budget->take(missing + kStep)) {
    mine.left = kStep;
  } else if (mine.budget->take(missing)) {
    mine.left = 0;
  } else if (may_overdraw) {
    mine.budget->used_.fetch_add(missing, std::memory_order_relaxed);
    mine.left = 0;
  } else {
    mine.left += bytes;
    mine.budget->refuse(static_cast<size_t>(bytes));
  }
}

void give_back(Budget& payer, int64_t bytes) noexcept {
  Account& mine = account;
  if (mine.budget != &payer) return payer.refund_now(bytes);
  if ((mine.left += bytes) <= kMostKept) [[likely]]
    return;
  payer.refund_now(mine.left - kStep);
  mine.left = kStep;
}

void Budget::charge(size_t bytes) {
  if (bytes > static_cast<size_t>(limit())) refuse(bytes);
  const auto wanted = static_cast<int64_t>(bytes);
  const bool own = account.budget == this;
  if (own && wanted <= kStep) {
    memory::charge(wanted);
    return;
  }
  if (take(wanted)) return;
  if (own) switch_account(this, account.debt);
  if (!take(wanted)) refuse(bytes);
}

void Budget::refund(size_t bytes) noexcept { give_back(*this, static_cast<int64_t>(bytes)); }

void* Budget::Charging::allocate(size_t bytes, Device device, void** context) {
  budget->charge(bytes);
  try {
    return allocator_for(type).allocate(bytes, device, context);
  } catch (const std::exception&) {
    budget->refund(bytes);
    throw;
  }
}

void Budget::Charging::deallocate(void* data, size_t bytes, Device device, void* context) noexcept {
  allocator_for(type).deallocate(data, bytes, device, context);
  budget->refund(bytes);
}

void Growth::more(int64_t bytes) {
  stop_if_requested();
  const int64_t wanted = bytes + std::clamp(bytes / 2, kStep, kMostAhead);
  Budget* const payer = charge(wanted - charged_);
  // The interpreter that pays stays the same for the time of a call.
  payer_ = payer;
  charged_ = wanted;
}

}  // namespace moonlet::memory
