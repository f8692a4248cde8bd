// interp/state/names.h: names of fields that a host asks for again and again, as strings of Lua. To
// push one takes no memory, hashes nothing and raises nothing.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "lua.hpp"

namespace moonlet::detail {

class Slots;

class Names {
 public:
  explicit Names(Slots& slots) : slots_(slots) {}
  // Pushes the string; false, and nothing is pushed, when it is not known.
  bool push_known(lua_State* L, std::string_view name) const noexcept {
    const Entry wanted(name);
    const Entry& entry = entries_[wanted.index()];
    if (!entry.is(wanted)) return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, entry.slot);
    return true;
  }
  // Pushes the string, which is known from now on where it is short. May raise a memory error.
  void push(lua_State* L, std::string_view name) {
    if (!push_known(L, name)) push_new(L, name);
  }

 private:
  static constexpr size_t kLongest = 24;

  // The bytes of a name, as three words, and where it is kept.
  struct Entry {
    uint64_t first = 0, middle = 0, last = 0;
    uint32_t size = 0;
    int slot = 0;  // 0: none

    Entry() = default;
    explicit Entry(std::string_view name) noexcept {
      const char* text = name.data();
      size = static_cast<uint32_t>(name.size() <= kLongest ? name.size() : kLongest + 1);
      if (size > kLongest) return;
      if (size >= 8) {
        std::memcpy(&first, text, 8);
        std::memcpy(&last, text + size - 8, 8);
        if (size > 16) std::memcpy(&middle, text + 8, 8);
      } else {
        for (uint32_t i = 0; i < size; ++i)
          first |= uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
      }
    }
    bool is(const Entry& other) const noexcept {
      return slot != 0 && first == other.first && last == other.last && middle == other.middle &&
             size == other.size;
    }
    size_t index() const noexcept {
      const uint64_t mixed = (first ^ (last * 3) ^ (middle * 5) ^ size) * 0x9e3779b97f4a7c15u;
      return static_cast<size_t>(mixed >> 58);
    }
  };

  void push_new(lua_State* L, std::string_view name);

  Slots& slots_;
  // Of two names with one index the later one is kept.
  std::array<Entry, 64> entries_{};
};

}  // namespace moonlet::detail
