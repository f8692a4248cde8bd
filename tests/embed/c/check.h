/* tests/embed/c/check.h: what the C tests check with: `failures` is to be main's result. */
#ifndef CHECK_H
#define CHECK_H

#include <moonlet/c.h>
#include <stdio.h>
#include <string.h>

extern int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("FAILED: %s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, moonlet_error_message()); \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

/* The call succeeds. */
#define OK(call) CHECK((call) == MOONLET_OK)
/* The call fails with that status and a message that has this part. */
#define FAILS(status, part, call)                           \
  do {                                                      \
    CHECK((call) == (status));                              \
    CHECK(strstr(moonlet_error_message(), (part)) != NULL); \
  } while (0)

static inline moonlet_value number(double x) {
  moonlet_value out = {MOONLET_NUMBER, 0, {0}};
  out.as.number = x;
  return out;
}
static inline moonlet_value integer(int64_t x) {
  moonlet_value out = {MOONLET_INTEGER, 0, {0}};
  out.as.integer = x;
  return out;
}
static inline moonlet_value boolean(int x) {
  moonlet_value out = {MOONLET_BOOLEAN, 0, {0}};
  out.as.boolean = x;
  return out;
}
static inline moonlet_value string(const char* text) {
  moonlet_value out = {MOONLET_STRING, 0, {0}};
  out.as.string.data = text;
  out.as.string.size = strlen(text);
  return out;
}
static inline moonlet_value of_tensor(moonlet_tensor tensor) {
  moonlet_value out = {MOONLET_TENSOR, 0, {0}};
  out.as.tensor = tensor;
  return out;
}
static inline moonlet_value of_table(moonlet_table table) {
  moonlet_value out = {MOONLET_TABLE, 0, {0}};
  out.as.table = table;
  return out;
}
static inline moonlet_value integers(const int64_t* data, size_t size) {
  moonlet_value out = {MOONLET_INTEGERS, 0, {0}};
  out.as.integers.data = data;
  out.as.integers.size = size;
  return out;
}

/* Runs a script without results. */
static inline moonlet_status run(moonlet_interpreter lua, const char* code) {
  return moonlet_run(lua, code, strlen(code), "test.lua", NULL, 0, NULL);
}

/* Calls an op; its only result. */
static inline moonlet_status op1(const char* name, const moonlet_value* arguments, size_t count,
                                 moonlet_tensor* result) {
  moonlet_op op;
  moonlet_value out = {0};
  moonlet_status status = moonlet_op_find(name, &op);
  if (status == MOONLET_OK) status = moonlet_op_call(op, arguments, count, &out, 1, NULL);
  if (status == MOONLET_OK) *result = out.as.tensor;
  return status;
}

void test_scripts(void);
void test_tensors(void);
void test_ops(void);
void test_programs(const char* folder);
void test_misuse(void);
void test_threads(void);
void test_files(void);
void test_hooks(void);

#endif
