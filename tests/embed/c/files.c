/* tests/embed/c/files.c: files that a host in C keeps, and values as the bytes of files. */
#include <stdlib.h>
#include "check.h"

enum { MOST_FILES = 4 };
typedef struct {
  char path[64];
  char* bytes;
  size_t size;
} file;
static file store[MOST_FILES];

static file* find(const char* path) {
  for (int i = 0; i < MOST_FILES; ++i)
    if (strcmp(store[i].path, path) == 0) return &store[i];
  return NULL;
}

static moonlet_status file_size(void* user, const char* path, int64_t* bytes) {
  ++*(int*)user;
  if (strcmp(path, "secret") == 0) {
    moonlet_set_error("not for you");
    return MOONLET_ERROR;
  }
  const file* found = find(path);
  if (found != NULL) *bytes = (int64_t)found->size;
  return MOONLET_OK;
}

static moonlet_status read_file(void* user, const char* path, uint64_t at, char* out, size_t count) {
  (void)user;
  memcpy(out, find(path)->bytes + at, count);
  return MOONLET_OK;
}

static moonlet_status write_file(void* user, const char* path, const char* const* parts,
                                 const size_t* sizes, size_t count) {
  (void)user;
  file* to = find(path);
  if (to == NULL) to = find(""); /* a free one */
  if (to == NULL) return 77;     /* without a message */
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += sizes[i];
  free(to->bytes);
  to->bytes = malloc(size + 1);
  to->size = size;
  snprintf(to->path, sizeof to->path, "%s", path);
  char* at = to->bytes;
  for (size_t i = 0; i < count; ++i) {
    memcpy(at, parts[i], sizes[i]);
    at += sizes[i];
  }
  return MOONLET_OK;
}

static void test_host_files(void) {
  int asked = 0;
  moonlet_interpreter lua = NULL;
  moonlet_options options = {.size = sizeof options, .without = MOONLET_LIB_IO | MOONLET_LIB_OS,
                             .user = &asked, .file_size = file_size, .read_file = read_file,
                             .write_file = write_file};
  OK(moonlet_open(&options, &lua));
  OK(run(lua, "ml = require 'moonlet' ml.save('state.npy', ml.arange(4))"));
  OK(run(lua, "assert(ml.load('state.npy'):sum():item() == 10)"));
  CHECK(find("state.npy") != NULL && memcmp(find("state.npy")->bytes, "\x93NUMPY", 6) == 0);
  CHECK(asked > 0);
  FAILS(MOONLET_SCRIPT_ERROR, "not for you", run(lua, "ml.load 'secret'"));
  FAILS(MOONLET_SCRIPT_ERROR, "No such file", run(lua, "ml.load 'none.npy'"));
  FAILS(MOONLET_SCRIPT_ERROR, "status 77",
        run(lua, "for i = 1, 9 do ml.save(i .. '.npy', ml.ones(1)) end"));
  OK(moonlet_close(lua));
  for (int i = 0; i < MOST_FILES; ++i) free(store[i].bytes);

  options.write_file = NULL;
  OK(moonlet_open(&options, &lua));
  FAILS(MOONLET_SCRIPT_ERROR, "takes no files",
        run(lua, "local ml = require 'moonlet' ml.save('x.npy', ml.ones(1))"));
  OK(moonlet_close(lua));
  options.read_file = NULL;
  FAILS(MOONLET_INVALID, "both 'file_size' and 'read_file'", moonlet_open(&options, &lua));
}

static void test_bytes(void) {
  moonlet_interpreter lua = NULL;
  moonlet_value state = {0}, bytes = {0}, back = {0}, w = {0}, item = {0};
  OK(moonlet_open(NULL, &lua));
  OK(run(lua, "state = { w = require 'moonlet'.ones(3) }"));
  OK(moonlet_get(lua, "state", &state));
  OK(moonlet_save_bytes(lua, "safetensors", &state, &bytes));
  CHECK(bytes.kind == MOONLET_STRING && bytes.as.string.size > 20);
  char* copy = malloc(bytes.as.string.size);
  memcpy(copy, bytes.as.string.data, bytes.as.string.size);
  OK(moonlet_load_bytes(lua, copy, bytes.as.string.size, &back));
  OK(moonlet_table_get_field(back.as.table, "w", &w));
  moonlet_tensor sum = NULL;
  OK(moonlet_tensor_to(w.as.tensor, MOONLET_INT32, NULL, &sum));
  int32_t ones[3] = {0};
  OK(moonlet_tensor_read(sum, ones, sizeof ones));
  CHECK(ones[0] == 1 && ones[2] == 1);
  OK(moonlet_tensor_free(sum));
  FAILS(MOONLET_SCRIPT_ERROR, "load_string", moonlet_load_bytes(lua, "nonsense", 8, &item));
  FAILS(MOONLET_SCRIPT_ERROR, "expected the format",
        moonlet_save_bytes(lua, "gif", &state, &bytes));
  FAILS(MOONLET_INVALID, "'bytes'", moonlet_load_bytes(lua, NULL, 8, &item));
  FAILS(MOONLET_INVALID, "'value'", moonlet_save_bytes(lua, "npy", NULL, &bytes));
  free(copy);
  OK(moonlet_value_free(&w));
  OK(moonlet_value_free(&back));
  OK(moonlet_value_free(&state));
  OK(moonlet_close(lua));
}

void test_files(void) {
  test_host_files();
  test_bytes();
}
