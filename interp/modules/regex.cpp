// interp/modules/regex.cpp: regular expressions by PCRE2, which is loaded when the first one is
// compiled.
#include "interp/modules/modules.h"

#include "interp/state/guard.h"
#include "moonlet_config.h"
#include "tensor/core/error.h"

#if MOONLET_PCRE2

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tensor/io/late_library.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {
namespace {

constexpr const char* kName = "moonlet.regex";
// What one match may try before it is an error: some 0.1 s, and 32 MiB.
constexpr uint32_t kMostSteps = 1'000'000, kMostKibibytes = 32768;

struct Pcre2 {
  decltype(&::pcre2_compile_8) compile = nullptr;
  decltype(&::pcre2_code_free_8) code_free = nullptr;
  decltype(&::pcre2_match_8) match = nullptr;
  decltype(&::pcre2_match_data_create_8) data_create = nullptr;
  decltype(&::pcre2_match_data_free_8) data_free = nullptr;
  decltype(&::pcre2_get_ovector_pointer_8) ovector = nullptr;
  decltype(&::pcre2_match_context_create_8) context_create = nullptr;
  decltype(&::pcre2_match_context_free_8) context_free = nullptr;
  decltype(&::pcre2_set_match_limit_8) set_match_limit = nullptr;
  decltype(&::pcre2_set_heap_limit_8) set_heap_limit = nullptr;
  decltype(&::pcre2_get_error_message_8) error_message = nullptr;
  std::string missing;

  Pcre2() {
    io::LateLibrary library("PCRE2", "libpcre2-8.so.0");
    library.find("pcre2_compile_8", compile);
    library.find("pcre2_code_free_8", code_free);
    library.find("pcre2_match_8", match);
    library.find("pcre2_match_data_create_8", data_create);
    library.find("pcre2_match_data_free_8", data_free);
    library.find("pcre2_get_ovector_pointer_8", ovector);
    library.find("pcre2_match_context_create_8", context_create);
    library.find("pcre2_match_context_free_8", context_free);
    library.find("pcre2_set_match_limit_8", set_match_limit);
    library.find("pcre2_set_heap_limit_8", set_heap_limit);
    library.find("pcre2_get_error_message_8", error_message);
    missing = library.missing;
  }
};

const Pcre2& pcre2() {
  static const Pcre2 functions;
  return functions;
}

struct Deleter {
  void operator()(pcre2_code* code) const { pcre2().code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2().data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2().context_free(context); }
};

struct Expression {
  std::unique_ptr<pcre2_code, Deleter> code;
  std::unique_ptr<pcre2_match_data, Deleter> data;
  std::unique_ptr<pcre2_match_context, Deleter> context;
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2().error_message(code, buffer.data(), buffer.size());
  return static_cast<const char*>(static_cast<const void*>(buffer.data()));
}

PCRE2_SPTR units(const char* text) {
  return static_cast<PCRE2_SPTR>(static_cast<const void*>(text));
}

Expression& expression_argument(lua_State* L) {
  return *static_cast<Expression*>(luaL_checkudata(L, 1, kName));
}

int l_collect(lua_State* L) {
  expression_argument(L).~Expression();
  lua_pushnil(L);
  lua_setmetatable(L, 1);
  return 0;
}

// The bytes of the character at the start of `text` that is not empty; 0 where it is no UTF-8.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Longer than need be, halves of pairs, and what is above U+10FFFF.
  const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                     (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return wrong ? 0 : size;
}

// Where the part of a text that is UTF-8 from `at` on ends.
size_t end_of_part(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t size = character_size(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return at;
}

// Appends the spans of the matches in a part of a text to the array on top of the stack.
void add_spans(lua_State* L, const Expression& expression, std::string_view text, size_t offset,
               lua_Integer& count) {
  const PCRE2_SIZE* span = pcre2().ovector(expression.data.get());
  for (size_t at = 0; at < text.size();) {
    stop_if_requested();
    // Checked once for all matches: each would check all of the text again.
    const int found =
        pcre2().match(expression.code.get(), units(text.data()), text.size(), at,
                      PCRE2_NO_UTF_CHECK, expression.data.get(), expression.context.get());
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) fail("regex: the text cannot be matched: ", message_of(found));
    // \K in a lookahead can put the start behind the end.
    const size_t first = span[0], end = span[1];
    if (end > first) {
      const size_t first_byte = offset + first + 1, last_byte = offset + end;
      lua_pushinteger(L, static_cast<lua_Integer>(first_byte));
      lua_rawseti(L, -2, ++count);
      lua_pushinteger(L, static_cast<lua_Integer>(last_byte));
      lua_rawseti(L, -2, ++count);
    }
    const bool is_behind = end > first && end > at;
    at = std::max(at, end);
    // Behind an empty match by a character.
    if (!is_behind && at < text.size()) at += character_size(text.substr(at));
  }
}

int l_spans(lua_State* L) {
  const Expression& expression = expression_argument(L);
  size_t size = 0;
  const char* bytes = luaL_checklstring(L, 2, &size);
  const std::string_view text(bytes, size);
  lua_newtable(L);
  lua_Integer count = 0;
  // Bytes that are no UTF-8 match nothing, and end the parts between them.
  for (size_t at = 0; at < size; ++at) {
    const size_t end = end_of_part(text, at);
    add_spans(L, expression, text.substr(at, end - at), at, count);
    at = end;
  }
  return 1;
}

int l_compile(lua_State* L) {
  if (!pcre2().missing.empty()) fail("regex: ", pcre2().missing);
  size_t size = 0;
  const char* pattern = luaL_checklstring(L, 1, &size);
  auto* expression = new (lua_newuserdatauv(L, sizeof(Expression), 0)) Expression;
  if (luaL_newmetatable(L, kName) != 0) {
    lua_pushcfunction(L, guard<l_collect>);
    lua_setfield(L, -2, "__gc");
    static const luaL_Reg kMethods[] = {{"spans", guard<l_spans>}, {nullptr, nullptr}};
    luaL_newlib(L, kMethods);
    lua_setfield(L, -2, "__index");
  }
  lua_setmetatable(L, -2);
  int code = 0;
  PCRE2_SIZE where = 0;
  expression->code.reset(pcre2().compile(
      units(pattern), size, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
      &code, &where, nullptr));
  if (expression->code == nullptr)
    fail("regex: ", message_of(code), ", at byte ", where + 1, " of the pattern");
  expression->data.reset(pcre2().data_create(1, nullptr));
  expression->context.reset(pcre2().context_create(nullptr));
  if (expression->data == nullptr || expression->context == nullptr) throw std::bad_alloc();
  pcre2().set_match_limit(expression->context.get(), kMostSteps);
  pcre2().set_heap_limit(expression->context.get(), kMostKibibytes);
  return 1;
}

int l_unavailable(lua_State* L) {
  if (pcre2().missing.empty())
    lua_pushnil(L);
  else
    lua_pushstring(L, pcre2().missing.c_str());
  return 1;
}

}  // namespace
}  // namespace moonlet

#else

namespace moonlet {
namespace {

constexpr const char* kMissing =
    "this build has none: install PCRE2 (Debian: libpcre2-dev) and build again";

int l_compile(lua_State*) { fail("regex: ", kMissing); }

int l_unavailable(lua_State* L) {
  lua_pushstring(L, kMissing);
  return 1;
}

}  // namespace
}  // namespace moonlet

#endif

int luaopen_moonlet_regex(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"compile", moonlet::guard<moonlet::l_compile>},
                                        {"unavailable", moonlet::guard<moonlet::l_unavailable>},
                                        {nullptr, nullptr}};
  luaL_newlib(L, kFunctions);
  return 1;
}
