// cuda/emulated/queue.cpp: the queues of streams, what each piece of work comes after, and the draw
// of what runs next.
#include "queue.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "state.h"

namespace moonlet::emulated {

struct Work {
  std::function<void()> run;
  std::vector<WorkRef> after;  // until it has run
  int device = 0;
  bool done = false;
};

namespace {

struct Line {
  bool blocking = true;
  std::deque<WorkRef> waiting;
  WorkRef last;
};

/// By device and stream.
using Lines = std::map<std::pair<int, cudaStream_t>, Line>;
/// To which the draw is restricted.
using Chosen = std::set<const Work*>;

/// The state of all queues. Work runs under the lock, so one piece at a time.
class Queues {
 public:
  explicit Queues(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {}

  WorkRef add(cudaStream_t stream, std::function<void()> run, const WorkRef& awaited = nullptr);
  WorkRef last(cudaStream_t stream);
  bool look_at(const WorkRef& work);
  bool has_run(const WorkRef& work) {
    const std::lock_guard lock(mutex_);
    return !work || work->done;
  }
  void run_until(const WorkRef& work);
  void run_all(int device);
  void drop_all(int device);
  void forget(cudaStream_t stream);
  /// By work, which holds the lock, as all that draws does.
  std::uint64_t draw_in_work(std::uint64_t below) { return draw(below); }

 private:
  std::uint64_t draw(std::uint64_t below) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ >> 11) % below;
  }
  Line& line_of(int device, cudaStream_t stream);
  bool run_one(const Chosen* chosen);
  void run_some(std::uint64_t most) {
    for (std::uint64_t left = draw(most + 1); left > 0 && run_one(nullptr); --left) {
    }
  }
  static Chosen needed_by(const WorkRef& work);
  void run(Line& line);

  std::mutex mutex_;
  Lines lines_;
  std::uint64_t random_;
};

/// The legacy default stream of a device is a line of its own; that of a thread is one too.
cudaStream_t plain(cudaStream_t stream) { return stream == cudaStreamLegacy ? nullptr : stream; }

Line& Queues::line_of(int device, cudaStream_t stream) {
  const auto [found, made] = lines_.try_emplace({device, plain(stream)});
  if (made && plain(stream)) found->second.blocking = !is_non_blocking(stream);
  return found->second;
}

WorkRef Queues::add(cudaStream_t stream, std::function<void()> run, const WorkRef& awaited) {
  const int device = device_of(stream);
  const std::lock_guard lock(mutex_);
  auto work = std::make_shared<Work>();
  work->run = std::move(run);
  work->device = device;
  Line& line = line_of(device, stream);
  const auto come_after = [&](const WorkRef& other) {
    if (other && !other->done) work->after.push_back(other);
  };
  come_after(line.last);
  come_after(awaited);
  // Blocking streams and the legacy one wait for each other.
  if (plain(stream) == nullptr) {
    for (auto& [key, other] : lines_)
      if (key.first == device && key.second && other.blocking) come_after(other.last);
  } else if (line.blocking) {
    come_after(line_of(device, nullptr).last);
  }
  line.waiting.push_back(work);
  line.last = work;
  // The device works while the host goes on.
  if (draw(8) == 0) run_some(64);
  return work;
}

WorkRef Queues::last(cudaStream_t stream) {
  const int device = device_of(stream);
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find({device, plain(stream)});
  return found == lines_.end() ? nullptr : found->second.last;
}

/// Runs the first work of a line.
void Queues::run(Line& line) {
  const WorkRef work = std::move(line.waiting.front());
  line.waiting.pop_front();
  const int before = current_device();
  put_device(work->device);
  // A device that has failed does nothing more.
  if (!device_error()) work->run();
  put_device(before);
  work->done = true;
  work->run = nullptr;
  work->after.clear();
}

/// Runs the first work of a line that is drawn among those that can go on; false when there is
/// none.
bool Queues::run_one(const Chosen* chosen) {
  std::vector<Line*> ready;
  for (auto& [key, line] : lines_) {
    if (line.waiting.empty()) continue;
    Work& first = *line.waiting.front();
    if (chosen && !chosen->count(&first)) continue;
    if (std::all_of(first.after.begin(), first.after.end(),
                    [](const WorkRef& other) { return other->done; }))
      ready.push_back(&line);
  }
  if (ready.empty()) return false;
  run(*ready[draw(ready.size())]);
  return true;
}

/// The work and all that comes before it.
Chosen Queues::needed_by(const WorkRef& work) {
  Chosen out;
  std::vector<const Work*> open{work.get()};
  while (!open.empty()) {
    const Work* next = open.back();
    open.pop_back();
    if (next->done || !out.insert(next).second) continue;
    for (const WorkRef& other : next->after) open.push_back(other.get());
  }
  return out;
}

void Queues::run_until(const WorkRef& work) {
  const std::lock_guard lock(mutex_);
  if (!work || work->done) return;
  if (draw(2) == 0) run_some(64);
  const Chosen needed = needed_by(work);
  while (!work->done && run_one(&needed)) {
  }
}

bool Queues::look_at(const WorkRef& work) {
  const std::lock_guard lock(mutex_);
  if (!work || work->done) return true;
  // Who asks again and again must get there.
  const Chosen needed = needed_by(work);
  if (draw(2) == 0) run_some(16);
  run_one(&needed);
  return work->done;
}

void Queues::run_all(int device) {
  const std::lock_guard lock(mutex_);
  const auto has_work = [&] {
    return std::any_of(lines_.begin(), lines_.end(), [&](const auto& entry) {
      return (device < 0 || entry.first.first == device) && !entry.second.waiting.empty();
    });
  };
  while (has_work() && run_one(nullptr)) {
  }
}

void Queues::drop_all(int device) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, line] : lines_) {
    if (key.first != device) continue;
    for (const WorkRef& work : line.waiting) {
      work->done = true;
      work->run = nullptr;
    }
    line.waiting.clear();
  }
}

void Queues::forget(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  std::erase_if(lines_, [&](const auto& entry) { return entry.first.second == stream; });
}

/// Null without queues; never destroyed, as what it holds may outlive everything else.
Queues* queues() {
  static Queues* const it = [] {
    const char* text = std::getenv("MOONLET_EMULATED_STREAMS");
    const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 0;
    return seed == 0 ? nullptr : new Queues(seed);
  }();
  return it;
}

}  // namespace

bool runs_later() { return queues() != nullptr; }

WorkRef enqueue(cudaStream_t stream, std::function<void()> run) {
  if (record(stream, run)) return nullptr;
  if (Queues* q = queues()) return q->add(stream, std::move(run));
  run();
  return nullptr;
}

void enqueue_wait(cudaStream_t stream, const WorkRef& work) {
  if (!has_run(work))
    queues()->add(
        stream, [] {}, work);
}

WorkRef last_of(cudaStream_t stream) {
  Queues* const q = queues();
  return q ? q->last(stream) : nullptr;
}

bool look_at(const WorkRef& work) {
  Queues* const q = queues();
  return !q || q->look_at(work);
}

bool has_run(const WorkRef& work) {
  Queues* const q = queues();
  return !q || q->has_run(work);
}

void run_until(const WorkRef& work) {
  if (Queues* q = queues()) q->run_until(work);
}

void run_all(int device) {
  if (Queues* q = queues()) q->run_all(device);
}

void drop_all(int device) {
  if (Queues* q = queues()) q->drop_all(device);
}

std::size_t draw_below(std::size_t below) {
  Queues* const q = queues();
  return q ? static_cast<std::size_t>(q->draw_in_work(below)) : 0;
}

void forget(cudaStream_t stream) {
  if (Queues* q = queues()) q->forget(stream);
}

}  // namespace moonlet::emulated
