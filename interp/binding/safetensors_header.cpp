// interp/binding/safetensors_header.cpp: the strict reader and the writer of safetensors headers.
#include "interp/binding/safetensors_header.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace moonlet::binding {
namespace {

// The little JSON a header may hold: objects of one or two levels, strings and integers.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  SafetensorsHeader read() {
    SafetensorsHeader header;
    std::set<std::string> seen;
    each_member([&](std::string name) {
      if (!seen.insert(name).second) bad("'" + name + "' comes twice");
      if (name == "__metadata__")
        read_metadata(header);
      else
        header.tensors.push_back(read_entry(std::move(name)));
    });
    skip_space();
    if (at_ != text_.size()) bad("text follows the closing bracket");
    return header;
  }

 private:
  template <class F>
  void each_member(F&& member) {
    expect('{');
    if (accept('}')) return;
    do {
      std::string name = read_string();
      expect(':');
      member(std::move(name));
    } while (accept(','));
    expect('}');
  }

  void read_metadata(SafetensorsHeader& header) {
    std::set<std::string> seen;
    each_member([&](std::string name) {
      if (!seen.insert(name).second) bad("metadata '" + name + "' comes twice");
      std::string value = read_string();
      header.metadata.emplace_back(std::move(name), std::move(value));
    });
  }

  SafetensorsEntry read_entry(std::string name) {
    SafetensorsEntry entry;
    entry.name = std::move(name);
    bool dtype = false, shape = false, offsets = false;
    each_member([&](const std::string& field) {
      if (field == "dtype" && !dtype) {
        dtype = true;
        entry.dtype = read_dtype(entry.name);
      } else if (field == "shape" && !shape) {
        shape = true;
        for (const int64_t size : read_integers(kMaxDims)) entry.shape.push_back(size);
      } else if (field == "data_offsets" && !offsets) {
        offsets = true;
        const std::vector<int64_t> both = read_integers(2);
        if (both.size() != 2) bad("data_offsets of '" + entry.name + "' are not two numbers");
        entry.begin = both[0];
        entry.end = both[1];
      } else {
        bad("unexpected field '" + field + "' in '" + entry.name + "'");
      }
    });
    if (!dtype || !shape || !offsets)
      bad("'" + entry.name + "' lacks dtype, shape or data_offsets");
    return entry;
  }

  DType read_dtype(const std::string& name) {
    const std::string code = read_string();
    for (int i = 0; i < kDTypeCount; ++i)
      if (code == kDTypes[i].code) return static_cast<DType>(i);
    bad("'" + name + "' has the dtype " + code + ", which is not supported");
  }

  std::vector<int64_t> read_integers(size_t most) {
    std::vector<int64_t> out;
    expect('[');
    if (accept(']')) return out;
    do {
      if (out.size() == most) bad("a list has more than " + std::to_string(most) + " numbers");
      out.push_back(read_integer());
    } while (accept(','));
    expect(']');
    return out;
  }

  int64_t read_integer() {
    skip_space();
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    const bool leading_zero = stop - begin > 1 && *begin == '0';
    if (error != std::errc() || value < 0 || *begin == '-' || leading_zero)
      bad("a size or offset is no whole number");
    at_ += static_cast<size_t>(stop - begin);
    return value;
  }

  std::string read_string() {
    expect('"');
    std::string out;
    while (true) {
      if (at_ >= text_.size()) bad("a string is not closed");
      const char c = text_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) bad("a control character in a string");
      if (c == '\\')
        read_escape(out);
      else
        out += c;
    }
    if (!is_utf8(out)) bad("a string is not UTF-8");
    return out;
  }

  void read_escape(std::string& out) {
    if (at_ >= text_.size()) bad("a string is not closed");
    const char c = text_[at_++];
    switch (c) {
      case '"':
      case '\\':
      case '/': out += c; return;
      case 'b': out += '\b'; return;
      case 'f': out += '\f'; return;
      case 'n': out += '\n'; return;
      case 'r': out += '\r'; return;
      case 't': out += '\t'; return;
      case 'u': return append_utf8(out, read_code_point());
      default: bad("an unknown escape in a string");
    }
  }

  uint32_t read_hex4() {
    if (at_ + 4 > text_.size()) bad("a string is not closed");
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const unsigned char c = static_cast<unsigned char>(text_[at_++]);
      if (!std::isxdigit(c)) bad("a bad \\u escape in a string");
      value = value * 16 + static_cast<uint32_t>(std::isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
  }

  uint32_t read_code_point() {
    const uint32_t high = read_hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || text_.substr(at_, 2) != "\\u") bad("half of a surrogate pair in a string");
    at_ += 2;
    const uint32_t low = read_hex4();
    if (low < 0xDC00 || low > 0xDFFF) bad("half of a surrogate pair in a string");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  static void append_utf8(std::string& out, uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) bad(std::string("'") + c + "' is wanted");
  }

  [[noreturn]] void bad(const std::string& what) const {
    fail("bad header at byte ", at_ + 1, ": ", what);
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Each tensor's bytes follow those of the one before, from the first byte to the last.
void check_layout(std::vector<SafetensorsEntry>& tensors, int64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (const SafetensorsEntry& entry : tensors) {
    if (entry.end < entry.begin || entry.end > data_bytes)
      fail("'", entry.name, "' lies at bytes ", entry.begin, " to ", entry.end, " of ", data_bytes);
    const int64_t wanted =
        numel_of(entry.shape, "safetensors") * static_cast<int64_t>(size_of(entry.dtype));
    if (entry.end - entry.begin != wanted)
      fail("'", entry.name, "' has ", entry.end - entry.begin, " bytes; shape ", entry.shape,
           " of ", name(entry.dtype), " wants ", wanted);
    if (entry.begin < at) fail("'", entry.name, "' overlaps the tensor before it");
    if (entry.begin > at) fail("there is a hole before '", entry.name, "'");
    at = entry.end;
  }
  if (at != data_bytes) fail(data_bytes - at, " bytes after the last tensor belong to none");
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes) {
  if (text.empty() || text.front() != '{') fail("the header does not start with '{'");
  SafetensorsHeader header = Reader(text).read();
  check_layout(header.tensors, data_bytes);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [name, value] : header.metadata) {
      if (out.back() != '{') out += ',';
      append_quoted(out, name);
      out += ':';
      append_quoted(out, value);
    }
    out += '}';
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    if (out.size() > 1) out += ',';
    append_quoted(out, entry.name);
    out += text(":{\"dtype\":\"", info(entry.dtype).code, "\",\"shape\":[");
    for (int i = 0; i < entry.shape.size(); ++i) out += text(i > 0 ? "," : "", entry.shape[i]);
    out += text("],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  out += '}';
  while (out.size() % 8 != 0) out += ' ';
  return out;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const int tail = c < 0x80                ? 0
                     : c >= 0xC2 && c < 0xE0 ? 1
                     : (c & 0xF0) == 0xE0    ? 2
                     : c >= 0xF0 && c < 0xF5 ? 3
                                             : -1;
    if (tail < 0 || i + static_cast<size_t>(tail) >= text.size()) return false;
    uint32_t code = tail == 0 ? c : c & (0x3Fu >> tail);
    for (int j = 1; j <= tail; ++j) {
      const unsigned char next = static_cast<unsigned char>(text[i + static_cast<size_t>(j)]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3Fu);
    }
    const bool overlong = (tail == 2 && code < 0x800) || (tail == 3 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += static_cast<size_t>(tail) + 1;
  }
  return true;
}

}  // namespace moonlet::binding
