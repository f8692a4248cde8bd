/* tests/embed/c/hooks.c: hooks of gradients and autocast from C. */
#include "check.h"

static int freed;
static void count_freed(void* user) {
  (void)user;
  ++freed;
}

static moonlet_tensor vector_of(const float* data, int64_t count) {
  moonlet_tensor out = NULL;
  OK(moonlet_tensor_copy_of(data, &count, 1, MOONLET_FLOAT32, &out));
  return out;
}

static moonlet_tensor call(const char* name, moonlet_tensor a, moonlet_tensor b) {
  moonlet_op op = NULL;
  moonlet_value args[2] = {of_tensor(a), of_tensor(b)}, result = {0};
  OK(moonlet_op_find(name, &op));
  OK(moonlet_op_call(op, args, b != NULL ? 2 : 1, &result, 1, NULL));
  return result.as.tensor;
}

/* Notes the first element, and doubles. */
static moonlet_status twice(void* user, moonlet_tensor grad, moonlet_tensor* replacement) {
  float first[2];
  OK(moonlet_tensor_read(grad, first, sizeof first));
  *(float*)user = first[0];
  *replacement = call("add", grad, grad);
  return MOONLET_OK;
}
static moonlet_status look(void* user, moonlet_tensor grad, moonlet_tensor* replacement) {
  (void)grad;
  (void)replacement;
  ++*(float*)user;
  return MOONLET_OK;
}
static moonlet_status refuse(void* user, moonlet_tensor grad, moonlet_tensor* replacement) {
  (void)user;
  (void)grad;
  (void)replacement;
  moonlet_set_error("this gradient is not wanted");
  return MOONLET_ERROR;
}

static float first_gradient(moonlet_tensor x) {
  moonlet_tensor y = call("mul", x, x), sum = call("sum", y, NULL), grad = NULL;
  float values[2] = {0};
  OK(moonlet_tensor_set_grad(x, NULL));
  OK(moonlet_backward(&sum, NULL, 1, 0));
  OK(moonlet_tensor_grad(x, &grad));
  OK(moonlet_tensor_read(grad, values, sizeof values));
  OK(moonlet_tensor_free(grad));
  OK(moonlet_tensor_free(sum));
  OK(moonlet_tensor_free(y));
  return values[0];
}

static void test_gradient_hooks(void) {
  const float data[2] = {3, 4};
  moonlet_tensor x = vector_of(data, 2);
  OK(moonlet_tensor_set_requires_grad(x, 1));
  float seen = 0, looks = 0;
  moonlet_hook doubling = NULL, looking = NULL;
  OK(moonlet_tensor_register_hook(x, twice, &seen, count_freed, &doubling));
  OK(moonlet_tensor_register_hook(x, look, &looks, count_freed, &looking));
  CHECK(first_gradient(x) == 12 && seen == 6 && looks == 1);
  OK(moonlet_hook_free(doubling, 0));
  CHECK(freed == 1);
  FAILS(MOONLET_INVALID, "expected a hook", moonlet_hook_free(doubling, 0));
  CHECK(first_gradient(x) == 6 && looks == 2);
  OK(moonlet_hook_free(looking, 1)); /* the hook stays */
  CHECK(first_gradient(x) == 6 && looks == 3);
  OK(moonlet_tensor_free(x));
  CHECK(freed == 2);

  x = vector_of(data, 2);
  FAILS(MOONLET_ERROR, "require grad", moonlet_tensor_register_hook(x, look, &looks, count_freed, NULL));
  CHECK(freed == 3);
  OK(moonlet_tensor_set_requires_grad(x, 1));
  OK(moonlet_tensor_register_hook(x, refuse, NULL, NULL, NULL));
  moonlet_tensor sum = call("sum", x, NULL);
  FAILS(MOONLET_ERROR, "not wanted", moonlet_backward(&sum, NULL, 1, 0));
  OK(moonlet_tensor_free(sum));
  OK(moonlet_tensor_free(x));
  FAILS(MOONLET_INVALID, "'hook'", moonlet_tensor_register_hook(x, NULL, NULL, NULL, NULL));
}

static moonlet_status multiply(void* user) {
  moonlet_tensor* tensors = user;
  tensors[1] = call("mm", tensors[0], tensors[0]);
  return MOONLET_OK;
}
static moonlet_status fail(void* user) {
  (void)user;
  moonlet_set_error("the body failed");
  return MOONLET_ERROR;
}

static void test_autocast(void) {
  const float data[4] = {1, 2, 3, 4};
  const int64_t sizes[2] = {2, 2};
  moonlet_tensor tensors[2] = {NULL, NULL};
  int32_t dtype = -1;
  OK(moonlet_tensor_copy_of(data, sizes, 2, MOONLET_FLOAT32, &tensors[0]));
  OK(moonlet_under_autocast("cpu", MOONLET_BFLOAT16, multiply, tensors));
  OK(moonlet_tensor_dtype(tensors[1], &dtype));
  CHECK(dtype == MOONLET_BFLOAT16);
  OK(moonlet_tensor_free(tensors[1]));
  OK(multiply(tensors)); /* it has ended */
  OK(moonlet_tensor_dtype(tensors[1], &dtype));
  CHECK(dtype == MOONLET_FLOAT32);
  OK(moonlet_tensor_free(tensors[1]));
  OK(moonlet_tensor_free(tensors[0]));
  FAILS(MOONLET_ERROR, "the body failed", moonlet_under_autocast("cpu", MOONLET_BFLOAT16, fail, NULL));
  CHECK(moonlet_under_autocast("cpu", MOONLET_INT32, fail, NULL) != MOONLET_OK);
}

void test_hooks(void) {
  test_gradient_hooks();
  test_autocast();
}
