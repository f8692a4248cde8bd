// tensor/io/csv/encoding.cpp: texts in the encodings that tables come in, as UTF-8.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/io/csv/layout.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::io {
namespace {

// What Windows has at 0x80 to 0x9F, where Latin-1 has control characters; 0 where it has none.
constexpr std::array<uint16_t, 32> kWindows = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string from_bytes(const std::string& text, bool windows) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % static_cast<size_t>(kStopBlock) == 0) stop_if_requested();
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint16_t code = windows && byte >= 0x80 && byte < 0xA0 ? kWindows[byte - 0x80U] : 0;
    append_utf8(out, code != 0 ? code : byte);
  }
  return out;
}

std::string from_utf16(std::string_view text, bool big) {
  std::string out;
  out.reserve(text.size());
  const auto unit = [&](size_t i) {
    const auto first = static_cast<uint8_t>(text[i]), second = static_cast<uint8_t>(text[i + 1]);
    return static_cast<uint32_t>(big ? first << 8 | second : second << 8 | first);
  };
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    if (i % static_cast<size_t>(kStopBlock) == 0) stop_if_requested();
    uint32_t code = unit(i);
    if (code >= 0xD800 && code < 0xDC00 && i + 3 < text.size()) {
      const uint32_t low = unit(i + 2);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        i += 2;
      }
    }
    append_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
  }
  return out;
}

std::string plain_name(const std::string& encoding) {
  std::string out;
  for (const char c : encoding) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c + 32);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

}  // namespace

std::string decoded(std::string text, const std::string& encoding, ReadBudget& budget,
                    const char* op) {
  const std::string name = plain_name(encoding);
  const std::string_view view = text;
  const bool little = view.starts_with("\xFF\xFE"), big = view.starts_with("\xFE\xFF");
  const bool utf8 = name == "utf8" || name == "utf8sig" || name == "ascii";
  const bool latin = name == "latin1" || name == "iso88591";
  const bool windows = name == "cp1252" || name == "windows1252";
  const bool utf16 = name == "utf16" || name == "utf16le" || name == "utf16be";
  if (!utf8 && !latin && !windows && !utf16)
    fail(op, ": 'encoding' must be \"utf-8\", \"latin-1\", \"cp1252\" or \"utf-16\", got \"",
         encoding, "\"");
  if (utf8 && !little && !big) return text;
  budget.take(2 * text.size());
  if (latin || windows) return from_bytes(text, windows);
  return from_utf16(view.substr(little || big ? 2 : 0), big || name == "utf16be");
}

}  // namespace moonlet::io
