// tensor/memory/account.h: who pays for what this thread takes: the budget of the interpreter that
// runs on it (tensor/memory/budget.h). Counted in steps, without locked instructions.
#pragma once

#include <cstdint>

namespace moonlet::memory {

class Budget;

struct Account {
  Budget* budget = nullptr;  // null where no limited interpreter runs
  int64_t left = 0;          // what may be taken of it before it is asked again
  int64_t* debt = nullptr;   // what the interpreter owes its collector
};
extern constinit thread_local Account account;

// Gives what is left back to the budget it was taken from, and takes from `next` from now on.
void switch_account(Budget* next, int64_t* debt) noexcept;

// Asks the budget for what `charge` has overdrawn. Throws BudgetExceeded, with nothing charged.
void draw(int64_t bytes);
// Credits a budget that is not this thread's, or this thread's where much is left.
void give_back(Budget& payer, int64_t bytes) noexcept;

// Charges bytes to the interpreter that runs on this thread; returns who is to be credited for
// them, or null. Throws BudgetExceeded.
inline Budget* charge(int64_t bytes) {
  Account& mine = account;
  if (mine.budget == nullptr) [[likely]]
    return nullptr;
  if ((mine.left -= bytes) < 0) [[unlikely]]
    draw(bytes);
  return mine.budget;
}
// Any thread may credit, also when the interpreter is gone.
inline void credit(Budget* payer, int64_t bytes) noexcept {
  if (payer != nullptr) [[unlikely]]
    give_back(*payer, bytes);
}

}  // namespace moonlet::memory
