// interp/modules/open_extension.cpp: opens the files of extensions.
#include "interp/modules/open_extension.h"

#include <cxxabi.h>
#if __has_include(<elf.h>)
#include <elf.h>
#define MOONLET_ELF 1
#endif

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "interp/embed/extension/extension_loader.h"
#include "tensor/core/platform/libraries.h"
#include "tensor/io/files.h"

namespace moonlet {

namespace {

// Whether an extension would be given the functions of this copy of the interpreter, and not those
// of another one in the process, which has another Lua. What is not there at all is told when the
// extension is opened.
bool finds_this_copy() {
  const auto own = static_cast<void (*)(Stack&, detail::FunctionSet)>(&detail::push_function_set);
  void* const found = platform::find_global_symbol(
      "_ZN7moonlet6detail17push_function_setERNS_5StackENS0_11FunctionSetE");
  return found == nullptr || found == reinterpret_cast<void*>(own);
}

#ifdef MOONLET_ELF
using Head = std::conditional_t<sizeof(void*) == 8, Elf64_Ehdr, Elf32_Ehdr>;
using Part = std::conditional_t<sizeof(void*) == 8, Elf64_Phdr, Elf32_Phdr>;

// The loader maps what a library says it has, and the process ends where it reads behind the end of
// the file. Throws Error unless the file has all of it.
void check_whole(const std::string& path, const char* caller) {
  const io::InputFile file(path, caller);
  Head head{};
  check(file.size() >= sizeof head, caller, ": ", path, " is no library");
  file.read(0, &head, sizeof head);
  check(std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_type == ET_DYN &&
            head.e_phentsize == sizeof(Part),
        caller, ": ", path, " is no library");
  std::vector<Part> parts(head.e_phnum);
  const uint64_t bytes = parts.size() * sizeof(Part);
  const bool has_table = head.e_phoff <= file.size() && bytes <= file.size() - head.e_phoff;
  check(has_table, caller, ": ", path, " is cut short: it cannot be opened");
  file.read(head.e_phoff, parts.data(), bytes);
  for (const Part& part : parts) {
    const bool whole = part.p_offset <= file.size() && part.p_filesz <= file.size() - part.p_offset;
    check(part.p_type != PT_LOAD || whole, caller, ": ", path,
          " is cut short: it cannot be opened");
  }
}
#else
void check_whole(const std::string&, const char*) {}
#endif

// "undefined symbol: _ZN1aE" with the name as C++ has it.
std::string readable(std::string message) {
  constexpr std::string_view kMark = "undefined symbol: ";
  const size_t at = message.find(kMark);
  if (at == message.npos) return message;
  const size_t begin = at + kMark.size();
  const size_t end = std::min(message.find_first_of(" ,\n", begin), message.size());
  int status = 0;
  char* const text =
      abi::__cxa_demangle(message.substr(begin, end - begin).c_str(), nullptr, nullptr, &status);
  if (status == 0) message.replace(begin, end - begin, text);
  std::free(text);
  return message;
}

}  // namespace

const char* extension_abi() noexcept { return kExtensionAbi; }

void open_extension(lua_State* L, const std::string& path, const std::string& caller) {
  try {
    check_extension_file(path);
  } catch (const Error& e) {
    fail(caller, ": ", e.what());
  }
  check_whole(path, caller.c_str());
  // Extensions find our symbols in the global scope; a host may have loaded us privately. Of
  // libmoonlet-lua its own come first, then those of libmoonlet, which it needs.
  platform::share_symbols_of(reinterpret_cast<const void*>(&finds_this_copy));
  check(finds_this_copy(), caller, ": ", path,
        ": this process has two copies of Moonlet, and would bind it to the other one");
  // Never closed: ops and classes of the process point into it.
  std::string reason;
  void* const library = platform::open_library(path, platform::Binding::kNow, reason);
  if (library == nullptr) fail(caller, ": cannot open ", readable(reason));
  const auto* info =
      static_cast<const ExtensionInfo*>(platform::find_symbol(library, kExtensionSymbol));
  check(info != nullptr, caller, ": ", path, " has no ", kExtensionSymbol);
  push_extension(L, *info, path);
}

}  // namespace moonlet
