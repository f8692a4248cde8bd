/* tests/embed/c/ops.c: ops by name, and gradients. */
#include <math.h>

#include "check.h"

static moonlet_tensor floats(const float* data, int64_t count) {
  moonlet_tensor out = NULL;
  OK(moonlet_tensor_copy_of(data, &count, 1, MOONLET_FLOAT32, &out));
  return out;
}

static void test_calls(void) {
  const float data[4] = {1, 2, 3, 4};
  moonlet_tensor x = floats(data, 4), y = NULL;
  moonlet_op op = NULL;
  moonlet_value args[4], r[3] = {{0}};
  float out[4];
  const char* text = NULL;
  size_t count = 0;

  OK(moonlet_op_find("add", &op));
  OK(moonlet_op_name(op, &text));
  CHECK(strcmp(text, "add") == 0);
  OK(moonlet_op_schema(op, &text));
  CHECK(strcmp(text, "add(Operand x, Operand other) -> Tensor") == 0);
  args[0] = of_tensor(x);
  args[1] = number(0.5);
  OK(moonlet_op_call(op, args, 2, r, 1, &count));
  CHECK(count == 1 && r[0].kind == MOONLET_TENSOR);
  OK(moonlet_tensor_read(r[0].as.tensor, out, sizeof out));
  CHECK(out[0] == 1.5f && out[3] == 4.5f);
  OK(moonlet_value_free(&r[0]));

  const char* const names[2] = {NULL, "other"}; /* by name */
  args[1] = of_tensor(x);
  OK(moonlet_op_call_named(op, args, names, 2, r, 1, NULL));
  OK(moonlet_tensor_read(r[0].as.tensor, out, sizeof out));
  CHECK(out[3] == 8);
  OK(moonlet_value_free(&r[0]));

  args[1] = number(1); /* in place, and with out= */
  OK(op1("add_", args, 2, &y));
  OK(moonlet_tensor_read(x, out, sizeof out));
  CHECK(out[0] == 2 && out[3] == 5);
  args[0] = of_tensor(y);
  args[1] = of_tensor(x);
  args[2] = number(10);
  OK(moonlet_op_find("mul_out", &op));
  OK(moonlet_op_call(op, args, 3, NULL, 0, NULL));
  OK(moonlet_tensor_read(x, out, sizeof out)); /* y shares memory with x */
  CHECK(out[0] == 20 && out[3] == 50);
  OK(moonlet_tensor_free(y));

  /* Lists: dims from 0, several results, results that are a list. */
  const int64_t shape[2] = {2, 2}, dims[1] = {0};
  args[0] = of_tensor(x);
  args[1] = integers(shape, 2);
  OK(op1("reshape", args, 2, &y));
  args[0] = of_tensor(y);
  args[1] = integers(dims, 1);
  args[2] = boolean(1);
  moonlet_tensor z = NULL;
  OK(op1("sum", args, 3, &z));
  moonlet_tensor_info info = {.size = sizeof info};
  OK(moonlet_tensor_describe(z, &info));
  CHECK(info.rank == 2 && info.sizes[0] == 1 && ((float*)info.data)[0] == 60);
  OK(moonlet_tensor_free(z));
  args[1] = integer(-1);
  OK(moonlet_op_find("sort", &op));
  OK(moonlet_op_call(op, args, 2, r, 3, &count));
  CHECK(count == 2 && r[1].kind == MOONLET_TENSOR);
  OK(moonlet_value_free(&r[0]));
  OK(moonlet_value_free(&r[1]));
  OK(moonlet_op_find("unbind", &op));
  OK(moonlet_op_call(op, args, 1, r, 3, &count));
  CHECK(count == 2);
  OK(moonlet_value_free(&r[0]));
  OK(moonlet_value_free(&r[1]));
  const moonlet_tensor both[2] = {y, y};
  args[0].kind = MOONLET_TENSORS;
  args[0].as.tensors.data = both;
  args[0].as.tensors.size = 2;
  OK(op1("cat", args, 1, &z));
  CHECK(moonlet_tensor_size(z, 0, &info.numel) == MOONLET_OK && info.numel == 4);
  OK(moonlet_tensor_free(z));

  /* A placement, a dtype by number and by name. */
  args[0] = integers(shape, 2);
  args[1].kind = MOONLET_PLACEMENT;
  args[1].as.placement.device = "cpu";
  args[1].as.placement.dtype = MOONLET_FLOAT64;
  OK(op1("zeros", args, 2, &z));
  int32_t dtype = 0;
  OK(moonlet_tensor_dtype(z, &dtype));
  CHECK(dtype == MOONLET_FLOAT64);
  OK(moonlet_tensor_free(z));
  args[0] = of_tensor(y);
  args[1] = string("int32");
  OK(op1("to", args, 2, &z));
  OK(moonlet_tensor_dtype(z, &dtype));
  CHECK(dtype == MOONLET_INT32);
  OK(moonlet_tensor_free(z));
  OK(moonlet_tensor_free(y));
  OK(moonlet_tensor_free(x));
}

static void test_refused_calls(void) {
  const float data[4] = {1, 2, 3, 4};
  moonlet_tensor x = floats(data, 4), y = NULL;
  moonlet_value args[4] = {{0}};
  args[0] = of_tensor(x);
  args[1] = string("two");
  FAILS(MOONLET_INVALID, "add: argument 'other': expected a tensor or a number, got a value of kind "
        "string", op1("add", args, 2, &y));
  FAILS(MOONLET_INVALID, "add: argument 'other': expected a tensor or a number, got none",
        op1("add", args, 1, &y));
  args[1] = of_tensor(NULL);
  FAILS(MOONLET_INVALID, "got a null handle", op1("add", args, 2, &y));
  FAILS(MOONLET_INVALID, "at most 2 arguments, got 4", op1("add", args, 4, &y));
  FAILS(MOONLET_ERROR, "no op 'plus'", op1("plus", args, 2, &y));
  const char* const names[2] = {NULL, "others"};
  moonlet_op op = NULL;
  OK(moonlet_op_find("add", &op));
  FAILS(MOONLET_INVALID, "no argument 'others'",
        moonlet_op_call_named(op, args, names, 2, NULL, 0, NULL));
  const char* const twice[2] = {NULL, "x"};
  FAILS(MOONLET_INVALID, "given twice", moonlet_op_call_named(op, args, twice, 2, NULL, 0, NULL));
  moonlet_tensor three = floats(data, 3);
  args[1] = of_tensor(three);
  FAILS(MOONLET_ERROR, "add", op1("add", args, 2, &y));
  CHECK(y == NULL);
  OK(moonlet_tensor_free(three));
  OK(moonlet_tensor_free(x));
}

/* Every op takes its defaults: called with nothing, and with a tensor for every argument that has no
   default, it gives results or an error. */
static void test_all_ops(void) {
  const float data[6] = {0.5f, 0.25f, 1, 2, 3, 4};
  size_t count = 0, given = 0, refused = 0;
  OK(moonlet_op_count(&count));
  CHECK(count > 1000);
  for (size_t i = 0; i < count; ++i) {
    moonlet_op op = NULL;
    moonlet_value r[8] = {{0}}, args[4];
    OK(moonlet_op_at(i, &op));
    moonlet_status status = moonlet_op_call(op, NULL, 0, r, 8, NULL);
    CHECK(status == MOONLET_OK || status == MOONLET_INVALID || status == MOONLET_ERROR);
    for (int k = 0; k < 8; ++k) OK(moonlet_value_free(&r[k]));
    for (size_t n = 1; n <= 3; ++n) {
      moonlet_tensor x = floats(data, 6);
      for (size_t k = 0; k < n; ++k) args[k] = of_tensor(x);
      status = moonlet_op_call(op, args, n, r, 8, NULL);
      CHECK(status == MOONLET_OK || status == MOONLET_INVALID || status == MOONLET_ERROR);
      if (status == MOONLET_OK) ++given;
      if (status == MOONLET_INVALID) ++refused;
      for (int k = 0; k < 8; ++k) OK(moonlet_value_free(&r[k]));
      OK(moonlet_tensor_free(x));
    }
  }
  CHECK(given > 500 && refused > 500);
  moonlet_op op = NULL;
  FAILS(MOONLET_INVALID, "'position'", moonlet_op_at(count, &op));
}

/* y = 3 x by gradient descent. */
static void test_gradients(void) {
  const float points[4] = {1, 2, 3, 4};
  const float zero = 0;
  moonlet_tensor x = floats(points, 4), w = NULL, y = NULL, product = NULL, loss = NULL, grad = NULL;
  moonlet_value args[2], item = {0};
  args[0] = of_tensor(x);
  args[1] = integer(3);
  OK(op1("mul", args, 2, &y));
  w = floats(&zero, 1);
  OK(moonlet_tensor_set_requires_grad(w, 1));
  for (int step = 0; step < 50; ++step) {
    args[0] = of_tensor(x);
    args[1] = of_tensor(w);
    OK(op1("mul", args, 2, &product));
    args[0] = of_tensor(product);
    args[1] = of_tensor(y);
    OK(op1("mse_loss", args, 2, &loss));
    OK(moonlet_backward(&loss, NULL, 1, 0));
    OK(moonlet_tensor_grad(w, &grad));
    int32_t before = -1;
    OK(moonlet_set_grad_enabled(0, &before));
    CHECK(before == 1);
    args[0] = of_tensor(grad);
    args[1] = number(0.05);
    moonlet_tensor scaled = NULL, same = NULL;
    OK(op1("mul", args, 2, &scaled));
    args[0] = of_tensor(w);
    args[1] = of_tensor(scaled);
    OK(op1("sub_", args, 2, &same));
    OK(moonlet_set_grad_enabled(1, NULL));
    OK(moonlet_tensor_set_grad(w, NULL));
    OK(moonlet_tensor_free(product));
    OK(moonlet_tensor_free(loss));
    OK(moonlet_tensor_free(grad));
    OK(moonlet_tensor_free(scaled));
    OK(moonlet_tensor_free(same));
  }
  OK(moonlet_tensor_item(w, &item));
  CHECK(fabs(item.as.number - 3) < 1e-4);
  OK(moonlet_tensor_grad(w, &grad));
  CHECK(grad == NULL);

  /* Without a leaf's grad; a second derivative; what is not reached. */
  args[0] = of_tensor(w);
  args[1] = integer(3);
  OK(moonlet_tensor_free(y));
  OK(moonlet_tensor_free(x));
  OK(op1("pow", args, 2, &y));
  x = floats(&zero, 1);
  OK(moonlet_tensor_set_requires_grad(x, 1));
  const moonlet_tensor inputs[2] = {w, x};
  moonlet_tensor found[2] = {NULL, NULL}, second = NULL;
  FAILS(MOONLET_ERROR, "", moonlet_gradients(&y, NULL, 1, inputs, 2, MOONLET_RETAIN_GRAPH, found));
  OK(moonlet_gradients(&y, NULL, 1, inputs, 2, MOONLET_CREATE_GRAPH | MOONLET_ALLOW_UNUSED, found));
  CHECK(found[0] != NULL && found[1] == NULL);
  OK(moonlet_gradients(found, NULL, 1, inputs, 1, 0, &second));
  OK(moonlet_tensor_item(second, &item)); /* 6 w */
  CHECK(fabs(item.as.number - 18) < 1e-3);
  OK(moonlet_tensor_detach(found[0], &grad));
  FAILS(MOONLET_ERROR, "grad", moonlet_backward(&grad, NULL, 1, 0));
  const moonlet_tensor all[] = {x, w, y, found[0], second, grad};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) OK(moonlet_tensor_free(all[i]));
}

static void test_seed(void) {
  const int64_t size[1] = {3};
  moonlet_value args[1];
  moonlet_tensor a = NULL, b = NULL;
  float first[3], second[3];
  args[0] = integers(size, 1);
  OK(moonlet_manual_seed(5));
  OK(op1("randn", args, 1, &a));
  OK(moonlet_manual_seed(5));
  OK(op1("randn", args, 1, &b));
  OK(moonlet_tensor_read(a, first, sizeof first));
  OK(moonlet_tensor_read(b, second, sizeof second));
  CHECK(memcmp(first, second, sizeof first) == 0 && first[0] != first[1]);
  OK(moonlet_tensor_free(a));
  OK(moonlet_tensor_free(b));
}

void test_ops(void) {
  test_calls();
  test_refused_calls();
  test_all_ops();
  test_gradients();
  test_seed();
}
