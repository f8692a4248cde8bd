// interp/distributed/run.h: this process as a rank: the thread that tells the store that it lives,
// and what it has heard of the others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interp/distributed/engine.h"
#include "interp/distributed/sockets.h"
#include "interp/distributed/store_client.h"

namespace moonlet::distributed {

class RankGroup;

class RankRun final : public Run, public std::enable_shared_from_this<RankRun> {
 public:
  RankRun(const Endpoint& endpoint, const std::string& run, int rank, int size, double timeout,
          bool keeps_store, const Tick& tick);
  ~RankRun() override;

  Store& store() override { return client_; }
  std::shared_ptr<Group> group(const std::string& name, std::vector<int> members, int position,
                               double timeout, std::shared_ptr<Work>& connected) override;
  std::vector<Peer> peers(const Tick& tick) override {
    return client_.peers(run_, kAnswerSeconds, tick);
  }
  void leave(bool failed, const std::string& reason) noexcept override;
  std::shared_ptr<void> watch(std::vector<int> members,
                              std::function<void(const std::string&)> ended) override;
  // Of a group that ends: it is not aborted any more when this returns.
  void forget(const RankGroup* group);

  const Endpoint& endpoint() const { return client_.endpoint(); }
  std::string own_address() const { return client_.own_address(); }
  void doing(const std::string& what) override;
  std::string explain(const std::vector<int>& members, const std::string& call, bool timed_out,
                      double timeout, const std::string& error) override;

 private:
  void beat();
  void hear(std::vector<Peer> gone);
  void wait_for_others(bool failed);
  void lose(const std::string& reason);
  std::string activity(const Peer& peer) const;
  std::string reason_of(const std::vector<int>& members, bool with_left) const;

  const std::string run_;
  const int rank_;
  const double timeout_;
  const bool keeps_store_;
  StoreClient client_;   // of the script
  StoreClient watcher_;  // of the thread
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<Peer> gone_;
  std::string lost_;  // why the store is no longer heard
  std::string doing_;
  std::vector<RankGroup*> groups_;
  struct Watcher {
    std::vector<int> members;
    std::function<void(const std::string&)> ended;
  };
  std::list<Watcher> watchers_;
  bool ending_ = false;
  std::atomic<bool> left_{false};
  std::thread thread_;
};

}  // namespace moonlet::distributed
