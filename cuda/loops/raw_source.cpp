// cuda/loops/raw_source.cpp: puts what a script's kernel needs around its text.
#include "cuda/loops/raw_source.h"

#include <algorithm>
#include <regex>

#include "tensor/core/error.h"

namespace moonlet::cuda::loops {

namespace {

// As cuda/loops/device_std.h has them; a source that includes <cstdint> gets them once more.
constexpr const char* kIntegers =
    "using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long; "
    "using uint8_t = unsigned char; using uint16_t = unsigned short; "
    "using uint32_t = unsigned int; using uint64_t = unsigned long;\n";

// The host has no extern array of a thread: dynamic shared memory is where the emulation says.
std::string with_host_memory(const std::string& text) {
  static const std::regex kDynamic(
      R"(extern\s+__shared__\s+(__align__\(\d+\)\s*)?([\w\s:]+?)\s+(\w+)\s*\[\s*\]\s*;)");
  return std::regex_replace(
      text, kDynamic, "$2* $3 = static_cast<$2*>(::moonlet::emulated::context.dynamic_shared);");
}

// The function that the emulation runs for each thread: it finds the arguments in one block.
std::string host_entry(const RawSource& source) {
  const std::string entry = raw_entry_name(source.name, true);
  std::string out =
      text("\nextern \"C\" void ", entry, "(const void* words, unsigned long, unsigned long) {\n  ",
           source.name, "(");
  for (size_t i = 0; i < source.parameters.size(); ++i)
    out += text(i == 0 ? "" : ", ", "*(std::remove_const_t<", source.parameters[i],
                ">*)((char*)words + ", 8 * i, ")");
  return text(out, ");\n}\nextern \"C\" const unsigned long ", entry,
              "_bytes = ", 8 * std::max<size_t>(source.parameters.size(), 1), ";\n");
}

}  // namespace

std::string raw_source_text(const RawSource& source, bool for_host) {
  const std::string from = text("#line 1 \"", source.name, ".cu\"\n");
  if (!for_host) return text(kIntegers, from, source.text);
  return text(
      "#include <cmath>\n#include <cstdint>\n#include <type_traits>\n\n"
      "#include \"cuda_runtime.h\"\n",
      from, with_host_memory(source.text), host_entry(source));
}

std::string raw_entry_name(const std::string& name, bool for_host) {
  return for_host ? "moonlet_entry_" + name : name;
}

}  // namespace moonlet::cuda::loops
