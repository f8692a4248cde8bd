// interp/distributed/ranks.h: what a store knows of the ranks of its runs: who lives, who has ended
// and how, and what each does.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interp/distributed/engine.h"
#include "interp/distributed/sockets.h"

namespace moonlet::distributed {

class Ranks {
 public:
  // Why a rank cannot be added; empty where it is.
  std::string add(const std::string& run, int rank, int size, double limit);
  void hear(const std::string& run, int rank, std::string doing);
  void end(const std::string& run, int rank, End how, std::string text);
  // Ends those that have been silent for longer than their limits.
  void look_for_silence();

  // Who has ended, the first one first; and all, these in front, those that are still to come with
  // an age below 0.
  // Whether a rank of any run has come and not ended.
  bool any_left() const;
  std::vector<Peer> gone(std::string_view run) const;
  std::vector<Peer> all(std::string_view run) const;
  bool empty() const { return runs_.empty(); }

 private:
  struct Known {
    std::string doing;
    Clock::time_point heard;
    double limit = 0;
    bool ended = false;
  };
  struct RunRecord {
    int size = 0;
    std::map<int, Known> known;
    std::vector<Peer> gone;
  };
  RunRecord* find(std::string_view run);
  const RunRecord* find(std::string_view run) const;
  std::map<std::string, RunRecord, std::less<>> runs_;
};

}  // namespace moonlet::distributed
