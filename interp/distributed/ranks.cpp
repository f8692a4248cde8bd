// interp/distributed/ranks.cpp: what a store knows of the ranks of its runs.
#include "interp/distributed/ranks.h"

#include <utility>

namespace moonlet::distributed {
namespace {

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

Ranks::RunRecord* Ranks::find(std::string_view run) {
  const auto found = runs_.find(run);
  return found != runs_.end() ? &found->second : nullptr;
}

const Ranks::RunRecord* Ranks::find(std::string_view run) const {
  const auto found = runs_.find(run);
  return found != runs_.end() ? &found->second : nullptr;
}

std::string Ranks::add(const std::string& run, int rank, int size, double limit) {
  RunRecord& record = runs_[run];
  if (record.size == 0) record.size = size;
  const std::string self = "rank " + std::to_string(rank);
  if (record.size != size)
    return self + " says that world_size is " + std::to_string(size) + ", others say " +
           std::to_string(record.size);
  if (record.known.count(rank) != 0)
    return "there is a " + self +
           " already: each process needs a rank of its own, and each run a "
           "port or file of its own";
  record.known[rank] = Known{"", Clock::now(), limit};
  return "";
}

void Ranks::hear(const std::string& run, int rank, std::string doing) {
  RunRecord* const record = find(run);
  if (record == nullptr) return;
  Known& known = record->known[rank];
  known.doing = std::move(doing);
  known.heard = Clock::now();
}

void Ranks::end(const std::string& run, int rank, End how, std::string text) {
  RunRecord* const record = find(run);
  if (record == nullptr || record->known[rank].ended) return;
  Known& known = record->known[rank];
  known.ended = true;
  record->gone.push_back({rank, how, std::move(text), known.doing, 0});
}

void Ranks::look_for_silence() {
  for (auto& [run, record] : runs_)
    for (auto& [rank, known] : record.known)
      if (!known.ended && seconds_since(known.heard) > known.limit) end(run, rank, End::Silent, "");
}

bool Ranks::any_left() const {
  for (const auto& [run, record] : runs_)
    for (const auto& [rank, known] : record.known)
      if (!known.ended) return true;
  return false;
}

std::vector<Peer> Ranks::gone(std::string_view run) const {
  const RunRecord* const record = find(run);
  return record != nullptr ? record->gone : std::vector<Peer>();
}

std::vector<Peer> Ranks::all(std::string_view run) const {
  const RunRecord* const record = find(run);
  if (record == nullptr) return {};
  std::vector<Peer> out = record->gone;
  for (int rank = 0; rank < record->size; ++rank) {
    const auto found = record->known.find(rank);
    if (found == record->known.end())
      out.push_back({rank, End::None, "", "", -1});
    else if (!found->second.ended)
      out.push_back({rank, End::None, "", found->second.doing, seconds_since(found->second.heard)});
  }
  return out;
}

}  // namespace moonlet::distributed
