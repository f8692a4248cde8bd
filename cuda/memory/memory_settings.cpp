// cuda/memory/memory_settings.cpp: reads MOONLET_CUDA_ALLOC.
#include "cuda/memory/memory_settings.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tensor/core/error.h"

namespace moonlet::cuda {
namespace {

constexpr const char* kVariable = "MOONLET_CUDA_ALLOC";
constexpr const char* kNames =
    "max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold, "
    "roundup_power2_divisions, expandable_segments";

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Cuts at the commas that are in no brackets.
std::vector<std::string_view> parts_of(std::string_view s) {
  std::vector<std::string_view> out;
  size_t first = 0;
  int depth = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && s[i] == '[') ++depth;
    if (i < s.size() && s[i] == ']') --depth;
    if (i < s.size() && (s[i] != ',' || depth > 0)) continue;
    const std::string_view part = trimmed(s.substr(first, i - first));
    if (!part.empty()) out.push_back(part);
    first = i + 1;
  }
  return out;
}

size_t whole_number(std::string_view name, std::string_view value, size_t least) {
  constexpr size_t kMost = size_t{1} << 40;
  size_t out = 0;
  bool good = !value.empty() && value.size() < 14;
  for (const char c : value) {
    good = good && c >= '0' && c <= '9';
    out = out * 10 + static_cast<size_t>(c - '0');
  }
  check(good && out >= least && out <= kMost, kVariable, ": '", name,
        "' must be a whole number from ", least, ", got '", value, "'");
  return out;
}

size_t divisions(std::string_view name, std::string_view value) {
  const size_t out = whole_number(name, value, 1);
  check(std::has_single_bit(out), kVariable, ": '", name, "' must be powers of two, got '", value,
        "'");
  return out;
}

// The position of sizes of `bytes` in the table of divisions.
size_t interval_of(size_t bytes) {
  const int log = std::bit_width(bytes) - 1;
  return static_cast<size_t>(std::clamp(log - 20, 0, 15));
}

// "4", or "[256:1,512:2,>:4]" by MiB: the first number holds for all that is smaller too.
void read_divisions(std::string_view name, std::string_view value, MemorySettings& out) {
  auto& table = out.power2_divisions;
  if (!value.starts_with('[')) return table.fill(divisions(name, value));
  check(value.ends_with(']'), kVariable, ": '", name, "' has no end: '", value, "'");
  size_t next = 0;  // the first place of the table that is not filled
  for (const std::string_view part : parts_of(value.substr(1, value.size() - 2))) {
    const size_t colon = part.find(':');
    check(colon != part.npos, kVariable, ": '", name, "' must be SIZE:DIVISIONS in brackets, got '",
          part, "'");
    const std::string_view size = trimmed(part.substr(0, colon));
    const size_t count = divisions(name, trimmed(part.substr(colon + 1)));
    const bool rest = size == ">";
    const size_t at = rest ? table.size() - 1 : interval_of(divisions(name, size) * kMiB);
    check(next == 0 || rest || at >= next, kVariable, ": '", name,
          "' must have rising sizes, got '", value, "'");
    for (size_t i = next == 0 || rest ? next : at; i <= at; ++i) table[i] = count;
    next = at + 1;
  }
}

double share(std::string_view name, std::string_view value) {
  double out = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  check(error == std::errc() && end == value.data() + value.size() && out > 0 && out < 1, kVariable,
        ": '", name, "' must be a number between 0 and 1, got '", value, "'");
  return out;
}

void read_part(std::string_view part, MemorySettings& out) {
  const size_t colon = part.find(':');
  check(colon != part.npos, kVariable, ": NAME:VALUE is expected, got '", part, "'");
  const std::string_view name = trimmed(part.substr(0, colon));
  const std::string_view value = trimmed(part.substr(colon + 1));
  if (name == "max_split_size_mb") {
    // Segments of 20 MiB must stay splittable.
    out.max_split_size = whole_number(name, value, 21) * kMiB;
  } else if (name == "max_non_split_rounding_mb") {
    out.max_non_split_rounding = whole_number(name, value, 21) * kMiB;
  } else if (name == "garbage_collection_threshold") {
    out.garbage_collection_threshold = share(name, value);
  } else if (name == "roundup_power2_divisions") {
    read_divisions(name, value, out);
  } else if (name == "expandable_segments") {
    check(value == "False" || value == "false", kVariable,
          ": 'expandable_segments' can only be False: segments have a fixed size, got '", value,
          "'");
  } else {
    fail(kVariable, ": there is no setting '", name, "'; there are ", kNames);
  }
}

struct FromEnvironment {
  MemorySettings settings;
  std::string problem;
};

FromEnvironment read_environment() {
  FromEnvironment out;
  const char* text = std::getenv(kVariable);
  if (!text) return out;
  try {
    out.settings = parse_memory_settings(text);
  } catch (const Error& e) {
    out.problem = e.what();
  }
  return out;
}

}  // namespace

size_t MemorySettings::divisions_for(size_t bytes) const {
  return power2_divisions[interval_of(bytes)];
}

MemorySettings parse_memory_settings(const std::string& text) {
  MemorySettings out;
  for (const std::string_view part : parts_of(text)) read_part(part, out);
  return out;
}

const MemorySettings& memory_settings() {
  static const FromEnvironment& read = *new FromEnvironment(read_environment());
  check(read.problem.empty(), read.problem);
  return read.settings;
}

}  // namespace moonlet::cuda
