/* tests/embed/c/scripts.c: interpreters, values, tables and functions from C. */
#include "check.h"

static char output[256];
static void write_output(void* user, int32_t stream, const char* text, size_t size) {
  size_t used = strlen(output);
  (void)user;
  if (stream == 0 && used + size < sizeof output) {
    memcpy(output + used, text, size);
    output[used + size] = 0;
  }
}

static void test_values(moonlet_interpreter lua) {
  moonlet_value r[8] = {{0}};
  size_t count = 0;
  const char* code = "return nil, true, 3, 0.5, 'a\\0b', {x = 7}, print, io.stdout, 'more'";
  OK(moonlet_run(lua, code, strlen(code), NULL, r, 8, &count));
  CHECK(count == 9); /* one more than there was room for */
  CHECK(r[0].kind == MOONLET_NIL && r[1].kind == MOONLET_BOOLEAN && r[1].as.boolean == 1);
  CHECK(r[2].kind == MOONLET_INTEGER && r[2].as.integer == 3);
  CHECK(r[3].kind == MOONLET_NUMBER && r[3].as.number == 0.5);
  CHECK(r[4].kind == MOONLET_STRING && r[4].as.string.size == 3);
  CHECK(memcmp(r[4].as.string.data, "a\0b", 4) == 0);
  CHECK(r[5].kind == MOONLET_TABLE && r[6].kind == MOONLET_FUNCTION && r[7].kind == MOONLET_OBJECT);

  moonlet_value copy;
  OK(moonlet_value_copy(&r[5], &copy));
  OK(moonlet_value_free(&r[5]));
  CHECK(r[5].kind == MOONLET_NIL);
  moonlet_value x = {0};
  OK(moonlet_table_get_field(copy.as.table, "x", &x));
  CHECK(x.as.integer == 7);
  OK(moonlet_value_free(&copy));

  OK(moonlet_set(lua, "kept", &r[7])); /* an object goes back as it is */
  OK(run(lua, "assert(kept == io.stdout)"));
  for (int i = 0; i < 8; ++i) OK(moonlet_value_free(&r[i]));
  CHECK(strcmp(moonlet_kind_name(MOONLET_OBJECT), "object") == 0);
  CHECK(strcmp(moonlet_kind_name(99), "unknown kind") == 0);
}

static void test_tables(moonlet_interpreter lua) {
  moonlet_table t = NULL;
  OK(moonlet_table_new(lua, &t));
  moonlet_value v = integer(10), key;
  OK(moonlet_table_set_index(t, 1, &v));
  v = integer(20);
  OK(moonlet_table_set_index(t, 2, &v));
  v = string("text");
  OK(moonlet_table_set_field(t, "name", &v));
  key = number(0.5);
  v = of_table(t); /* a table in itself */
  OK(moonlet_table_set(t, &key, &v));
  int64_t length = 0;
  OK(moonlet_table_length(t, &length));
  CHECK(length == 2);

  int64_t sum = 0;
  int names = 0, tables = 0, entries = 0;
  moonlet_value k = {0}, item = {0};
  while (moonlet_table_next(t, &k, &item) == MOONLET_OK && k.kind != MOONLET_NIL) {
    ++entries;
    if (k.kind == MOONLET_INTEGER) sum += k.as.integer * item.as.integer;
    if (k.kind == MOONLET_STRING) names += strcmp(item.as.string.data, "text") == 0;
    if (item.kind == MOONLET_TABLE) ++tables;
    OK(moonlet_value_free(&item));
  }
  CHECK(entries == 4 && sum == 50 && names == 1 && tables == 1);
  v = integer(1);
  OK(moonlet_set(lua, "package.loaded.mine", &v)); /* a path */
  OK(moonlet_get(lua, "package.loaded.mine", &v));
  CHECK(v.as.integer == 1);
  FAILS(MOONLET_ERROR, "there is no 'nothing'", moonlet_get(lua, "nothing.at.all", &v));
  key = (moonlet_value){0};
  FAILS(MOONLET_SCRIPT_ERROR, "nil", moonlet_table_set(t, &key, &v));
  OK(moonlet_table_free(t));
}

/* add(a, b): user is a number that is added, too. */
static moonlet_status add(void* user, moonlet_interpreter lua, const moonlet_value* a, size_t count,
                          moonlet_results results) {
  (void)lua;
  if (count != 2 || a[0].kind != MOONLET_NUMBER) {
    moonlet_set_error("add: two numbers are expected");
    return MOONLET_ERROR;
  }
  moonlet_value sum = number(a[0].as.number + a[1].as.number + *(double*)user);
  return moonlet_results_push(results, &sum);
}

static int freed = 0;
static void count_freed(void* user) {
  (void)user;
  ++freed;
}

/* Calls back, and fails as that fails. */
static moonlet_status call_back(void* user, moonlet_interpreter lua, const moonlet_value* a,
                                size_t count, moonlet_results results) {
  (void)user;
  (void)results;
  if (count != 1) return 77;
  return moonlet_function_call(a[0].as.function, NULL, 0, NULL, 0, NULL);
  (void)lua;
}

static void test_functions(moonlet_interpreter lua) {
  double extra = 100;
  moonlet_value r = {0}, args[2];
  OK(moonlet_register(lua, "add", add, &extra, count_freed));
  args[0] = number(1);
  args[1] = number(2);
  OK(moonlet_call(lua, "add", args, 2, &r, 1, NULL));
  CHECK(r.as.number == 103);
  FAILS(MOONLET_ERROR, "two numbers are expected", run(lua, "add()"));
  OK(run(lua, "local ok, message = pcall(add) assert(message:find 'test.lua:1: add: two numbers')"));

  OK(moonlet_register(lua, "back", call_back, NULL, NULL));
  FAILS(MOONLET_SCRIPT_ERROR, "no luck", run(lua, "back(function() error 'no luck' end)"));
  CHECK(strstr(moonlet_error_traceback(), "stack traceback:") != NULL);
  FAILS(MOONLET_ERROR, "status 77", run(lua, "back()"));

  /* An error value that is a table comes through a callback as it is. */
  FAILS(MOONLET_SCRIPT_ERROR, "table value", run(lua, "back(function() error {code = 5} end)"));
  moonlet_value error = {0}, code = {0};
  OK(moonlet_error_value(&error));
  CHECK(error.kind == MOONLET_TABLE);
  OK(moonlet_table_get_field(error.as.table, "code", &code));
  CHECK(code.as.integer == 5);
  OK(moonlet_value_free(&error));

  moonlet_function f = NULL;
  OK(moonlet_function_new(lua, add, &extra, count_freed, &f));
  OK(moonlet_function_call(f, args, 2, &r, 1, NULL));
  CHECK(r.as.number == 103);
  OK(moonlet_function_free(f));
  CHECK(freed == 0);
  OK(run(lua, "add = nil"));
  OK(moonlet_collect(lua));
  OK(moonlet_collect(lua));
  OK(moonlet_collect(lua));
  CHECK(freed == 2);
  int32_t done = 0;
  OK(moonlet_collect_step(lua, 10, &done));
  done = 0;
  OK(moonlet_collect_for(lua, 1000000, &done));
  CHECK(done == 1);
  int64_t bytes = 0;
  OK(moonlet_lua_bytes(lua, &bytes));
  CHECK(bytes > 10000);
}

static void test_next_limits(moonlet_interpreter lua) {
  moonlet_options limits = {.size = sizeof limits};
  moonlet_value five = {0};
  limits.wall_time = 20000000; /* another kind of limit from now on */
  OK(moonlet_set_limits(lua, &limits));
  FAILS(MOONLET_LIMIT, "", run(lua, "while true do end"));
  CHECK(moonlet_error_limit() == MOONLET_LIMIT_WALL_TIME);
  limits.wall_time = -1;
  FAILS(MOONLET_INVALID, "got -1", moonlet_set_limits(lua, &limits));
  limits.wall_time = 0;
  OK(moonlet_set_limits(lua, &limits));
  OK(run(lua, "function f() for i = 1, 200000 do end return 5 end function g() while true do end end"));
  OK(moonlet_call_within(lua, 10000000000, "f", NULL, 0, &five, 1, NULL));
  CHECK(five.as.integer == 5);
  FAILS(MOONLET_LIMIT, "", moonlet_call_within(lua, 1000000, "g", NULL, 0, NULL, 0, NULL));
}

static void test_limits(void) {
  moonlet_options options = {.size = sizeof options};
  moonlet_interpreter lua = NULL;
  options.without = MOONLET_LIB_IO | MOONLET_LIB_OS;
  options.instructions = 100000;
  options.threads = 2;
  options.output = write_output;
  OK(moonlet_open(&options, &lua));
  OK(run(lua, "assert(io == nil and os == nil) print('seen', 1)"));
  CHECK(strcmp(output, "seen\t1\n") == 0);
  FAILS(MOONLET_LIMIT, "instructions", run(lua, "while true do end"));
  CHECK(moonlet_error_limit() == MOONLET_LIMIT_INSTRUCTIONS);
  CHECK(moonlet_error_status() == MOONLET_LIMIT);
  OK(run(lua, "x = 1")); /* it can be used again */
  int32_t threads = 0;
  OK(moonlet_get_threads(lua, &threads));
  CHECK(threads == 2);
  OK(moonlet_set_threads(lua, 1));
  FAILS(MOONLET_ERROR, "from 1", moonlet_set_threads(lua, 0));
  test_next_limits(lua);
  OK(moonlet_close(lua));

  options.collector = MOONLET_COLLECT_MANUAL;
  OK(moonlet_open(&options, &lua));
  OK(moonlet_close(lua));
  options.collector = 3;
  FAILS(MOONLET_INVALID, "MOONLET_COLLECT", moonlet_open(&options, &lua));

  options.size = offsetof(moonlet_options, lua_bytes); /* as an older header had it */
  options.without = 0;
  options.lua_bytes = 1; /* beyond the size: not seen */
  OK(moonlet_open(&options, &lua));
  OK(run(lua, "assert(io)"));
  OK(moonlet_close(lua));
}

static moonlet_status close_it(void* user, moonlet_interpreter lua, const moonlet_value* a,
                               size_t count, moonlet_results results) {
  (void)user;
  (void)a;
  (void)count;
  (void)results;
  OK(moonlet_close(lua));
  FAILS(MOONLET_INVALID, "freed", run(lua, "x = 1"));
  return MOONLET_OK;
}

static void test_end(void) {
  moonlet_interpreter lua = NULL;
  moonlet_value t = {0}, v;
  OK(moonlet_open(NULL, &lua));
  OK(run(lua, "t = {1}"));
  OK(moonlet_get(lua, "t", &t));
  OK(moonlet_close(lua));
  FAILS(MOONLET_ERROR, "closed", moonlet_table_get_index(t.as.table, 1, &v));
  moonlet_value key = {0};
  FAILS(MOONLET_ERROR, "closed", moonlet_table_next(t.as.table, &key, &v));
  OK(moonlet_value_free(&t));

  /* Closed by a function that it calls. */
  int before = freed;
  OK(moonlet_open(NULL, &lua));
  OK(moonlet_register(lua, "close", close_it, NULL, count_freed));
  CHECK(run(lua, "close() while true do end") != MOONLET_OK);
  CHECK(freed == before + 1);
}

void test_scripts(void) {
  moonlet_interpreter lua = NULL;
  OK(moonlet_open(NULL, &lua));
  test_values(lua);
  test_tables(lua);
  test_functions(lua);
  FAILS(MOONLET_SCRIPT_ERROR, "test.lua:2: boom", run(lua, "\nerror 'boom'"));
  FAILS(MOONLET_SCRIPT_ERROR, "none.lua", moonlet_run_file(lua, "none.lua", NULL, 0, NULL));
  moonlet_value module = {0};
  OK(moonlet_require(lua, "moonlet.nn", &module));
  CHECK(module.kind == MOONLET_TABLE);
  OK(moonlet_value_free(&module));
  OK(moonlet_close(lua));
  test_limits();
  test_end();
}
