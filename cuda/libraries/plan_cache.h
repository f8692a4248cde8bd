// cuda/libraries/plan_cache.h: what a library was asked about a problem, kept for the next time;
// when there is no more room, what was used longest ago gives way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moonlet::cuda {

// Mixes numbers to one, FNV-1a word by word.
class Mixer {
 public:
  template <class... Numbers>
  void add(Numbers... numbers) {
    ((value_ = (value_ ^ static_cast<uint64_t>(numbers)) * 0x100000001b3u, value_ ^= value_ >> 29),
     ...);
  }
  template <class List>
  void add_all(const List& list) {
    for (const auto number : list) add(number);
  }
  size_t value() const { return static_cast<size_t>(value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// A key of numbers: everything that a plan depends on.
struct NumbersKey {
  std::vector<int64_t> numbers;
  bool operator==(const NumbersKey&) const = default;
  size_t hash() const {
    Mixer out;
    out.add_all(numbers);
    return out.value();
  }
};

// For one thread. Keys have a member `hash`.
template <class Key, class Plan>
class PlanCache {
 public:
  explicit PlanCache(size_t most) : most_(most) {}

  // Null where there is none.
  Plan* find(const Key& key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    return &found->second->second;
  }
  // Of a key that is not there yet. It stays where it is until it gives way.
  Plan& keep(const Key& key, Plan plan) {
    by_use_.emplace_front(key, std::move(plan));
    try {
      by_key_.emplace(key, by_use_.begin());
    } catch (...) {
      by_use_.pop_front();
      throw;
    }
    if (by_use_.size() > most_) {
      by_key_.erase(by_use_.back().first);
      by_use_.pop_back();
    }
    return by_use_.front().second;
  }

 private:
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash(); }
  };
  using Entries = std::list<std::pair<Key, Plan>>;

  size_t most_;
  Entries by_use_;  // the last used one first
  std::unordered_map<Key, typename Entries::iterator, Hash> by_key_;
};

}  // namespace moonlet::cuda
