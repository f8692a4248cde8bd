// tensor/program/reclaim.cpp: the reclaimers of a thread.
#include "tensor/program/reclaim.h"

#include <utility>

namespace moonlet::program {

namespace {
constinit thread_local Reclaimer* current = nullptr;
}  // namespace

Reclaimer::Reclaimer() : before_(std::exchange(current, this)) {}
Reclaimer::~Reclaimer() { current = before_; }

Reclaimer* current_reclaimer() { return current; }

}  // namespace moonlet::program
