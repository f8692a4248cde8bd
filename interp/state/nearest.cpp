// interp/state/nearest.cpp: compares names by the edits that lie between them (the optimal string
// alignment distance), letter case aside.
#include "interp/state/nearest.h"

#include <algorithm>
#include <vector>

#include "interp/state/guard.h"

namespace moonlet {
namespace {

constexpr size_t kMaxNameLength = 64;
constexpr size_t kShortName = 3;  // in one or two letters no other name is meant

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Insertions, deletions and swaps of neighbours count 1, replacements 2.
size_t edit_cost(std::string_view a, std::string_view b) {
  // Row i holds the costs from the first i letters of a to all beginnings of b.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = lower(a[i - 1]), y = lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y ? 2 : 0)});
      if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// The only one of `known` that begins with `name`, or null when there are more or when `name` is
// less than half of it: "requires" is "requires_grad", "repeat" is not "repeat_interleave".
const char* only_completion(std::string_view name, std::span<const char* const> known) {
  const char* found = nullptr;
  for (const char* candidate : known) {
    if (!std::string_view(candidate).starts_with(name)) continue;
    if (found != nullptr) return nullptr;
    found = candidate;
  }
  return found != nullptr && 2 * name.size() >= std::string_view(found).size() ? found : nullptr;
}

// nearest(name, known) -> the name of the list `known` that is close to `name`, or nil.
int l_nearest(lua_State* L) {
  size_t size = 0;
  const char* name = luaL_checklstring(L, 1, &size);
  luaL_checktype(L, 2, LUA_TTABLE);
  std::vector<const char*> known;  // the table keeps the strings
  const lua_Integer count = static_cast<lua_Integer>(lua_rawlen(L, 2));
  for (lua_Integer i = 1; i <= count; ++i) {
    if (lua_rawgeti(L, 2, i) == LUA_TSTRING) known.push_back(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_pushstring(L, nearest_name({name, size}, known));  // pushes nil for null
  return 1;
}

}  // namespace

const char* nearest_name(std::string_view name, std::span<const char* const> known) {
  if (name.empty() || name.size() > kMaxNameLength) return nullptr;
  const char* best = nullptr;
  size_t best_cost = 0;
  for (const char* candidate : known) {
    if (name == candidate) return candidate;
    const size_t cost = edit_cost(name, candidate);
    if (name.size() < kShortName && cost > 0) continue;
    if (5 * cost > name.size() + std::string_view(candidate).size() + 2) continue;
    if (best != nullptr && cost >= best_cost) continue;
    best = candidate;
    best_cost = cost;
  }
  return best != nullptr ? best : only_completion(name, known);
}

std::string pytorch_name_hint(std::string_view name) {
  struct Name {
    std::string_view pytorch;
    const char* here;
  };
  static constexpr Name kNames[] = {{"as_tensor", "'tensor'"},
                                    {"asarray", "'tensor'"},
                                    {"byte", "'uint8'"},
                                    {"cdouble", "'complex128'"},
                                    {"cfloat", "'complex64'"},
                                    {"char", "'int8'"},
                                    {"device", "a string, \"cpu\" or \"cuda:0\","},
                                    {"double", "'float64'"},
                                    {"float", "'float32'"},
                                    {"frombuffer", "'from_bytes'"},
                                    {"half", "'float16'"},
                                    {"int", "'int32'"},
                                    {"long", "'int64'"},
                                    {"ndimension", "'dim'"},
                                    {"nelement", "'numel'"},
                                    {"ravel", "'flatten'"},
                                    {"short", "'int16'"},
                                    {"Size", "a tensor's 'shape'"},
                                    {"untyped_storage", "'storage'"}};
  for (const Name& each : kNames)
    if (each.pytorch == name)
      return "; PyTorch's '" + std::string(name) + "' is " + each.here + " here";
  return {};
}

std::string did_you_mean(std::string_view name, std::span<const char* const> known) {
  const char* nearest = nearest_name(name, known);
  return nearest == nullptr ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

void unknown_member(lua_State* L, const char* what, std::string_view wanted,
                    std::span<const char* const> fields, int methods) {
  std::vector<const char*> names(fields.begin(), fields.end());
  lua_pushnil(L);
  while (lua_next(L, methods) != 0) {
    names.push_back(lua_tostring(L, -2));
    lua_pop(L, 1);
  }
  std::string hint = std::string_view(what) == "Tensor" ? pytorch_name_hint(wanted) : std::string();
  if (hint.empty()) hint = did_you_mean(wanted, names);
  fail(what, " has no field or method '", wanted, "'", hint);
}

}  // namespace moonlet

int luaopen_moonlet_nearest(lua_State* L) {
  lua_pushcfunction(L, moonlet::guard<moonlet::l_nearest>);
  return 1;
}
