// interp/c/callbacks.h: functions of a host in C that Moonlet calls.
#pragma once

#include "interp/c/calls.h"

namespace moonlet::c {

// What a host gives with a callback: freed with the last function that calls it.
struct User {
  User(void* given, void (*free_given)(void*)) : data(given), free(free_given) {}
  ~User() {
    if (free == nullptr) return;
    try {
      free(data);
    } catch (...) {  // of a host in C++; nobody is there to be told
    }
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;

  void* const data;
  void (*const free)(void*);
};

// Throws for a callback that has failed: what its last call of this interface threw, or its
// message.
[[noreturn]] void throw_for(moonlet_status status);

// Calls a function of the host, which returns a status.
template <class Ask>
void ask_host(Ask&& ask) {
  LastError& error = last_error();
  error.status = MOONLET_OK;
  error.exception = nullptr;
  const moonlet_status status = ask();
  if (status != MOONLET_OK) throw_for(status);
}

}  // namespace moonlet::c
