/* tests/embed/c/interface.c: the C interface, part by part; C99. usage: interface FOLDER, where files
   may be written. */
#include "check.h"

int failures = 0;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(strcmp(moonlet_version(), "0.") > 0);
  CHECK(moonlet_abi_version() == MOONLET_ABI_VERSION);
  CHECK(sizeof(moonlet_value) == 24);
  CHECK(moonlet_live_handles() == 0);
  test_scripts();
  CHECK(moonlet_live_handles() == 0);
  test_tensors();
  CHECK(moonlet_live_handles() == 0);
  test_ops();
  CHECK(moonlet_live_handles() == 0);
  test_programs(argv[1]);
  CHECK(moonlet_live_handles() == 0);
  test_misuse();
  CHECK(moonlet_live_handles() == 0);
  test_files();
  CHECK(moonlet_live_handles() == 0);
  test_hooks();
  CHECK(moonlet_live_handles() == 0);
  test_threads();
  CHECK(moonlet_live_handles() == 0);
  return failures == 0 ? 0 : 1;
}
