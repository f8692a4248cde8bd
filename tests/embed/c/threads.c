/* tests/embed/c/threads.c: one interpreter and two threads; handles of many threads. */
#include <pthread.h>
#include <sched.h>

#include "check.h"

static moonlet_interpreter lua;
static volatile int inside = 0, leave = 0;

static moonlet_status wait_inside(void* user, moonlet_interpreter of, const moonlet_value* a,
                                  size_t count, moonlet_results results) {
  (void)user;
  (void)of;
  (void)a;
  (void)count;
  (void)results;
  __sync_synchronize();
  inside = 1;
  while (!leave) {
    __sync_synchronize();
    sched_yield();
  }
  return MOONLET_OK;
}

static void* run_waiting(void* status) {
  *(moonlet_status*)status = run(lua, "wait()");
  return NULL;
}
static void* run_endless(void* status) {
  *(moonlet_status*)status = run(lua, "begin() while true do end");
  return NULL;
}

static void test_busy(void) {
  pthread_t thread;
  moonlet_status status = -1;
  moonlet_value v, t = {0};
  OK(moonlet_open(NULL, &lua));
  OK(moonlet_register(lua, "wait", wait_inside, NULL, NULL));
  OK(run(lua, "t = {}"));
  OK(moonlet_get(lua, "t", &t));
  CHECK(pthread_create(&thread, NULL, run_waiting, &status) == 0);
  while (!inside) sched_yield();
  FAILS(MOONLET_BUSY, "another thread", run(lua, "x = 1"));
  FAILS(MOONLET_BUSY, "another thread", moonlet_table_get_index(t.as.table, 1, &v));
  FAILS(MOONLET_BUSY, "another thread", moonlet_close(lua));
  leave = 1;
  __sync_synchronize();
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(status == MOONLET_OK);
  OK(run(lua, "assert(x == nil)"));

  inside = 0;
  leave = 1;
  OK(moonlet_register(lua, "begin", wait_inside, NULL, NULL));
  CHECK(pthread_create(&thread, NULL, run_endless, &status) == 0);
  while (!inside) sched_yield();
  OK(moonlet_interrupt(lua));
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(status == MOONLET_INTERRUPTED);
  CHECK(moonlet_error_status() != MOONLET_INTERRUPTED); /* the error is the other thread's */
  OK(moonlet_value_free(&t));
  OK(moonlet_close(lua));
}

enum { kRounds = 20000, kThreads = 4 };
static moonlet_tensor shared;

static void* use_handles(void* result) {
  int failed = 0;
  moonlet_tensor mine[3];
  int64_t numel = 0;
  for (int i = 0; i < kRounds; ++i) {
    for (int k = 0; k < 3; ++k) failed += moonlet_tensor_share(shared, &mine[k]) != MOONLET_OK;
    for (int k = 0; k < 3; ++k) {
      failed += moonlet_tensor_numel(mine[k], &numel) != MOONLET_OK || numel != 5;
      failed += moonlet_tensor_free(mine[k]) != MOONLET_OK;
      failed += moonlet_tensor_free(mine[k]) != MOONLET_INVALID;
    }
  }
  *(int*)result = failed;
  return NULL;
}

static void test_handles(void) {
  const int64_t size[1] = {5};
  pthread_t threads[kThreads];
  int failed[kThreads];
  OK(moonlet_tensor_empty(size, 1, MOONLET_FLOAT32, NULL, &shared));
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, use_handles, &failed[i]) == 0);
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(failed[i] == 0);
  }
  OK(moonlet_tensor_free(shared));
  int32_t count = 0;
  OK(moonlet_set_num_threads(2));
  OK(moonlet_num_threads(&count));
  CHECK(count == 2);
}

void test_threads(void) {
  test_busy();
  test_handles();
}
