// interp/distributed/group.h: a group of ranks: its collectives run one after the other on a
// thread, what is sent from one rank to another on threads of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interp/distributed/engine.h"
#include "interp/distributed/run.h"
#include "interp/distributed/transport.h"

namespace moonlet::distributed {

class GroupWork final : public Work {
 public:
  explicit GroupWork(Call call) : call(std::move(call)) {}
  bool wait(double seconds) override;
  std::string error() const override;
  int source() const override { return source_; }
  double began() const override { return began_.load(); }
  double ended() const override { return ended_at_.load(); }

  // Its turn on the thread has come.
  void begin();
  void finish(std::string error, int source = -1);
  bool finished() const;
  const Call call;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::string error_;
  int source_ = -1;
  std::atomic<double> began_{0}, ended_at_{0};
};

class RankGroup final : public Group {
 public:
  RankGroup(std::shared_ptr<RankRun> run, const std::string& name, std::vector<int> members,
            int position, double timeout);
  ~RankGroup() override;

  std::shared_ptr<Work> connect();
  std::shared_ptr<Work> start(Call call) override;
  void abort(const std::string& reason) noexcept override;
  const std::vector<int>& members() const { return members_; }
  void note_left() noexcept { transport_->note_left(); }

 private:
  struct Job {
    std::shared_ptr<GroupWork> work;
    std::function<void()> run;
  };
  void serve();
  void run_job(Job& job);
  void connect_all();
  void start_transfer(const std::shared_ptr<GroupWork>& work);
  std::string failure(const Call& call, const std::exception& e);
  std::string aborted();

  // The run outlives its groups.
  const std::shared_ptr<RankRun> run_;
  const std::vector<int> members_;
  const double timeout_;
  const std::unique_ptr<Transport> transport_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::string abort_reason_;
  bool ending_ = false;
  // Transfers of one rank to another, with their threads.
  struct Transfer {
    std::shared_ptr<GroupWork> work;
    std::thread thread;
  };
  std::list<Transfer> transfers_;
  std::thread thread_;
};

}  // namespace moonlet::distributed
