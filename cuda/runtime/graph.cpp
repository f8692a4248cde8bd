// cuda/runtime/graph.cpp: a graph takes the work of a stream of its own. Memory that is made
// meanwhile is cut from segments of that stream, which nobody else uses, so replays find it as it
// was.
#include "cuda/runtime/graph.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/memory/allocator.h"
#include "cuda/memory/pinned.h"
#include "cuda/runtime/faults.h"
#include "cuda/runtime/fork.h"
#include "cuda/runtime/streams.h"
#include "tensor/runtime/execution.h"
#include "tensor/runtime/random_generator.h"

namespace moonlet::cuda {

namespace {

// The memory of graphs that follow one another: that of one stream, which the next pool gets.
struct Pool {
  int64_t id;
  int device;
  cudaStream_t stream = nullptr;
  // Of streams that join captures, those that stand for them in the allocator.
  std::map<cudaStream_t, cudaStream_t> forks;

  Pool(int64_t number, int index);
  ~Pool();
  cudaStream_t fork(cudaStream_t stream);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
};

// The pools that graphs hold.
struct Registry {
  std::mutex mutex;
  std::map<int64_t, std::weak_ptr<Pool>> pools;
  std::atomic<int64_t> last_pool{0};
};
Registry& registry() {
  static Registry& it = *new Registry;
  return it;
}

// Streams that no pool uses, by device.
struct FreeStreams {
  std::mutex mutex;
  std::multimap<int, cudaStream_t> list;
};
FreeStreams& free_streams() {
  static FreeStreams& it = *new FreeStreams;
  return it;
}

// One that no pool uses, whose memory is held from now on.
cudaStream_t take_stream(int device, const char* op) {
  cudaStream_t stream = nullptr;
  {
    const std::lock_guard lock(free_streams().mutex);
    const auto found = free_streams().list.find(device);
    if (found != free_streams().list.end()) {
      stream = found->second;
      free_streams().list.erase(found);
    }
  }
  const DeviceGuard guard(device, op);
  if (stream == nullptr) ensure(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), op);
  caching_allocator().hold(device, stream, true);
  return stream;
}

void give_stream_back(int device, cudaStream_t stream) {
  caching_allocator().hold(device, stream, false);
  const std::lock_guard lock(free_streams().mutex);
  free_streams().list.emplace(device, stream);
}

Pool::Pool(int64_t number, int index)
    : id(number), device(index), stream(take_stream(index, "capture_begin")) {}

Pool::~Pool() {
  give_stream_back(device, stream);
  for (const auto& [joined, memory] : forks) give_stream_back(device, memory);
}

cudaStream_t Pool::fork(cudaStream_t joining) {
  const auto [found, made] = forks.try_emplace(joining);
  if (made) try {
      found->second = take_stream(device, "wait");
    } catch (...) {
      forks.erase(found);
      throw;
    }
  return found->second;
}

std::shared_ptr<Pool> pool_of(int64_t id, int device) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Pool>& known = all.pools[id];
  std::shared_ptr<Pool> pool = known.lock();
  if (!pool) {
    pool = std::make_shared<Pool>(id, device);
    known = pool;
  }
  check(pool->device == device, "capture_begin: the pool is on cuda:", pool->device,
        ", the capture on cuda:", device);
  return pool;
}

class Graph : public DeviceGraph {
 public:
  ~Graph() override {
    abandon();
    try {
      reset();
    } catch (const std::exception&) {
      cudaGetLastError();  // of a device that is lost
    }
  }
  void begin(int device, int64_t pool) override;
  void end() override;
  void abandon() noexcept override;
  void replay() override;
  void reset() override;
  int64_t pool() override {
    check(pool_ != nullptr, "pool: the graph holds no capture");
    return pool_->id;
  }

  // Work of another stream is a part of the capture from now on.
  void join(cudaStream_t stream, int device) {
    check(device == pool_->device, "wait: a stream of cuda:", device,
          " cannot join the capture of a CUDA graph on cuda:", pool_->device);
    add_to_capture(stream, device, pool_->fork(stream), *this);
  }

  // Bytes that replays copy from.
  void* keep(const void* from, size_t bytes) {
    void* kept = pin_memory(bytes);
    kept_.push_back({kept, bytes});
    std::memcpy(kept, from, bytes);
    return kept;
  }
  const Redraw* redraw(const char* op, const Philox& numbers);

 private:
  struct Kept {
    void* data;
    size_t bytes;
  };
  cudaGraph_t stop_capture(cudaError_t* error) noexcept;
  void unregister() noexcept;
  void note_replayed(const char* op);

  std::shared_ptr<Pool> pool_;
  bool capturing_ = false;
  std::optional<StreamGuard> guard_;
  Generator* generator_ = nullptr;  // while capturing
  Philox start_, seen_;             // of the generator: at the start, after the last draw
  uint64_t drawn_ = 0;              // by one replay
  Redraw* redraw_ = nullptr;        // in the device's memory
  std::vector<Kept> kept_;
  cudaGraphExec_t exec_ = nullptr;
  cudaStream_t used_ = nullptr;     // that of the last replay
  cudaEvent_t replayed_ = nullptr;  // its end, where replays draw numbers
};

void Graph::begin(int device, int64_t pool) {
  constexpr const char* op = "capture_begin";
  check(!capturing_, op, ": this graph is being captured already");
  check(exec_ == nullptr, op, ": this graph holds a capture; reset() gives it up");
  check(!is_captured(current_stream(device)), op, ": another capture is under way");
  reset();
  const DeviceGuard device_guard(device, op);
  // What is made at first use cannot be made during a capture.
  reporter(device, op, Fault::Condition);
  const Call warm(empty_plain({1}, {DType::Float32, device_of(device)}, op), op);
  warm.blas();
  pool_ = pool_of(pool == 0 ? new_graph_pool() : pool, device);
  check(!is_captured(pool_->stream), op, ": another capture uses this pool");
  void* redraw = nullptr;
  ensure(cudaMalloc(&redraw, sizeof(Redraw)), op);
  redraw_ = static_cast<Redraw*>(redraw);
  generator_ = &default_generator();
  start_ = seen_ = generator_->state();
  guard_.emplace(streams().external(pool_->stream, device));
  add_to_capture(pool_->stream, device, pool_->stream, *this);
  capturing_ = true;
  const cudaError_t error = cudaStreamBeginCapture(pool_->stream, cudaStreamCaptureModeRelaxed);
  if (error == cudaSuccess) return;
  unregister();
  ensure(error, op);
}

// Work goes where it went before.
void Graph::unregister() noexcept {
  end_capture(*this);
  guard_.reset();
  capturing_ = false;
}

// Nothing that was captured has been drawn yet.
cudaGraph_t Graph::stop_capture(cudaError_t* error) noexcept {
  cudaGraph_t graph = nullptr;
  *error = cudaStreamEndCapture(pool_->stream, &graph);
  cudaGetLastError();
  // A call that failed may have left the stream in its capture, which the next user would meet.
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (*error != cudaSuccess && (cudaStreamIsCapturing(pool_->stream, &status) != cudaSuccess ||
                                status != cudaStreamCaptureStatusNone)) {
    cudaGraph_t given_up = nullptr;
    if (cudaStreamEndCapture(pool_->stream, &given_up) == cudaSuccess) cudaGraphDestroy(given_up);
    cudaGetLastError();
  }
  unregister();
  return graph;
}

void Graph::end() {
  constexpr const char* op = "capture_end";
  check(capturing_, op, ": no capture of this graph is under way");
  check(generator_ == &default_generator(), op, ": the capture began in another interpreter");
  const DeviceGuard device_guard(pool_->device, op);
  const Philox now = generator_->state();
  const bool reseeded = now.seed != start_.seed || now.offset < start_.offset;
  generator_->set_state(start_);
  cudaError_t error = cudaSuccess;
  cudaGraph_t graph = stop_capture(&error);
  if (error == cudaSuccess && reseeded) {
    cudaGraphDestroy(graph);
    reset();
    fail(op, ": the default generator was seeded during the capture, which replays cannot do");
  }
  if (error == cudaSuccess) {
    error = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
  }
  if (error != cudaSuccess) {
    exec_ = nullptr;
    reset();
    ensure(error, op);
  }
  drawn_ = now.offset - start_.offset;
}

void Graph::abandon() noexcept {
  if (!capturing_) return;
  if (generator_ == execution.generator) generator_->set_state(start_);
  cudaError_t error = cudaSuccess;
  if (cudaGraph_t graph = stop_capture(&error)) cudaGraphDestroy(graph);
  cudaGetLastError();
  try {
    reset();
  } catch (const std::exception&) {
    cudaGetLastError();
  }
}

void Graph::replay() {
  constexpr const char* op = "replay";
  check(!capturing_, op, ": the capture has not ended");
  check(exec_ != nullptr, op, ": the graph holds no capture");
  const DeviceGuard device_guard(pool_->device, op);
  const cudaStream_t stream = current_stream(pool_->device);
  refuse_in_capture(stream, op, "the replay of another graph");
  Generator& generator = default_generator();
  if (drawn_ > 0) {
    // What the last replay draws with must not change while it runs in another stream.
    if (replayed_ != nullptr && used_ != stream)
      ensure(cudaStreamWaitEvent(stream, replayed_, 0), op);
    const Philox now = generator.state();
    // Unsigned: what is before the start of the capture wraps around, and back again.
    const Redraw add{now.seed, now.offset - start_.offset};
    ensure(cudaMemcpyAsync(redraw_, &add, sizeof add, cudaMemcpyHostToDevice, stream), op);
    generator.set_state({now.seed, now.offset + drawn_});
  }
  ensure(cudaGraphLaunch(exec_, stream), op);
  used_ = stream;
  if (drawn_ > 0) note_replayed(op);
  if (waits_for_kernels()) wait_for(stream, pool_->device, op);
}

// Without an event the replay is waited for.
void Graph::note_replayed(const char* op) {
  cudaError_t error = cudaSuccess;
  if (replayed_ == nullptr) error = cudaEventCreateWithFlags(&replayed_, cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventRecord(replayed_, used_);
  if (error == cudaSuccess) return;
  cudaGetLastError();
  count_wait();
  ensure(cudaStreamSynchronize(used_), op);
}

// The last replay may be using what the graph holds: it is waited for.
void Graph::reset() {
  check(!capturing_, "reset: the capture has not ended");
  if (!pool_) return;
  const DeviceGuard device_guard(pool_->device, "reset");
  if (exec_ != nullptr) {
    count_wait();
    cudaStreamSynchronize(used_);
    cudaGraphExecDestroy(exec_);
  }
  exec_ = nullptr;
  if (replayed_ != nullptr) cudaEventDestroy(replayed_);
  replayed_ = nullptr;
  if (redraw_ != nullptr) cudaFree(redraw_);
  redraw_ = nullptr;
  cudaGetLastError();
  for (const Kept& kept : kept_) unpin_memory(kept.data, kept.bytes);
  kept_.clear();
  pool_.reset();
  drawn_ = 0;
}

const Redraw* Graph::redraw(const char* op, const Philox& numbers) {
  const Philox now = generator_->state();
  const bool is_default =
      numbers.seed == now.seed && numbers.offset >= seen_.offset && numbers.offset < now.offset;
  check(is_default, op,
        ": numbers of another generator than the default one cannot be captured in a CUDA graph");
  seen_ = now;
  return redraw_;
}

}  // namespace

std::unique_ptr<DeviceGraph> new_graph() { return std::make_unique<Graph>(); }

int64_t new_graph_pool() noexcept { return ++registry().last_pool; }

namespace {
// Only graphs of this file capture.
Graph* graph_of(cudaStream_t stream) noexcept { return static_cast<Graph*>(capture_of(stream)); }
}  // namespace

void join_capture(cudaStream_t stream, int device, DeviceGraph& graph) {
  static_cast<Graph&>(graph).join(stream, device);
}

void upload(const Call& call, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (Graph* graph = graph_of(call.stream())) from = graph->keep(from, bytes);
  ensure(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, call.stream()), call.op());
}

DeviceRandom device_random(const Call& call, const Philox& numbers) {
  Graph* graph = graph_of(call.stream());
  return {numbers, graph ? graph->redraw(call.op(), numbers) : nullptr};
}

}  // namespace moonlet::cuda
