// tensor/core/raw_op.cpp: finds ops without the tape by name.
#include "tensor/core/raw_op.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tensor/core/registered_ops.h"

namespace moonlet {

namespace {

// The families announce themselves before main; names are indexed at the first question. Never
// destroyed, as threads may outlive static objects.
struct Registry {
  std::vector<std::span<const RawOp>> families;
  std::unordered_map<std::string_view, const RawOp*> by_name;
  std::once_flag indexed;
  std::shared_mutex mutex;
  std::unordered_map<std::string_view, const RawOp*> registered;  // not of the table
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

RawOpFamily::RawOpFamily(std::span<const RawOp> ops) { registry().families.push_back(ops); }

const RawOp* find_raw_op(std::string_view name) {
  Registry& all = registry();
  std::call_once(all.indexed, [&] {
    for (const auto& family : all.families)
      for (const RawOp& op : family) all.by_name.emplace(op.name, &op);
  });
  const auto found = all.by_name.find(name);
  if (found != all.by_name.end()) [[likely]]
    return found->second;
  const std::shared_lock lock(all.mutex);
  const auto added = all.registered.find(name);
  return added == all.registered.end() ? nullptr : added->second;
}

void register_raw_op(const RawOp& op) {
  Registry& all = registry();
  const std::unique_lock lock(all.mutex);
  all.registered.emplace(op.name, &op);
}

}  // namespace moonlet
