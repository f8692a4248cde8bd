// interp/distributed/transport.h: what carries the bytes of a group of ranks: the collectives that
// each library has of its own, and those that are made of exchanges of parts.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

class RankRun;

// Where a group meets, and who is in it.
struct Meeting {
  RankRun& run;
  std::string name;  // of keys of the store
  std::vector<int> members;
  int position = 0;
  double timeout = 0;
};

// Bytes of a buffer that go to a rank, or come from it.
struct Part {
  size_t offset = 0, bytes = 0;
};

// What ranks are told as it is: they call different collectives.
struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Elements one behind the other as bytes; and split over ranks as evenly as can be.
std::vector<Part> parts_of(const std::vector<size_t>& counts, size_t bytes);
std::vector<size_t> shares(size_t count, size_t size);

class Transport {
 public:
  explicit Transport(const Meeting& meeting)
      : rank_(meeting.position), size_(static_cast<int>(meeting.members.size())) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Connects all ranks of the group. What it throws ends the group; text with "Timed out" says
  // that time is over.
  virtual void connect(const Tick& tick) = 0;
  // Runs a collective to its end, for one thread at a time; then a send or receive of any thread,
  // which gives who it came from.
  void run(const Call& call);
  virtual int transfer(const Call& call) = 0;
  // What goes on fails soon.
  virtual void interrupt() noexcept = 0;
  // A rank of the group has left. It may have done its part of what goes on, which a library that
  // does not see its connections end then has to find out.
  virtual void note_left() noexcept {}

 protected:
  // Throws Disagreement where calls can meet that are not the same.
  virtual void agree(const Call&) {}
  // Sends each rank a part of `in`, and receives a part of `out` from each.
  virtual void exchange(const Call& call, uint32_t tag, const char* in,
                        const std::vector<Part>& sent, char* out,
                        const std::vector<Part>& received) = 0;
  // Of at least one element; sums in any order that is the same on all ranks.
  virtual void all_reduce(const Call& call) = 0;
  // In the order of ranks; narrow floats in float32. Unless a library has better these are made of
  // exchanges.
  virtual void all_reduce_in_order(const Call& call);
  virtual void reduce(const Call& call);
  // `counts` elements of each rank, this one's into `out`.
  virtual void reduce_scatter(const Call& call, const std::vector<size_t>& counts, char* out);
  virtual void broadcast(const Call& call) = 0;
  virtual void all_gather(const Call& call) = 0;
  virtual void barrier(const Call& call) = 0;

  const int rank_, size_;
  // Memory of the collective that runs.
  std::vector<std::shared_ptr<const void>> scratch_;

 private:
  char* scratch(size_t bytes);
  void exchange_all(const Call& call);
};

// The library that this plugin is built with has these.
std::unique_ptr<Transport> make_transport(Meeting meeting);
// A rank that fails stays for a moment, since its end makes the launcher end the others at once.
extern const bool kFailureEndsOthers;
// This process has failed as a rank: what the library does at its end with the other ranks is left
// out.
void note_failure() noexcept;

}  // namespace moonlet::distributed
