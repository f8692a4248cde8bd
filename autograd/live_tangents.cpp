// autograd/live_tangents.cpp: the tangents of each level of forward mode, which end with it.
#include "autograd/live_tangents.h"

#include <mutex>
#include <new>
#include <unordered_map>

namespace moonlet {

namespace {

// All tangents that there are, by level: those of a level end with it. One may be recorded by ops
// on the tensor that it belongs to, which nothing else would free then.
struct LiveTangents {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::vector<std::weak_ptr<Tangents>>> of_level;
};

LiveTangents& live_tangents() {
  // Never destroyed, as levels may end after statics; in place, as the first call may be at an end.
  alignas(LiveTangents) static unsigned char position[sizeof(LiveTangents)];
  static auto* const live = new (position) LiveTangents;
  return *live;
}

constexpr size_t kManyTangents = 1024;

}  // namespace

void note_tangents(const std::shared_ptr<Tangents>& tangents) {
  LiveTangents& live = live_tangents();
  const std::lock_guard lock(live.mutex);
  for (const auto& entry : tangents->all) {
    auto& list = live.of_level[entry.first];
    if (list.size() >= kManyTangents && list.size() == list.capacity())
      std::erase_if(list, [](const auto& each) { return each.expired(); });
    list.push_back(tangents);
  }
}

void end_tangents(uint64_t level) {
  std::vector<std::weak_ptr<Tangents>> list;
  {
    LiveTangents& live = live_tangents();
    const std::lock_guard lock(live.mutex);
    const auto found = live.of_level.find(level);
    if (found == live.of_level.end()) return;
    list = std::move(found->second);
    live.of_level.erase(found);
  }
  for (const auto& each : list) {
    const std::shared_ptr<Tangents> tangents = each.lock();
    if (!tangents) continue;
    Tensor ended;  // what it holds goes when the list is not being changed
    for (auto& entry : tangents->all)
      if (entry.first == level) ended = std::move(entry.second);
    std::erase_if(tangents->all, [&](const auto& entry) { return entry.first == level; });
  }
}

}  // namespace moonlet
