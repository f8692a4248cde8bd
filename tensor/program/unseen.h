// tensor/program/unseen.h: what must know of work that ops do not show, such as a run of a program,
// where it is linked: a library of chosen ops has neither captures nor functions that run by parts,
// and is smaller by a twentieth without them.
#pragma once

namespace moonlet::program {

// Null where nothing of the kind is linked.
struct UnseenWork {
  void (*stop_capture)(const char* by, const char* reason) = nullptr;
  void (*run_deferred)() = nullptr;
};
extern constinit UnseenWork unseen_work;

}  // namespace moonlet::program
