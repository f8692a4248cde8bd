// interp/modules/open_extension.cpp: opens the files of extensions.
#include "interp/modules/open_extension.h"

#include <cxxabi.h>
#include <dlfcn.h>
#ifdef __ELF__
#include <link.h>
#endif

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "interp/embed/extension_loader.h"
#include "tensor/io/files.h"

namespace moonlet {

namespace {

// Extensions find our symbols in the global scope; a host may have loaded us privately. Of
// libmoonlet-lua its own come first, then those of libmoonlet, which it needs.
void make_own_symbols_global() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&make_own_symbols_global), &info) != 0 && info.dli_fname)
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

// Whether an extension would be given the functions of this copy of the interpreter, and not those
// of another one in the process, which has another Lua.
bool finds_this_copy() {
  const auto own = static_cast<void (*)(Stack&, detail::FunctionSet)>(&detail::push_function_set);
  Dl_info info;
  const bool exported = dladdr(reinterpret_cast<void*>(own), &info) != 0 && info.dli_sname &&
                        info.dli_saddr == reinterpret_cast<void*>(own);
  if (!exported) return true;  // what is missing is told when it is opened
  return dlsym(RTLD_DEFAULT, info.dli_sname) == reinterpret_cast<void*>(own);
}

#ifdef __ELF__
// The loader maps what a library says it has, and the process ends where it reads behind the end of
// the file. Throws Error unless the file has all of it.
void check_whole(const std::string& path, const char* caller) {
  const io::InputFile file(path, caller);
  ElfW(Ehdr) head{};
  check(file.size() >= sizeof head, caller, ": ", path, " is no library");
  file.read(0, &head, sizeof head);
  check(std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_type == ET_DYN &&
            head.e_phentsize == sizeof(ElfW(Phdr)),
        caller, ": ", path, " is no library");
  std::vector<ElfW(Phdr)> parts(head.e_phnum);
  const uint64_t bytes = parts.size() * sizeof(ElfW(Phdr));
  const bool has_table = head.e_phoff <= file.size() && bytes <= file.size() - head.e_phoff;
  check(has_table, caller, ": ", path, " is cut short: it cannot be opened");
  file.read(head.e_phoff, parts.data(), bytes);
  for (const ElfW(Phdr) & part : parts) {
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
  make_own_symbols_global();
  check(finds_this_copy(), caller, ": ", path,
        ": this process has two copies of Moonlet, and would bind it to the other one");
  // Never closed: ops and classes of the process point into it.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail(caller, ": cannot open ", readable(dlerror()));
  const auto* info = static_cast<const ExtensionInfo*>(dlsym(library, kExtensionSymbol));
  check(info != nullptr, caller, ": ", path, " has no ", kExtensionSymbol);
  push_extension(L, *info, path);
}

}  // namespace moonlet
