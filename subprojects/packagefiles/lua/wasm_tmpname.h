// wasm_tmpname.h: names of temporary files in WebAssembly, where those of mkstemp are the clock's,
// which stands still for a millisecond: a second file in that time found no name.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// Makes an empty file, whose name goes into 32 bytes. 0, or -1 where it cannot be made.
static inline int make_temporary(char* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    unsigned long long random = 0;
    if (getentropy(&random, sizeof random) != 0) return -1;
    sprintf(name, "/tmp/lua_%016llx", random);
    const int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file >= 0) return close(file);
    if (errno != EEXIST) return -1;
  }
  return -1;
}
