// interp/binding/program/used_globals.cpp: reads the code that lua_dump writes, in the format of
// Lua 5.4 (ldump.c, lopcodes.h).
#include "interp/binding/program/used_globals.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tensor/core/error.h"

namespace moonlet::binding {
namespace {

static_assert(LUA_VERSION_NUM == 504, "the format of compiled functions is that of Lua 5.4");

constexpr uint32_t kGetUpvalue = 9, kSetUpvalue = 10, kGetTableUpvalue = 11, kSetTableUpvalue = 15;
constexpr size_t kHeader = 4 + 1 + 1 + 6 + 3 + sizeof(lua_Integer) + sizeof(lua_Number) + 1;

class Reader {
 public:
  Reader(const std::string& bytes, UsedGlobals& found)
      : bytes_(bytes), at_(kHeader), found_(found) {}

  // `environments`: of the enclosing function, by upvalue, which of them hold the globals.
  void read_function(const std::vector<bool>* enclosing, int upvalue) {
    skip_string();
    size();
    size();
    skip(3);
    const size_t code_count = size();
    const size_t code = at_;
    skip(code_count * 4);
    const std::vector<std::string> constants = read_constants();
    const std::vector<bool> environments = read_upvalues(enclosing, upvalue);
    for (size_t i = 0; i < code_count; ++i)
      scan(instruction(code + i * 4), constants, environments);
    for (size_t i = size(); i > 0; --i) read_function(&environments, 0);
    skip_debug();
  }

 private:
  uint8_t byte() {
    check(at_ < bytes_.size(), "compile: a function's code ends early");
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  void skip(size_t count) {
    check(count <= bytes_.size() - at_, "compile: a function's code ends early");
    at_ += count;
  }
  size_t size() {
    size_t value = 0;
    uint8_t next = 0;
    do {
      next = byte();
      value = (value << 7) | (next & 0x7f);
    } while ((next & 0x80) == 0);
    return value;
  }
  std::string string() {
    const size_t length = size();
    if (length == 0) return {};
    const size_t begin = at_;
    skip(length - 1);
    return bytes_.substr(begin, length - 1);
  }
  void skip_string() { static_cast<void>(string()); }
  uint32_t instruction(size_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data() + at, 4);
    return value;
  }

  // Those that are no strings are empty.
  std::vector<std::string> read_constants() {
    std::vector<std::string> out(size());
    for (std::string& each : out) {
      switch (byte()) {
        case LUA_TNUMBER | 1 << 4: skip(sizeof(lua_Number)); break;
        case LUA_TNUMBER: skip(sizeof(lua_Integer)); break;
        case LUA_TSTRING:
        case LUA_TSTRING | 1 << 4: each = string(); break;
        default: break;
      }
    }
    return out;
  }

  std::vector<bool> read_upvalues(const std::vector<bool>* enclosing, int upvalue) {
    std::vector<bool> out(size());
    for (size_t i = 0; i < out.size(); ++i) {
      const bool in_stack = byte() != 0;
      const size_t index = byte();
      byte();
      if (enclosing == nullptr)
        out[i] = static_cast<int>(i) + 1 == upvalue;
      else
        out[i] = !in_stack && index < enclosing->size() && (*enclosing)[index];
    }
    return out;
  }

  void scan(uint32_t code, const std::vector<std::string>& constants,
            const std::vector<bool>& environments) {
    const uint32_t op = code & 0x7f, a = code >> 7 & 0xff, b = code >> 16 & 0xff, c = code >> 24;
    const auto holds = [&](uint32_t upvalue) {
      return upvalue < environments.size() && environments[upvalue];
    };
    if ((op == kGetUpvalue || op == kSetUpvalue) && holds(b)) found_.all = true;
    if (op == kGetTableUpvalue && holds(b)) add(constants, c);
    if (op == kSetTableUpvalue && holds(a)) add(constants, b);
  }
  void add(const std::vector<std::string>& constants, uint32_t index) {
    check(index < constants.size(), "compile: a function's code names no constant");
    const std::string& name = constants[index];
    if (std::find(found_.names.begin(), found_.names.end(), name) == found_.names.end())
      found_.names.push_back(name);
  }

  void skip_debug() {
    skip(size());
    for (size_t i = size(); i > 0; --i) size(), size();
    for (size_t i = size(); i > 0; --i) skip_string(), size(), size();
    for (size_t i = size(); i > 0; --i) skip_string();
  }

  const std::string& bytes_;
  size_t at_;
  UsedGlobals& found_;
};

int write(lua_State*, const void* bytes, size_t count, void* to) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), count);
  return 0;
}

}  // namespace

UsedGlobals used_globals(lua_State* L, int upvalue) {
  std::string code;
  lua_dump(L, write, &code, 1);
  UsedGlobals out;
  Reader(code, out).read_function(nullptr, upvalue);
  return out;
}

}  // namespace moonlet::binding
