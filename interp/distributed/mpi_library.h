// interp/distributed/mpi_library.h: MPI as this process has it: its start, its end, and the data
// types and reductions of its calls. MPI is called by one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <mpi.h>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

// Throws what MPI says of a call that has failed.
void check_mpi(int result, const char* call);

class MpiLibrary {
 public:
  // Started at the first use, which the launcher must have made this process for; throws else.
  static MpiLibrary& get();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // To be held while MPI is called.
  std::mutex& mutex() { return mutex_; }
  // Whether calls of several threads may go on at once, such as one that waits.
  bool is_concurrent() const { return concurrent_; }
  // Tags are from 0 to this.
  int greatest_tag() const { return greatest_tag_; }
  // A type of the bytes of an element, and what reduces elements of such types. Made once.
  MPI_Datatype type_of(DType dtype) const;
  MPI_Op reduction(Reduction reduction) const;

  // With the mutex held. Memory of calls that are given up, which MPI may read and write to the end
  // of the process.
  void abandon(std::shared_ptr<const void> memory);
  // A call begins, or has ended: MPI is ended in order where none goes on.
  void begin_call();
  void end_call() { --pending_; }
  // Whether MPI can still be called.
  bool has_ended() const { return ended_; }

 private:
  MpiLibrary();
  static void end() noexcept;
  int rank_ = 0, size_ = 0, greatest_tag_ = 0;
  bool concurrent_ = false;
  std::mutex mutex_;
  // The rest with the mutex held.
  int pending_ = 0;
  bool ended_ = false;
  std::vector<std::shared_ptr<const void>> abandoned_;
};

}  // namespace moonlet::distributed
