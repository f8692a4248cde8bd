/* tests/embed/c/tensors.c: tensors from memory and back, and DLPack. */
#include <moonlet/dlpack.h>
#include <stdlib.h>

#include "check.h"

static int released = 0;
static void release(void* user) { released += *(int*)user; }

static void test_memory(void) {
  float buffer[6] = {1, 2, 3, 4, 5, 6};
  const int64_t sizes[2] = {2, 3};
  int one = 1;
  moonlet_tensor x = NULL, y = NULL;
  OK(moonlet_tensor_from_memory(buffer, sizes, NULL, 2, MOONLET_FLOAT32, release, &one, &x));
  moonlet_tensor_info info = {.size = sizeof info};
  OK(moonlet_tensor_describe(x, &info));
  CHECK(info.rank == 2 && info.numel == 6 && info.sizes[1] == 3 && info.strides[0] == 3);
  CHECK(info.data == buffer && info.contiguous && !info.requires_grad);
  CHECK(info.dtype == MOONLET_FLOAT32 && strcmp(info.device, "cpu") == 0);
  int64_t size = 0, numel = 0, stride = 0;
  int32_t rank = 0, dtype = 0;
  OK(moonlet_tensor_size(x, -1, &size));
  OK(moonlet_tensor_stride(x, 0, &stride));
  OK(moonlet_tensor_numel(x, &numel));
  OK(moonlet_tensor_rank(x, &rank));
  OK(moonlet_tensor_dtype(x, &dtype));
  CHECK(size == 3 && stride == 3 && numel == 6 && rank == 2 && dtype == MOONLET_FLOAT32);
  FAILS(MOONLET_INVALID, "expected -2 to 1, got 2", moonlet_tensor_size(x, 2, &size));

  OK(moonlet_tensor_share(x, &y));
  OK(moonlet_tensor_free(x));
  CHECK(released == 0);
  /* A script sees the same memory. */
  moonlet_interpreter lua = NULL;
  OK(moonlet_open(NULL, &lua));
  moonlet_value v = of_tensor(y);
  OK(moonlet_set(lua, "x", &v));
  OK(run(lua, "x:mul_(2) x = nil"));
  CHECK(buffer[0] == 2 && buffer[5] == 12);
  OK(moonlet_close(lua));
  OK(moonlet_tensor_free(y));
  CHECK(released == 1);

  /* Strides, and a column of it. */
  const int64_t column[1] = {2}, step[1] = {3};
  OK(moonlet_tensor_from_memory(buffer + 1, column, step, 1, MOONLET_FLOAT32, NULL, NULL, &x));
  float out[2] = {0, 0};
  OK(moonlet_tensor_read(x, out, sizeof out));
  CHECK(out[0] == 4 && out[1] == 10);
  const float in[2] = {7, 8};
  OK(moonlet_tensor_write(x, in, sizeof in));
  CHECK(buffer[1] == 7 && buffer[4] == 8 && buffer[2] == 6);
  FAILS(MOONLET_INVALID, "expected 8", moonlet_tensor_read(x, out, 4));
  void* data = NULL;
  FAILS(MOONLET_ERROR, "contiguous", moonlet_tensor_data(x, MOONLET_FLOAT32, &data));
  FAILS(MOONLET_ERROR, "one element", moonlet_tensor_item(x, &v));
  OK(moonlet_tensor_free(x));

  OK(moonlet_tensor_copy_of(buffer, NULL, 0, MOONLET_FLOAT32, &x)); /* a 0-d tensor */
  OK(moonlet_tensor_item(x, &v));
  CHECK(v.kind == MOONLET_NUMBER && v.as.number == 2);
  OK(moonlet_tensor_to(x, MOONLET_INT64, "cpu", &y));
  OK(moonlet_tensor_item(y, &v));
  CHECK(v.kind == MOONLET_INTEGER && v.as.integer == 2);
  OK(moonlet_tensor_data(y, MOONLET_INT64, &data));
  CHECK(*(int64_t*)data == 2);
  FAILS(MOONLET_ERROR, "int64", moonlet_tensor_data(y, MOONLET_INT32, &data));
  OK(moonlet_tensor_free(x));
  OK(moonlet_tensor_free(y));

  OK(moonlet_tensor_empty(sizes, 2, MOONLET_BFLOAT16, "cpu", &x));
  FAILS(MOONLET_INVALID, "expected 12 for (2, 3) of bfloat16", moonlet_tensor_read(x, out, 8));
  OK(moonlet_tensor_free(x));
}

static void test_refused_memory(void) {
  double one[4] = {1, 2, 3, 4};
  const int64_t bad[1] = {-1}, huge[2] = {INT64_MAX, 4}, two[1] = {2}, negative[1] = {-1};
  int mark = 5;
  moonlet_tensor x = NULL;
  const int before = released;
  CHECK(moonlet_tensor_from_memory(one, bad, NULL, 1, MOONLET_FLOAT64, release, &mark, &x) != 0);
  CHECK(moonlet_tensor_from_memory(one, huge, NULL, 2, MOONLET_FLOAT64, release, &mark, &x) != 0);
  FAILS(MOONLET_INVALID, "strides from 0", moonlet_tensor_from_memory(
            one, two, negative, 1, MOONLET_FLOAT64, release, &mark, &x));
  FAILS(MOONLET_INVALID, "'data'",
        moonlet_tensor_from_memory(NULL, two, NULL, 1, MOONLET_FLOAT64, release, &mark, &x));
  FAILS(MOONLET_INVALID, "aligned", moonlet_tensor_from_memory(
            (char*)one + 1, two, NULL, 1, MOONLET_FLOAT64, release, &mark, &x));
  FAILS(MOONLET_INVALID, "a dtype", moonlet_tensor_from_memory(one, two, NULL, 1, 17, release,
                                                              &mark, &x));
  FAILS(MOONLET_INVALID, "expected 0 to 12, got 13",
        moonlet_tensor_from_memory(one, two, NULL, 13, MOONLET_FLOAT64, release, &mark, &x));
  FAILS(MOONLET_INVALID, "'sizes'",
        moonlet_tensor_from_memory(one, NULL, NULL, 1, MOONLET_FLOAT64, release, &mark, &x));
  FAILS(MOONLET_ERROR, "device", moonlet_tensor_empty(two, 1, MOONLET_FLOAT32, "toaster", &x));
  CHECK(x == NULL && released == before); /* memory that was refused stays the caller's */
}

static void test_dtypes(void) {
  for (int32_t i = MOONLET_BOOL; i <= MOONLET_COMPLEX128; ++i) {
    const char* name = NULL;
    int32_t back = -1;
    size_t bytes = 0;
    OK(moonlet_dtype_name(i, &name));
    OK(moonlet_dtype_from_name(name, &back));
    OK(moonlet_dtype_size(i, &bytes));
    CHECK(back == i && bytes >= 1 && bytes <= 16);
  }
  int32_t dtype = 0;
  OK(moonlet_dtype_from_name("bfloat16", &dtype));
  CHECK(dtype == MOONLET_BFLOAT16);
  FAILS(MOONLET_ERROR, "float33", moonlet_dtype_from_name("float33", &dtype));
}

/* --- DLPack ------------------------------------------------------------------------------------ */

static int ended = 0;
static void end_managed(DLManagedTensorVersioned* self) {
  ended += *(int*)self->manager_ctx;
  free(self);
}
static void end_old(DLManagedTensor* self) {
  ended += *(int*)self->manager_ctx;
  free(self);
}

static int64_t two_by_two[2] = {2, 2}, transposed[2] = {1, 2};
static int weight = 1;

static DLManagedTensorVersioned* new_managed(void* data) {
  DLManagedTensorVersioned* out = calloc(1, sizeof *out);
  out->version.major = DLPACK_MAJOR_VERSION;
  out->version.minor = 99; /* minor versions change nothing */
  out->manager_ctx = &weight;
  out->deleter = end_managed;
  out->dl_tensor.data = data;
  out->dl_tensor.device.device_type = kDLCPU;
  out->dl_tensor.ndim = 2;
  out->dl_tensor.dtype.code = kDLFloat;
  out->dl_tensor.dtype.bits = 64;
  out->dl_tensor.dtype.lanes = 1;
  out->dl_tensor.shape = two_by_two;
  out->dl_tensor.strides = transposed;
  out->dl_tensor.byte_offset = sizeof(double);
  return out;
}

static void test_dlpack_in(void) {
  double data[5] = {0, 1, 2, 3, 4}, out[4];
  moonlet_tensor x = NULL, y = NULL;
  DLManagedTensorVersioned* m = new_managed(data);
  OK(moonlet_from_dlpack(m, &x));
  OK(moonlet_tensor_read(x, out, sizeof out));
  CHECK(out[0] == 1 && out[1] == 3 && out[2] == 2 && out[3] == 4);
  OK(moonlet_tensor_free(x));
  CHECK(ended == 1);

  m = new_managed(data);
  m->dl_tensor.strides = NULL;
  m->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  OK(moonlet_from_dlpack(m, &x));
  moonlet_tensor_info info = {.size = sizeof info};
  OK(moonlet_tensor_describe(x, &info));
  CHECK(info.data == NULL && info.readable == data + 1 && info.strides[0] == 2);
  FAILS(MOONLET_ERROR, "read-only", moonlet_tensor_write(x, out, sizeof out));
  /* Given out again: still read-only, and never by the old struct. */
  DLManagedTensorVersioned* again = NULL;
  DLManagedTensor* old = NULL;
  OK(moonlet_to_dlpack(x, &again));
  CHECK(again->flags == DLPACK_FLAG_BITMASK_READ_ONLY && again->dl_tensor.data == data + 1);
  FAILS(MOONLET_ERROR, "read-only", moonlet_to_dlpack_unversioned(x, &old));
  OK(moonlet_tensor_free(x));
  CHECK(ended == 1); /* the loan goes on */
  again->deleter(again);
  CHECK(ended == 2);

  DLManagedTensor* plain = calloc(1, sizeof *plain);
  m = new_managed(data);
  plain->dl_tensor = m->dl_tensor;
  free(m);
  plain->manager_ctx = &weight;
  plain->deleter = end_old;
  OK(moonlet_from_dlpack_unversioned(plain, &x));
  OK(moonlet_tensor_share(x, &y));
  OK(moonlet_tensor_free(x));
  CHECK(ended == 2);
  OK(moonlet_tensor_free(y));
  CHECK(ended == 3);
}

static void test_dlpack_refused(void) {
  double data[5] = {0};
  moonlet_tensor x = NULL;
  DLManagedTensorVersioned* m = new_managed(data);
  m->version.major = 2;
  FAILS(MOONLET_ERROR, "expected DLPack version 1, got 2", moonlet_from_dlpack(m, &x));
  m->version.major = 1;
  m->dl_tensor.dtype.lanes = 4;
  FAILS(MOONLET_ERROR, "4 lanes", moonlet_from_dlpack(m, &x));
  m->dl_tensor.dtype.lanes = 1;
  m->dl_tensor.device.device_type = (DLDeviceType)7;
  FAILS(MOONLET_ERROR, "device type 7", moonlet_from_dlpack(m, &x));
  m->dl_tensor.device.device_type = kDLCPU;
  m->dl_tensor.ndim = 99;
  FAILS(MOONLET_ERROR, "99", moonlet_from_dlpack(m, &x));
  m->dl_tensor.ndim = 2;
  m->dl_tensor.data = NULL;
  m->dl_tensor.byte_offset = 0;
  FAILS(MOONLET_INVALID, "'data'", moonlet_from_dlpack(m, &x));
  FAILS(MOONLET_INVALID, "'managed'", moonlet_from_dlpack(NULL, &x));
  CHECK(ended == 3 && x == NULL); /* what was refused is the caller's */
  m->deleter(m);
}

static void test_dlpack_out(void) {
  const int64_t sizes[3] = {2, 0, 3}, size[1] = {4};
  const int32_t dtypes[] = {MOONLET_BOOL, MOONLET_UINT8, MOONLET_INT64, MOONLET_FLOAT16,
                            MOONLET_BFLOAT16, MOONLET_FLOAT8_E5M2, MOONLET_COMPLEX64};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
    moonlet_tensor x = NULL, y = NULL;
    DLManagedTensorVersioned* m = NULL;
    DLManagedTensor* old = NULL;
    int32_t dtype = -1;
    OK(moonlet_tensor_empty(size, 1, dtypes[i], NULL, &x));
    OK(moonlet_to_dlpack(x, &m));
    OK(moonlet_from_dlpack(m, &y));
    OK(moonlet_tensor_dtype(y, &dtype));
    CHECK(dtype == dtypes[i] && m->version.major == 1);
    OK(moonlet_tensor_free(y));
    OK(moonlet_to_dlpack_unversioned(x, &old));
    OK(moonlet_tensor_free(x));
    old->deleter(old);
  }
  moonlet_tensor x = NULL;
  DLManagedTensorVersioned* m = NULL;
  OK(moonlet_tensor_empty(sizes, 3, MOONLET_FLOAT32, NULL, &x));
  OK(moonlet_to_dlpack(x, &m));
  CHECK(m->dl_tensor.data == NULL && m->dl_tensor.shape[1] == 0);
  m->deleter(m);
  OK(moonlet_tensor_set_requires_grad(x, 1));
  FAILS(MOONLET_ERROR, "requires grad", moonlet_to_dlpack(x, &m));
  OK(moonlet_tensor_free(x));
}

void test_tensors(void) {
  test_memory();
  test_refused_memory();
  test_dtypes();
  test_dlpack_in();
  test_dlpack_refused();
  test_dlpack_out();
}
