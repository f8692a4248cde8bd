// cuda/emulated/queue.h: work that runs later than it is issued: with MOONLET_EMULATED_STREAMS=SEED
// in the environment each stream is a queue, and which stream goes on is drawn at random wherever
// neither events nor the legacy default stream's rules nor the host's waiting says it. So a missing
// wait shows as a wrong answer for some seed. Without it work runs when it is issued.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime_api.h"

namespace moonlet::emulated {

/// Whether streams are queues.
bool runs_later();

/// One piece of work, which has run or will.
struct Work;
using WorkRef = std::shared_ptr<Work>;

/// Puts `run` at the end of a stream; it runs with its device current. Without queues it runs now.
/// That of a stream that is being captured becomes a part of the graph.
WorkRef enqueue(cudaStream_t stream, std::function<void()> run);

/// Makes what is put into `stream` from now on run after `work`, which may be null.
void enqueue_wait(cudaStream_t stream, const WorkRef& work);

/// A position in a capture: what comes after the last work of a stream that is captured.
struct Capture;
struct CapturePosition {
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> after;  // pieces of the graph
};

/// Where a stream that is captured is in its capture; no capture for others.
CapturePosition position_of(cudaStream_t stream);

/// Lets a stream wait for a position, by which it joins the capture. With no capture in it, for
/// what was recorded outside: what a stream that is captured cannot wait for.
cudaError_t wait_for_position(cudaStream_t stream, const CapturePosition& position);

/// The host asks for the moment of an event that is a position in a capture: it has none, and the
/// capture ends in an error. Returns that of the call.
cudaError_t ask_of_position(const CapturePosition& position);

/// Whether a stream is being captured (graph.cpp), or one of a device.
bool is_captured(cudaStream_t stream);
bool is_captured_on(int device);

/// Keeps `run` for the graph of a stream that is being captured; false for others.
bool record(cudaStream_t stream, std::function<void()>& run);

/// What happens cannot be captured: the capture of the stream ends in an error. Returns that of
/// the call.
cudaError_t break_capture(cudaStream_t stream);

/// The last work of a stream, or null.
WorkRef last_of(cudaStream_t stream);

/// Whether it has run, now that some more has: null has.
bool look_at(const WorkRef& work);

/// Whether it has run.
bool has_run(const WorkRef& work);

/// Runs what must run before `work`, itself, and by chance other work. Nothing for null.
void run_until(const WorkRef& work);

/// Runs all work of a device; of all devices when it is negative.
void run_all(int device);

/// Forgets all work of a device that was reset.
void drop_all(int device);

/// Forgets a stream, which has no work left.
void forget(cudaStream_t stream);

/// A number below `below` from the seed of the streams; 0 where work runs when it is issued.
std::size_t draw_below(std::size_t below);

/// Offered by streams.cpp: whether the stream ignores the legacy default stream, and its device; by
/// runtime.cpp: makes a device current without a look at its state.
bool is_non_blocking(cudaStream_t stream);
int device_of(cudaStream_t stream);
void put_device(int device);

}  // namespace moonlet::emulated
