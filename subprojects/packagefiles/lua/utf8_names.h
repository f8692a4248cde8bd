// utf8_names.h: on Windows the C library takes names of files, of commands and of variables in a
// code page of the machine. Lua's are UTF-8, whatever that is.
#pragma once

#ifdef _WIN32

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wchar.h>

// Of kernel32, whose header has names that Lua uses, too.
extern "C" __declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned, unsigned long,
                                                                   const char*, int, wchar_t*, int);
extern "C" __declspec(dllimport) int __stdcall WideCharToMultiByte(unsigned, unsigned long,
                                                                   const wchar_t*, int, char*, int,
                                                                   const char*, int*);
extern "C" __declspec(dllimport) int __stdcall MoveFileExW(const wchar_t*, const wchar_t*,
                                                           unsigned long);

extern "C" __declspec(dllimport) unsigned long __stdcall GetTempPathW(unsigned long, wchar_t*);
extern "C" __declspec(dllimport) unsigned __stdcall GetTempFileNameW(const wchar_t*, const wchar_t*,
                                                                     unsigned, wchar_t*);

struct utf8_name {
  wchar_t* it;
  explicit utf8_name(const char* text) {
    const unsigned kUtf8 = 65001;
    const int count = MultiByteToWideChar(kUtf8, 0, text, -1, nullptr, 0);
    it = static_cast<wchar_t*>(malloc((static_cast<size_t>(count) + 1) * sizeof(wchar_t)));
    if (it != nullptr) MultiByteToWideChar(kUtf8, 0, text, -1, it, count);
  }
  utf8_name(const utf8_name&) = delete;
  ~utf8_name() { free(it); }
};

static inline FILE* utf8_fopen(const char* name, const char* mode) {
  const utf8_name n(name), m(mode);
  return n.it != nullptr && m.it != nullptr ? _wfopen(n.it, m.it) : nullptr;
}
static inline FILE* utf8_freopen(const char* name, const char* mode, FILE* file) {
  if (name == nullptr) return freopen(name, mode, file);
  const utf8_name n(name), m(mode);
  return n.it != nullptr && m.it != nullptr ? _wfreopen(n.it, m.it, file) : nullptr;
}
static inline FILE* utf8_popen(const char* command, const char* mode) {
  const utf8_name n(command), m(mode);
  return n.it != nullptr && m.it != nullptr ? _wpopen(n.it, m.it) : nullptr;
}
static inline int utf8_system(const char* command) {
  if (command == nullptr) return system(command);
  const utf8_name n(command);
  return n.it != nullptr ? _wsystem(n.it) : -1;
}
static inline int utf8_remove(const char* name) {
  const utf8_name n(name);
  if (n.it == nullptr) return -1;
  return _wremove(n.it) == 0 || _wrmdir(n.it) == 0 ? 0 : -1;
}
// As elsewhere, a file that has the new name is replaced.
static inline int utf8_rename(const char* from, const char* to) {
  const utf8_name n(from), m(to);
  const unsigned long kReplaceAndCopy = 3;
  if (n.it == nullptr || m.it == nullptr) return -1;
  if (MoveFileExW(n.it, m.it, kReplaceAndCopy) != 0) return 0;
  errno = _waccess(n.it, 0) == 0 ? EACCES : ENOENT;
  return -1;
}
// Lasts until the thread's next call.
static inline char* utf8_getenv(const char* name) {
  static thread_local char* value = nullptr;
  const utf8_name n(name);
  const wchar_t* found = n.it != nullptr ? _wgetenv(n.it) : nullptr;
  if (found == nullptr) return nullptr;
  const unsigned kUtf8 = 65001;
  const int size = WideCharToMultiByte(kUtf8, 0, found, -1, nullptr, 0, nullptr, nullptr);
  value = static_cast<char*>(realloc(value, static_cast<size_t>(size)));
  if (value != nullptr) WideCharToMultiByte(kUtf8, 0, found, -1, value, size, nullptr, nullptr);
  return value;
}

// A new file in the folder for such files; the C library's own are named in the root of the disk.
static inline bool utf8_temporary_name(wchar_t* name) {
  wchar_t folder[262];
  return GetTempPathW(261, folder) != 0 && GetTempFileNameW(folder, L"lua", 0, name) != 0;
}
static inline bool utf8_tmpnam(char* out, int size) {
  const unsigned kUtf8 = 65001;
  wchar_t name[262];
  return utf8_temporary_name(name) &&
         WideCharToMultiByte(kUtf8, 0, name, -1, out, size, nullptr, nullptr) != 0;
}
static inline FILE* utf8_tmpfile(void) {
  wchar_t name[262];
  return utf8_temporary_name(name) ? _wfopen(name, L"w+bD") : nullptr;
}

#define LUA_TMPNAMBUFSIZE 1024
#define lua_tmpnam(b, e) \
  { e = !utf8_tmpnam(b, LUA_TMPNAMBUFSIZE); }
#define tmpfile utf8_tmpfile
// `long` has 32 bits there.
#define l_fseek(f, o, w) _fseeki64(f, o, w)
#define l_ftell(f) _ftelli64(f)
#define l_seeknum long long
#define fopen utf8_fopen
#define freopen utf8_freopen
#define _popen utf8_popen
#define system utf8_system
#define remove utf8_remove
#define rename utf8_rename
#define getenv utf8_getenv

#endif
