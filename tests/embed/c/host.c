/* tests/embed/c/host.c: a host in C, as an example: it lends its memory to a script, is called by it,
   trains a weight without Lua, and reads errors. Link with -lmoonlet. */
#include <moonlet/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program when a call has failed. */
static void check(moonlet_status status) {
  if (status == MOONLET_OK) return;
  fprintf(stderr, "%s: %s\n%s\n", moonlet_status_name(status), moonlet_error_message(),
          moonlet_error_traceback());
  exit(1);
}

/* rms(x): the root of the mean square of a signal, for scripts. */
static moonlet_status rms(void* user, moonlet_interpreter lua, const moonlet_value* arguments,
                          size_t count, moonlet_results results) {
  (void)user;
  if (count != 1 || arguments[0].kind != MOONLET_TENSOR) {
    moonlet_set_error("rms: a tensor is expected");
    return MOONLET_ERROR;
  }
  moonlet_value out = {0};
  /* Other calls of the interface may fail: their message goes on to the script. */
  moonlet_status status = moonlet_set(lua, "signal", &arguments[0]);
  const char* code = "return signal:square():mean():sqrt():item()";
  if (status == MOONLET_OK)
    status = moonlet_run(lua, code, strlen(code), "rms", &out, 1, NULL);
  if (status == MOONLET_OK) status = moonlet_results_push(results, &out);
  return status;
}

static void use_a_script(void) {
  moonlet_options options = {.size = sizeof options};
  options.without = MOONLET_LIB_IO | MOONLET_LIB_OS;
  options.wall_time = 2000000000; /* 2 s a run */
  moonlet_interpreter lua;
  check(moonlet_open(&options, &lua));
  check(moonlet_register(lua, "rms", rms, NULL, NULL));

  float signal[4] = {3, -4, 3, -4};
  const int64_t size = 4;
  moonlet_value x = {.kind = MOONLET_TENSOR};
  check(moonlet_tensor_from_memory(signal, &size, NULL, 1, MOONLET_FLOAT32, NULL, NULL,
                                   &x.as.tensor));
  const char* code = "function normalize(x) x:div_(rms(x)) return {peak = x:abs():max():item()} end";
  check(moonlet_run(lua, code, strlen(code), "host.lua", NULL, 0, NULL));
  moonlet_value result = {0}, peak = {0};
  check(moonlet_call(lua, "normalize", &x, 1, &result, 1, NULL));
  check(moonlet_table_get_field(result.as.table, "peak", &peak));
  printf("signal[0] %.4f, peak %.4f\n", signal[0], peak.as.number);
  check(moonlet_value_free(&result));
  check(moonlet_value_free(&x));

  code = "rms(5)";
  if (moonlet_run(lua, code, strlen(code), "host.lua", NULL, 0, NULL) == MOONLET_OK) exit(1);
  printf("refused: %s\n", moonlet_error_message());
  check(moonlet_close(lua));
}

/* An op of two tensors, or of a tensor and a number. */
static moonlet_tensor op2(const char* name, moonlet_tensor x, moonlet_tensor y, double number) {
  moonlet_op op;
  moonlet_value arguments[2] = {{.kind = MOONLET_TENSOR}, {.kind = MOONLET_NUMBER}}, out = {0};
  arguments[0].as.tensor = x;
  arguments[1].as.number = number;
  if (y != NULL) {
    arguments[1].kind = MOONLET_TENSOR;
    arguments[1].as.tensor = y;
  }
  check(moonlet_op_find(name, &op));
  check(moonlet_op_call(op, arguments, 2, &out, 1, NULL));
  return out.as.tensor;
}

/* One step of gradient descent on the error of x * w. */
static void step(moonlet_tensor x, moonlet_tensor w, moonlet_tensor y) {
  moonlet_tensor product = op2("mul", x, w, 0), loss = op2("mse_loss", product, y, 0), grad;
  check(moonlet_backward(&loss, NULL, 1, 0));
  check(moonlet_tensor_grad(w, &grad));
  check(moonlet_set_grad_enabled(0, NULL));
  moonlet_tensor change = op2("mul", grad, NULL, 0.05), same = op2("sub_", w, change, 0);
  check(moonlet_set_grad_enabled(1, NULL));
  check(moonlet_tensor_set_grad(w, NULL));
  const moonlet_tensor used[] = {product, loss, grad, change, same};
  for (size_t i = 0; i < sizeof used / sizeof used[0]; ++i) check(moonlet_tensor_free(used[i]));
}

static void train(void) {
  const float points[4] = {1, 2, 3, 4}, zero = 0;
  const int64_t size = 4;
  moonlet_tensor x, w;
  moonlet_value weight;
  check(moonlet_tensor_copy_of(points, &size, 1, MOONLET_FLOAT32, &x));
  check(moonlet_tensor_copy_of(&zero, NULL, 0, MOONLET_FLOAT32, &w));
  check(moonlet_tensor_set_requires_grad(w, 1));
  moonlet_tensor y = op2("mul", x, NULL, 3);
  for (int i = 0; i < 50; ++i) step(x, w, y);
  check(moonlet_tensor_item(w, &weight));
  printf("weight %.3f\n", weight.as.number);
  check(moonlet_tensor_free(x));
  check(moonlet_tensor_free(y));
  check(moonlet_tensor_free(w));
}

int main(void) {
  use_a_script();
  train();
  return moonlet_live_handles() == 0 ? 0 : 1;
}
