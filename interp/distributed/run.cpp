// interp/distributed/run.cpp: this process as a rank, and what it hears of the others.
#include "interp/distributed/run.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "interp/distributed/group.h"

namespace moonlet::distributed {
namespace {

constexpr std::chrono::milliseconds kBeat{150};
// A call that fails since a rank has ended may know it before the store does; and the store's
// answer to what the others do is waited for as long.
constexpr std::chrono::milliseconds kHearing{700};
// How long a rank that has done its part stays for the others, and one that has failed.
constexpr double kFarewellSeconds = 1, kFailureSeconds = 3;

bool is_member(const std::vector<int>& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

bool has_failed(const Peer& peer) { return peer.end != End::None && peer.end != End::Left; }

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

std::string text_of(const Peer& peer, double timeout) {
  const std::string rank = "rank " + std::to_string(peer.rank);
  switch (peer.end) {
    case End::Left: return rank + " has left: its script or process group has ended";
    case End::Failed: return rank + " has failed: " + peer.text;
    case End::Silent:
      return rank + " has been silent for " + seconds_text(timeout) +
             ": its process is stopped, or its machine or network is gone" +
             (peer.doing.empty() ? "" : " (it was in " + peer.doing + ")");
    default: return rank + " has died: its process has ended without a word";
  }
}

}  // namespace

RankRun::RankRun(const Endpoint& endpoint, const std::string& run, int rank, int size,
                 double timeout, bool keeps_store, const Tick& tick)
    : run_(run),
      rank_(rank),
      timeout_(timeout),
      keeps_store_(keeps_store),
      client_(endpoint, timeout, tick),
      watcher_(endpoint, timeout, tick) {
  watcher_.register_rank(run, rank, size, timeout, tick);
  thread_ = std::thread([this] { beat(); });
}

RankRun::~RankRun() {
  leave(false, "");
  thread_.join();
}

void RankRun::leave(bool failed, const std::string& reason) noexcept {
  if (left_.exchange(true)) return;
  if (failed) note_failure();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    if (!lost_.empty()) return;
  }
  news_.notify_all();
  try {
    watcher_.leave(failed, reason, 2);
    if (!failed || keeps_store_ || kFailureEndsOthers) wait_for_others(failed);
  } catch (const std::exception&) {
    // The store is gone, or this rank is: nobody is left to tell.
  }
}

// What this rank has sent may still be on its way, and who keeps the store is needed to the end.
void RankRun::wait_for_others(bool failed) {
  const Clock::time_point until = after(failed         ? kFailureSeconds
                                        : keeps_store_ ? timeout_
                                                       : kFarewellSeconds);
  while (Clock::now() < until) {
    const std::vector<Peer> peers = watcher_.peers(run_, kAnswerSeconds, {});
    if (std::all_of(peers.begin(), peers.end(),
                    [](const Peer& peer) { return peer.end != End::None || peer.age < 0; }))
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void RankRun::doing(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  doing_ = what;
}

void RankRun::beat() {
  std::string doing;
  for (;;) {
    try {
      std::vector<Peer> gone = watcher_.beat(doing, timeout_);
      hear(std::move(gone));
    } catch (const std::exception& e) {
      lose(e.what());
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    news_.wait_for(lock, kBeat, [this] { return ending_; });
    if (ending_) return;
    doing = doing_;
  }
}

// Aborting wakes who waits in a group, which then asks here, but waits for nobody itself.
void RankRun::hear(std::vector<Peer> gone) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (gone.size() == gone_.size()) return;
    gone_ = std::move(gone);
    for (RankGroup* const group : groups_) {
      const std::string reason = reason_of(group->members(), false);
      if (!reason.empty())
        group->abort(reason);
      else if (!reason_of(group->members(), true).empty())
        group->note_left();
    }
    for (const Watcher& watcher : watchers_) {
      const std::string reason = reason_of(watcher.members, false);
      if (!reason.empty()) watcher.ended(reason);
    }
  }
  news_.notify_all();
}

void RankRun::lose(const std::string& reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) return;
    lost_ =
        reason +
        " (rank 0 or the launcher keeps it, and has ended or is stopped, or the network is gone)";
    for (RankGroup* const group : groups_) group->abort(lost_);
    for (const Watcher& watcher : watchers_) watcher.ended(lost_);
  }
  news_.notify_all();
}

// The first of the members that has failed, or, where none has, has left. With the lock held.
std::string RankRun::reason_of(const std::vector<int>& members, bool with_left) const {
  for (const Peer& peer : gone_)
    if (has_failed(peer) && is_member(members, peer.rank)) return text_of(peer, timeout_);
  if (!lost_.empty() || !with_left) return lost_;
  for (const Peer& peer : gone_)
    if (is_member(members, peer.rank)) return text_of(peer, timeout_);
  return "";
}

std::string RankRun::explain(const std::vector<int>& members, const std::string& call,
                             bool timed_out, double timeout, const std::string& error) {
  if (timed_out) {
    doing(call + ", given up after " + seconds_text(timeout));
  } else {
    std::unique_lock<std::mutex> lock(mutex_);
    news_.wait_for(lock, kHearing, [&] { return !reason_of(members, false).empty() || ending_; });
  }
  std::string out = timed_out ? "it is not done after " + seconds_text(timeout) : error;
  bool left = false;
  std::string problem, activities;
  try {
    for (const Peer& peer : client_.peers(run_, kHearing.count() * 1e-3, {})) {
      if (peer.rank == rank_ || !is_member(members, peer.rank)) continue;
      if (has_failed(peer)) return text_of(peer, timeout_);
      if (peer.end == End::Left && !timed_out && !std::exchange(left, true))
        out = text_of(peer, timeout_);
      activities += activity(peer);
    }
  } catch (const std::exception& e) {
    problem = std::string("; ") + e.what();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string reason = reason_of(members, false);
  return reason.empty() ? out + activities + problem : reason;
}

// What another rank does, or did when it was last heard of.
std::string RankRun::activity(const Peer& peer) const {
  const std::string rank = "; rank " + std::to_string(peer.rank);
  if (peer.end == End::Left)
    return rank + " has ended" + (peer.doing.empty() ? "" : "; it was in " + peer.doing);
  std::string out = rank + (peer.doing.empty() ? " is in no collective" : " is in " + peer.doing);
  if (peer.age > 1)
    out += " and has been silent for " + seconds_text(peer.age) +
           ": its process is stopped, or its machine or network is gone";
  return out;
}

void RankRun::forget(const RankGroup* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.erase(std::remove(groups_.begin(), groups_.end(), group), groups_.end());
}

std::shared_ptr<void> RankRun::watch(std::vector<int> members,
                                     std::function<void(const std::string&)> ended) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string reason = reason_of(members, true);
  if (!reason.empty()) ended(reason);
  const auto at = watchers_.insert(watchers_.end(), Watcher{std::move(members), std::move(ended)});
  return {this, [self = shared_from_this(), at](RankRun*) {
            const std::lock_guard<std::mutex> held(self->mutex_);
            self->watchers_.erase(at);
          }};
}

std::shared_ptr<Group> RankRun::group(const std::string& name, std::vector<int> members,
                                      int position, double timeout,
                                      std::shared_ptr<Work>& connected) {
  auto group = std::make_shared<RankGroup>(shared_from_this(), run_ + "/" + name,
                                           std::move(members), position, timeout);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    groups_.push_back(group.get());
    const std::string reason = reason_of(group->members(), true);
    if (!reason.empty()) group->abort(reason);
  }
  connected = group->connect();
  return group;
}

}  // namespace moonlet::distributed
