/* tests/embed/c/misuse.c: what a host may do wrong: null, freed, forged and confused handles, values
   that are none, allocators and deleters that fail. */
#include <stdlib.h>

#include "check.h"

static void test_handles(void) {
  const int64_t size[1] = {2};
  moonlet_tensor x = NULL, y = NULL;
  moonlet_interpreter lua = NULL;
  moonlet_table t = NULL;
  int32_t rank = -1;
  int64_t length = -1;
  OK(moonlet_open(NULL, &lua));
  OK(moonlet_table_new(lua, &t));
  OK(moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &x));
  OK(moonlet_tensor_share(x, &y));

  FAILS(MOONLET_INVALID, "moonlet_tensor_rank: 'tensor': expected a tensor, got a null handle",
        moonlet_tensor_rank(NULL, &rank));
  FAILS(MOONLET_INVALID, "expected a tensor, got a table",
        moonlet_tensor_rank((moonlet_tensor)(void*)t, &rank));
  FAILS(MOONLET_INVALID, "expected a table, got a tensor",
        moonlet_table_length((moonlet_table)(void*)x, &length));
  FAILS(MOONLET_INVALID, "expected an interpreter, got a table", run((moonlet_interpreter)(void*)t, ""));
  FAILS(MOONLET_INVALID, "a pointer that is no handle",
        moonlet_tensor_rank((moonlet_tensor)(void*)&rank, &rank));
  FAILS(MOONLET_INVALID, "a pointer that is no handle",
        moonlet_tensor_free((moonlet_tensor)(uintptr_t)0x7fffffff00000001u));
  OK(moonlet_tensor_free(x));
  FAILS(MOONLET_INVALID, "a handle that was freed", moonlet_tensor_rank(x, &rank));
  FAILS(MOONLET_INVALID, "a handle that was freed", moonlet_tensor_free(x));
  OK(moonlet_tensor_rank(y, &rank)); /* the other handle of that tensor */
  moonlet_tensor z = NULL; /* in the slot of x: the old handle is still none */
  OK(moonlet_tensor_share(y, &z));
  FAILS(MOONLET_INVALID, "a handle that was freed", moonlet_tensor_free(x));
  OK(moonlet_tensor_free(z));
  OK(moonlet_tensor_free(y));
  CHECK(rank == 1 && length == -1);

  moonlet_value value = of_table(t), copy = {0};
  OK(moonlet_value_free(&value));
  value = of_table(t);
  FAILS(MOONLET_INVALID, "freed", moonlet_value_copy(&value, &copy));
  FAILS(MOONLET_INVALID, "freed", moonlet_set(lua, "x", &value));
  FAILS(MOONLET_INVALID, "freed", moonlet_value_free(&value));
  value.kind = 1234;
  FAILS(MOONLET_INVALID, "unknown kind", moonlet_set(lua, "x", &value));
  value.kind = MOONLET_INTEGERS;
  FAILS(MOONLET_INVALID, "expected a value of Lua, got integers", moonlet_set(lua, "x", &value));
  value = string("abc");
  value.as.string.data = NULL;
  FAILS(MOONLET_INVALID, "got null", moonlet_set(lua, "x", &value));
  OK(moonlet_close(lua));
  FAILS(MOONLET_INVALID, "freed", moonlet_close(lua));
  FAILS(MOONLET_INVALID, "freed", moonlet_interrupt(lua));
}

static int freed = 0;
static void note_freed(void* user) {
  (void)user;
  ++freed;
}
static moonlet_status nothing(void* user, moonlet_interpreter lua, const moonlet_value* a,
                              size_t count, moonlet_results results) {
  (void)user;
  (void)lua;
  (void)a;
  (void)count;
  (void)results;
  return MOONLET_OK;
}
/* Frees what is only borrowed. */
static moonlet_status free_arguments(void* user, moonlet_interpreter lua, const moonlet_value* a,
                                     size_t count, moonlet_results results) {
  (void)user;
  (void)lua;
  (void)count;
  (void)results;
  moonlet_value mine = a[0];
  return moonlet_value_free(&mine);
}

static void test_null(void) {
  moonlet_interpreter lua = NULL;
  moonlet_value v = {0};
  OK(moonlet_open(NULL, &lua));
  FAILS(MOONLET_INVALID, "'lua': expected a pointer", moonlet_open(NULL, NULL));
  FAILS(MOONLET_INVALID, "'code'", moonlet_run(lua, NULL, 5, NULL, NULL, 0, NULL));
  FAILS(MOONLET_INVALID, "'path'", moonlet_run_file(lua, NULL, NULL, 0, NULL));
  FAILS(MOONLET_INVALID, "'path'", moonlet_get(lua, NULL, &v));
  FAILS(MOONLET_INVALID, "'value'", moonlet_set(lua, "x", NULL));
  FAILS(MOONLET_INVALID, "'path'", moonlet_load(lua, NULL, &v));
  FAILS(MOONLET_INVALID, "'arguments'", moonlet_call(lua, "print", NULL, 1, NULL, 0, NULL));
  FAILS(MOONLET_INVALID, "'callback'", moonlet_register(lua, "f", NULL, NULL, note_freed));
  CHECK(freed == 1); /* what came with a function that was refused */
  FAILS(MOONLET_INVALID, "'function'", moonlet_function_new(lua, nothing, NULL, note_freed, NULL));
  CHECK(freed == 2);
  FAILS(MOONLET_INVALID, "'results'", moonlet_results_push(NULL, &v));
  FAILS(MOONLET_INVALID, "'op'", moonlet_op_call(NULL, NULL, 0, NULL, 0, NULL));
  FAILS(MOONLET_INVALID, "'name'", moonlet_op_find(NULL, NULL));
  FAILS(MOONLET_INVALID, "'outputs'", moonlet_backward(NULL, NULL, 1, 0));
  FAILS(MOONLET_INVALID, "'path'", moonlet_program_load(NULL, 0, NULL));
  FAILS(MOONLET_INVALID, "expected a program", moonlet_context_new(NULL, NULL));
  FAILS(MOONLET_INVALID, "'kind'", moonlet_set_allocator(NULL, NULL));
  FAILS(MOONLET_INVALID, "'value'", moonlet_value_free(NULL));
  OK(moonlet_run(lua, NULL, 0, NULL, NULL, 0, NULL)); /* no code is code */
  OK(moonlet_get(lua, "x", NULL));
  OK(moonlet_error_value(&v));
  CHECK(v.kind == MOONLET_NIL);
  moonlet_set_error(NULL);
  CHECK(strcmp(moonlet_error_message(), "") == 0);
  CHECK(strcmp(moonlet_status_name(MOONLET_BUSY), "MOONLET_BUSY") == 0);
  CHECK(strcmp(moonlet_status_name(-5), "unknown status") == 0);

  OK(moonlet_register(lua, "take", free_arguments, NULL, NULL));
  OK(run(lua, "take({}) take(print) take(require 'moonlet'.zeros(2)) take(1) take 'text'"));

  moonlet_options options = {0};
  FAILS(MOONLET_INVALID, "expected a size", moonlet_open(&options, &lua));
  options.size = sizeof options;
  options.wall_time = -1;
  FAILS(MOONLET_INVALID, "got -1", moonlet_open(&options, &lua));
  options.wall_time = 0;
  options.without = 1u << 31;
  FAILS(MOONLET_INVALID, "MOONLET_LIB", moonlet_open(&options, &lua));
  OK(moonlet_close(lua));
}

/* --- allocators -------------------------------------------------------------------------------- */

static int live = 0, refuse = 0;
static void* allocate(void* user, size_t bytes, int32_t index, void** context) {
  (void)index;
  if (refuse) return NULL;
  /* At a multiple of 64 bytes, behind the address of the block. */
  char* const block = malloc(bytes + 128);
  if (block == NULL) return NULL;
  char* const data = block + 128 - (uintptr_t)block % 64;
  ((char**)data)[-1] = block;
  ++live;
  *context = user;
  return data;
}
static void deallocate(void* user, void* data, size_t bytes, int32_t index, void* context) {
  (void)bytes;
  (void)index;
  CHECK(context == user);
  --live;
  free(((char**)data)[-1]);
}

static void test_allocators(void) {
  const int64_t size[1] = {1000};
  moonlet_allocator mine = {.size = sizeof mine, .user = &live, .allocate = allocate, .deallocate = deallocate};
  moonlet_tensor x = NULL, y = NULL;
  OK(moonlet_set_allocator("cpu", &mine));
  OK(moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &x));
  CHECK(live == 1);
  refuse = 1;
  FAILS(MOONLET_NO_MEMORY, "out of memory",
        moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &y));
  CHECK(y == NULL);
  OK(moonlet_set_allocator("cpu", NULL));
  OK(moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &y));
  OK(moonlet_tensor_free(x)); /* goes back to where it came from */
  CHECK(live == 0);
  OK(moonlet_tensor_free(y));
  mine.deallocate = NULL;
  FAILS(MOONLET_INVALID, "'deallocate'", moonlet_set_allocator("cpu", &mine));
  FAILS(MOONLET_ERROR, "toaster", moonlet_set_allocator("toaster", NULL));
  int32_t count = -1;
  OK(moonlet_device_count("cpu", &count));
  CHECK(count == 1);
}

/* A deleter that uses the interface, and fails at it. */
static void clumsy(void* user) {
  moonlet_tensor* other = user;
  OK(moonlet_tensor_free(*other));
  FAILS(MOONLET_INVALID, "freed", moonlet_tensor_free(*other));
}
static void test_deleters(void) {
  float data[2] = {1, 2};
  const int64_t size[1] = {2};
  moonlet_tensor x = NULL, other = NULL;
  OK(moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &other));
  OK(moonlet_tensor_from_memory(data, size, NULL, 1, MOONLET_FLOAT32, clumsy, &other, &x));
  OK(moonlet_tensor_free(x));
}

void test_misuse(void) {
  test_handles();
  test_null();
  test_allocators();
  test_deleters();
}
