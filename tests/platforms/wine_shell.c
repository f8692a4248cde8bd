/* tests/platforms/wine_shell.c: stands in for Windows' cmd.exe below Wine, so that tests whose
   commands are written for a POSIX shell run: COMSPEC names it, os.execute and io.popen start it
   with /c and the command, and it has the sh of the system below Wine run that. Paths of drives
   become those of that system, and moonlet.exe what starts it there (MOONLET_TEST_START). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

static char* out;
static size_t used, room;

static void put(const char* text) {
  const size_t size = strlen(text);
  if (used + size + 1 > room) {
    room = 2 * (used + size + 1);
    out = realloc(out, room);
  }
  memcpy(out + used, text, size + 1);
  used += size;
}

static int ends_path(char c) { return strchr("'\"<>|&;() \t\r\n", c) != NULL; }

/* Copies a path behind its drive, with / between folders. */
static const char* put_path(const char* text) {
  for (; *text != '\0' && !ends_path(*text); ++text) {
    const char one[2] = {*text == '\\' ? '/' : *text, '\0'};
    put(one);
  }
  return text;
}

static void translate(const char* command, const char* disk, const char* start) {
  const char* const program = "moonlet.exe";
  char before = ' ';
  while (*command != '\0') {
    const int at_path = strchr("'\"= \t<>:(;", before) != NULL && command[1] == ':' &&
                        (command[2] == '/' || command[2] == '\\');
    const size_t from = used;
    if (at_path && (*command == 'Z' || *command == 'z')) {
      command = put_path(command + 2);
    } else if (at_path && (*command == 'C' || *command == 'c')) {
      put(disk);
      command = put_path(command + 2);
    } else {
      const char one[2] = {*command++, '\0'};
      put(one);
    }
    before = out[used - 1];
    const size_t size = strlen(program);
    if (used - from > size && strcmp(out + used - size, program) == 0) {
      used = from;
      put(start);
    }
  }
}

static char* utf8(const wchar_t* text) {
  const int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
  char* narrow = malloc((size_t)size);
  WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, size, NULL, NULL);
  return narrow;
}

/* The file that the shell's exit code comes through: Wine tells nothing of the end of a program of
   the system below. */
static int wait_for_code(const wchar_t* path) {
  for (;; Sleep(5)) {
    FILE* file = _wfopen(path, L"rb");
    int code = -1;
    const int got = file != NULL ? fscanf(file, "%d.", &code) : 0;
    const int whole = got == 1 && fseek(file, -1, SEEK_END) == 0 && fgetc(file) == '.';
    if (file != NULL) fclose(file);
    if (!whole) continue;
    _wremove(path);
    return code;
  }
}

/* A pipe of Wine's is none of the system below, which gets a file for it. */
struct redirection {
  DWORD stream;
  const char* sign;
  int is_pipe;
  wchar_t path[MAX_PATH];
};

static void copy(HANDLE from, HANDLE to) {
  char bytes[4096];
  DWORD got = 0, written = 0;
  while (ReadFile(from, bytes, sizeof bytes, &got, NULL) && got > 0)
    WriteFile(to, bytes, got, &written, NULL);
}

static HANDLE open_file(const struct redirection* at, DWORD access, DWORD how) {
  return CreateFileW(at->path, access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, how,
                     FILE_ATTRIBUTE_NORMAL, NULL);
}

static void redirect(struct redirection* at, const wchar_t* folder, const char* disk,
                     const char* start) {
  const HANDLE stream = GetStdHandle(at->stream);
  at->is_pipe = GetFileType(stream) == FILE_TYPE_PIPE;
  if (!at->is_pipe) return;
  GetTempFileNameW(folder, L"sh", 0, at->path);
  if (at->stream == STD_INPUT_HANDLE) {
    const HANDLE file = open_file(at, GENERIC_WRITE, CREATE_ALWAYS);
    copy(stream, file);
    CloseHandle(file);
  }
  put(" ");
  put(at->sign);
  put("'");
  translate(utf8(at->path), disk, start);
  put("'");
}

static void give_back(const struct redirection* at) {
  if (!at->is_pipe) return;
  if (at->stream != STD_INPUT_HANDLE) {
    const HANDLE file = open_file(at, GENERIC_READ, OPEN_EXISTING);
    copy(file, GetStdHandle(at->stream));
    CloseHandle(file);
  }
  _wremove(at->path);
}

int main(void) {
  const wchar_t* line = wcsstr(GetCommandLineW(), L"/c ");
  const char *disk = getenv("MOONLET_TEST_DISK"), *start = getenv("MOONLET_TEST_START");
  if (line == NULL || disk == NULL || start == NULL) {
    fputs("wine_shell: expected /c COMMAND, MOONLET_TEST_DISK and MOONLET_TEST_START\n", stderr);
    return 125;
  }
  wchar_t folder[MAX_PATH], path[MAX_PATH];
  GetTempPathW(MAX_PATH, folder);
  GetTempFileNameW(folder, L"sh", 0, path);
  char* const code_path = utf8(path);
  translate("(", disk, start);
  translate(utf8(line + 3), disk, start);
  struct redirection streams[] = {{STD_INPUT_HANDLE, "<", 0, {0}},
                                  {STD_OUTPUT_HANDLE, ">", 0, {0}},
                                  {STD_ERROR_HANDLE, "2>", 0, {0}}};
  put("\n)");
  for (int i = 0; i < 3; ++i) redirect(&streams[i], folder, disk, start);
  put("; printf %d. $? >'");
  translate(code_path, disk, start);
  put("'");

  /* Through a file: no two systems agree on quotes in a command line. */
  wchar_t script[MAX_PATH], words[2 * MAX_PATH];
  GetTempFileNameW(folder, L"sh", 0, script);
  FILE* file = _wfopen(script, L"wb");
  fwrite(out, 1, used, file);
  fclose(file);
  used = 0;
  translate(" ", disk, start);
  translate(utf8(script), disk, start);
  wchar_t unix_path[MAX_PATH];
  MultiByteToWideChar(CP_UTF8, 0, out + 1, -1, unix_path, MAX_PATH);
  swprintf(words, 2 * MAX_PATH, L"/bin/sh \"%ls\"", unix_path);
  STARTUPINFOW how = {0};
  how.cb = sizeof how;
  how.dwFlags = STARTF_USESTDHANDLES;
  how.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
  how.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  how.hStdError = GetStdHandle(STD_ERROR_HANDLE);
  PROCESS_INFORMATION process;
  if (!CreateProcessW(L"Z:\\bin\\sh", words, NULL, NULL, TRUE, 0, NULL, NULL, &how, &process)) {
    fprintf(stderr, "wine_shell: error %lu\n", GetLastError());
    return 125;
  }
  const int code = wait_for_code(path);
  for (int i = 0; i < 3; ++i) give_back(&streams[i]);
  _wremove(script);
  return code;
}
