// tensor/core/raw_op.cpp: finds ops without the tape by name.
#include "tensor/core/raw_op.h"

#include <mutex>
#include <unordered_map>

namespace moonlet {

namespace {

// The families announce themselves before main; names are indexed at the first question. Never
// destroyed, as threads may outlive static objects.
struct Registry {
  std::vector<std::span<const RawOp>> families;
  std::unordered_map<std::string_view, const RawOp*> by_name;
  std::once_flag indexed;
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
  return found == all.by_name.end() ? nullptr : found->second;
}

}  // namespace moonlet
