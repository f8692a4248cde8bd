/* tests/embed/c/programs.c: programs and their contexts; without an allocation after the first run. */
#include <stdlib.h>

#include "check.h"

#ifdef COUNT_ALLOCATIONS
/* All of the process goes through here. */
static long allocations = 0;
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
#else
static long allocations = 0;
#endif

static const char kExport[] =
    "local ml = require 'moonlet'\n"
    "local folder = ...\n"
    "ml.manual_seed(1)\n"
    "local nn = ml.nn\n"
    "net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)):eval()\n"
    "ml.export(net, {ml.zeros(1, 3)}, {names = {inputs = {'state'}, outputs = {'action'}}})\n"
    "  :save(folder .. '/net.mlp')\n"
    "wanted = ml.no_grad(net, ml.tensor {{0.5, -1, 2}})\n"
    "ml.save(folder .. '/net.safetensors', net:state_dict())\n";

static void test_run(moonlet_program program, const float* wanted) {
  const int64_t in_sizes[2] = {1, 3}, out_sizes[2] = {1, 2};
  float state[3] = {0.5f, -1, 2}, action[2] = {0, 0};
  moonlet_buffer in = {state, MOONLET_FLOAT32, 2, in_sizes};
  moonlet_buffer out = {action, MOONLET_FLOAT32, 2, out_sizes};
  moonlet_context context = NULL;
  OK(moonlet_context_new(program, &context));
  OK(moonlet_context_run(context, &in, 1, &out, 1));
  CHECK(memcmp(action, wanted, sizeof action) == 0);
  const long before = allocations;
  for (int i = 0; i < 100; ++i) {
    action[0] = 0;
    OK(moonlet_context_run(context, &in, 1, &out, 1));
    CHECK(action[0] == wanted[0]);
  }
  CHECK(allocations == before);

  moonlet_tensor x = NULL, y = NULL;
  OK(moonlet_tensor_from_memory(state, in_sizes, NULL, 2, MOONLET_FLOAT32, NULL, NULL, &x));
  OK(moonlet_context_run_tensors(context, &x, 1, &y, 1));
  OK(moonlet_tensor_read(y, action, sizeof action));
  CHECK(memcmp(action, wanted, sizeof action) == 0);
  OK(moonlet_tensor_free(y));
  FAILS(MOONLET_INVALID, "'outputs'", moonlet_context_run_tensors(context, &x, 1, &y, 0));
  OK(moonlet_tensor_free(x));

  FAILS(MOONLET_INVALID, "'inputs': expected 1, got 2",
        moonlet_context_run(context, &in, 2, &out, 1));
  in.dtype = MOONLET_FLOAT64;
  FAILS(MOONLET_ERROR, "float64", moonlet_context_run(context, &in, 1, &out, 1));
  in.dtype = MOONLET_FLOAT32;
  in.rank = 1;
  FAILS(MOONLET_ERROR, "", moonlet_context_run(context, &in, 1, &out, 1));
  OK(moonlet_context_free(context));
  FAILS(MOONLET_INVALID, "freed", moonlet_context_run(context, &in, 1, &out, 1));
}

void test_programs(const char* folder) {
  char path[512];
  moonlet_interpreter lua = NULL;
  moonlet_value argument = string(folder), wanted = {0}, weights = {0}, bias = {0};
  float values[2];
  OK(moonlet_open(NULL, &lua));
  moonlet_value f = {0};
  char code[2048];
  snprintf(code, sizeof code, "export = function(...)\n%s\nend", kExport);
  OK(run(lua, code));
  OK(moonlet_get(lua, "export", &f));
  OK(moonlet_function_call(f.as.function, &argument, 1, NULL, 0, NULL));
  OK(moonlet_value_free(&f));
  OK(moonlet_get(lua, "wanted", &wanted));
  OK(moonlet_tensor_read(wanted.as.tensor, values, sizeof values));
  OK(moonlet_value_free(&wanted));

  /* Weights by `ml.load`. */
  snprintf(path, sizeof path, "%s/net.safetensors", folder);
  OK(moonlet_load(lua, path, &weights));
  OK(moonlet_table_get_field(weights.as.table, "0.bias", &bias));
  CHECK(bias.kind == MOONLET_TENSOR);
  snprintf(path, sizeof path, "%s/again.npz", folder);
  OK(moonlet_save(lua, path, &weights));
  OK(moonlet_value_free(&weights));
  FAILS(MOONLET_SCRIPT_ERROR, "none.npy", moonlet_load(lua, "none.npy", &weights));
  OK(moonlet_close(lua));

  moonlet_program program = NULL, again = NULL;
  snprintf(path, sizeof path, "%s/net.mlp", folder);
  OK(moonlet_program_load(path, 0, &program));
  size_t inputs = 0, outputs = 0;
  OK(moonlet_program_counts(program, &inputs, &outputs));
  CHECK(inputs == 1 && outputs == 1);
  moonlet_end_info info = {.size = sizeof info};
  OK(moonlet_program_input(program, 0, &info));
  CHECK(strcmp(info.name, "state") == 0 && info.rank == 2 && info.sizes[1] == 3);
  OK(moonlet_program_output(program, 0, &info));
  CHECK(strcmp(info.name, "action") == 0 && info.dtype == MOONLET_FLOAT32);
  FAILS(MOONLET_INVALID, "'position'", moonlet_program_output(program, 1, &info));
  const char* text = NULL;
  OK(moonlet_program_text(program, &text));
  CHECK(strstr(text, "state") != NULL);
  test_run(program, values);

  moonlet_tensor parameter = NULL;
  OK(moonlet_program_parameter(program, "0.bias", &parameter));
  OK(moonlet_tensor_free(parameter));
  FAILS(MOONLET_ERROR, "'none'", moonlet_program_parameter(program, "none", &parameter));
  OK(moonlet_program_set_parameter(program, "0.bias", bias.as.tensor));
  OK(moonlet_value_free(&bias));
  snprintf(path, sizeof path, "%s/again.mlp", folder);
  OK(moonlet_program_save(program, path));
  OK(moonlet_program_load(path, 0, &again));
  OK(moonlet_program_free(program));
  test_run(again, values);
  OK(moonlet_program_free(again));
  FAILS(MOONLET_ERROR, "none.mlp", moonlet_program_load("none.mlp", 0, &program));
}
