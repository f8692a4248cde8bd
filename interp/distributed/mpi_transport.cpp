// interp/distributed/mpi_transport.cpp: groups of ranks over MPI: a communicator each, whose calls
// are those that do not wait, so that interrupts, timeouts and the end of ranks reach them.
#include "interp/distributed/transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "interp/distributed/mpi_library.h"
#include "interp/distributed/reduce.h"
#include "interp/distributed/run.h"

namespace moonlet::distributed {
namespace {

// Counts of MPI are of type int: what is larger goes in pieces.
constexpr size_t kPiece = size_t{1} << 30;
// Tags of exchanges; those of sends and receives come behind it.
constexpr int kExchangeTag = 0;
constexpr size_t kNameBytes = 256;
// What a rank has sent before it left comes within this.
constexpr double kLeftSeconds = 1;

// Bytes as one element of MPI, however many there are.
class Block {
 public:
  explicit Block(size_t bytes) {
    if (bytes <= kPiece) {
      check_mpi(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type_),
                "MPI_Type_contiguous");
    } else {
      MPI_Datatype piece = MPI_DATATYPE_NULL;
      check_mpi(MPI_Type_contiguous(static_cast<int>(kPiece), MPI_BYTE, &piece),
                "MPI_Type_contiguous");
      int lengths[] = {static_cast<int>(bytes / kPiece), static_cast<int>(bytes % kPiece)};
      MPI_Aint starts[] = {0, static_cast<MPI_Aint>(bytes - bytes % kPiece)};
      MPI_Datatype types[] = {piece, MPI_BYTE};
      check_mpi(MPI_Type_create_struct(2, lengths, starts, types, &type_),
                "MPI_Type_create_struct");
      check_mpi(MPI_Type_free(&piece), "MPI_Type_free");
    }
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  // What calls use already stays for them.
  ~Block() { MPI_Type_free(&type_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// MPI moves data while it is asked whether calls are done, some of it at a time. Where all ranks
// have come it is asked again and again; who waits for others rests more and more.
enum class Wait : uint8_t { ForData, ForRanks };
void pause(Wait what, int round) {
  constexpr int kEager = 200, kRestless = 16000, kBurst = 16;
  const bool rests = what == Wait::ForRanks && round >= kEager;
  if (!rests || (round < kRestless && round % kBurst != 0)) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(round < kRestless ? 50 : 500));
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(Meeting meeting);
  ~MpiTransport() override;
  void connect(const Tick& tick) override;
  int transfer(const Call& call) override;
  void interrupt() noexcept override { interrupted_ = true; }
  void note_left() noexcept override { someone_left_ = true; }

 protected:
  void agree(const Call& call) override;
  void exchange(const Call& call, uint32_t tag, const char* in, const std::vector<Part>& sent,
                char* out, const std::vector<Part>& received) override;
  void all_reduce(const Call& call) override;
  void broadcast(const Call& call) override;
  void all_gather(const Call& call) override;
  void barrier(const Call&) override {}  // that all agree needs all

 private:
  using Lock = std::unique_lock<std::mutex>;
  void meet(const Tick& tick);
  // Starts calls by `start(requests)`, with the library held, and waits for them all.
  template <class Start>
  void run_calls(const Call& call, const Start& start, Wait what = Wait::ForData,
                 MPI_Status* status = nullptr);
  void wait(std::vector<MPI_Request>& requests, Wait what, MPI_Status* status);
  void give_up(const Call& call);
  [[noreturn]] void tell_difference(const Call& call);

  const Meeting meeting_;
  MpiLibrary* const library_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::atomic<bool> interrupted_{false}, someone_left_{false};
};

// MPI is started here, in the script's thread, when all ranks have come.
MpiTransport::MpiTransport(Meeting meeting)
    : Transport(meeting), meeting_(std::move(meeting)), library_(&MpiLibrary::get()) {
  const int own = meeting_.members[static_cast<size_t>(rank_)];
  if (library_->rank() != own || meeting_.members.back() >= library_->size())
    throw std::runtime_error("this is rank " + std::to_string(library_->rank()) + " of " +
                             std::to_string(library_->size()) +
                             " for MPI: leave 'rank' and 'world_size' to its launcher");
}

// Communicators of calls that were given up stay.
MpiTransport::~MpiTransport() {
  if (comm_ == MPI_COMM_NULL) return;
  const Lock lock(library_->mutex());
  if (!interrupted_ && !library_->has_ended()) MPI_Comm_free(&comm_);
}

// --- the start -----------------------------------------------------------------------------------

// All come here before the communicator is made, which waits for them without a look at anything.
void MpiTransport::meet(const Tick& tick) {
  StoreClient client(meeting_.run.endpoint(), meeting_.timeout, tick);
  const auto key = [this](int position) {
    return meeting_.name + "/mpi/" + std::to_string(position);
  };
  client.set(key(rank_), "", tick);
  const Clock::time_point until = after(meeting_.timeout);
  for (int position = 0; position < size_; ++position)
    while (!client.get(key(position), 0.05, tick)) {
      tick();
      if (Clock::now() >= until)
        throw std::runtime_error("Timed out waiting for other ranks to make a communicator");
    }
}

void MpiTransport::connect(const Tick& tick) {
  meet(tick);
  Lock lock(library_->mutex());
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(world, size_, meeting_.members.data(), &group), "MPI_Group_incl");
  if (library_->is_concurrent()) lock.unlock();
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm_), "MPI_Comm_create_group");
  if (!lock.owns_lock()) lock.lock();
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// --- calls ---------------------------------------------------------------------------------------

template <class Start>
void MpiTransport::run_calls(const Call& call, const Start& start, Wait what, MPI_Status* status) {
  std::vector<MPI_Request> requests;
  try {
    {
      const Lock lock(library_->mutex());
      library_->begin_call();
      start(requests);
    }
    wait(requests, what, status);
  } catch (...) {
    give_up(call);
    throw;
  }
  const Lock lock(library_->mutex());
  library_->end_call();
}

void MpiTransport::wait(std::vector<MPI_Request>& requests, Wait what, MPI_Status* status) {
  const Clock::time_point until = after(meeting_.timeout);
  Clock::time_point until_left = Clock::time_point::max();
  const int count = static_cast<int>(requests.size());
  std::vector<MPI_Status> statuses(requests.size());
  for (int round = 0;; ++round) {
    {
      const Lock lock(library_->mutex());
      if (library_->has_ended()) throw std::runtime_error("this process ends");
      int done = 0;
      const int result = MPI_Testall(count, requests.data(), &done, statuses.data());
      if (result == MPI_ERR_IN_STATUS)
        for (const MPI_Status& each : statuses)
          if (each.MPI_ERROR != MPI_ERR_PENDING) check_mpi(each.MPI_ERROR, "MPI_Testall");
      check_mpi(result, "MPI_Testall");
      if (done != 0) break;
    }
    if (interrupted_) throw std::runtime_error("its process group has been aborted");
    const Clock::time_point now = Clock::now();
    if (now >= until) throw std::runtime_error("Timed out waiting for other ranks");
    if (now >= until_left) throw std::runtime_error("a rank has left");
    if (someone_left_) until_left = std::min(until_left, after(kLeftSeconds));
    pause(what, round);
  }
  if (status != nullptr) *status = statuses.back();
}

// MPI may still read and write what the calls were given.
void MpiTransport::give_up(const Call& call) {
  interrupted_ = true;
  const Lock lock(library_->mutex());
  library_->abandon(call.memory);
  if (call.kind == Kind::Send || call.kind == Kind::Receive) return;
  for (const auto& memory : scratch_) library_->abandon(memory);
}

// Collectives of a communicator meet in the order of their starts, whatever they are: each begins
// with a comparison of what it is.
void MpiTransport::agree(const Call& call) {
  const auto numbers = std::make_shared<std::array<int64_t, 2>>();
  *numbers = {int64_t{call.tag}, -int64_t{call.tag}};
  scratch_.push_back(numbers);
  run_calls(
      call,
      [&](std::vector<MPI_Request>& requests) {
        check_mpi(MPI_Iallreduce(MPI_IN_PLACE, numbers->data(), 2, MPI_INT64_T, MPI_MAX, comm_,
                                 &requests.emplace_back()),
                  "MPI_Iallreduce");
      },
      Wait::ForRanks);
  if ((*numbers)[0] != -(*numbers)[1]) tell_difference(call);
}

// All know by now that they differ: each tells what it calls.
void MpiTransport::tell_difference(const Call& call) {
  const auto names =
      std::make_shared<std::vector<char>>(static_cast<size_t>(size_ + 1) * kNameBytes);
  scratch_.push_back(names);
  char* const own = names->data() + static_cast<size_t>(size_) * kNameBytes;
  call.what.copy(own, kNameBytes - 1);
  run_calls(call, [&](std::vector<MPI_Request>& requests) {
    const int bytes = static_cast<int>(kNameBytes);
    check_mpi(MPI_Iallgather(own, bytes, MPI_BYTE, names->data(), bytes, MPI_BYTE, comm_,
                             &requests.emplace_back()),
              "MPI_Iallgather");
  });
  std::string text;
  for (size_t i = 0; i < meeting_.members.size(); ++i)
    text += (i == 0 ? "rank " : "; rank ") + std::to_string(meeting_.members[i]) + " calls " +
            (names->data() + i * kNameBytes);
  throw Disagreement(text);
}

void MpiTransport::exchange(const Call& call, uint32_t, const char* in,
                            const std::vector<Part>& sent, char* out,
                            const std::vector<Part>& received) {
  const size_t self = static_cast<size_t>(rank_), size = sent.size();
  if (received[self].bytes > 0)
    std::memmove(out + received[self].offset, in + sent[self].offset, received[self].bytes);
  const auto in_pieces = [](const Part& part, const auto& move) {
    for (size_t at = 0; at < part.bytes; at += kPiece)
      move(part.offset + at, static_cast<int>(std::min(kPiece, part.bytes - at)));
  };
  run_calls(call, [&](std::vector<MPI_Request>& requests) {
    for (size_t i = 1; i < size; ++i) {
      const size_t peer = (self + size - i) % size;
      in_pieces(received[peer], [&](size_t offset, int bytes) {
        check_mpi(MPI_Irecv(out + offset, bytes, MPI_BYTE, static_cast<int>(peer), kExchangeTag,
                            comm_, &requests.emplace_back()),
                  "MPI_Irecv");
      });
    }
    for (size_t i = 1; i < size; ++i) {
      const size_t peer = (self + i) % size;
      in_pieces(sent[peer], [&](size_t offset, int bytes) {
        check_mpi(MPI_Isend(in + offset, bytes, MPI_BYTE, static_cast<int>(peer), kExchangeTag,
                            comm_, &requests.emplace_back()),
                  "MPI_Isend");
      });
    }
  });
}

void MpiTransport::all_reduce(const Call& call) {
  combine_of(call.reduction, call.dtype);  // throws where there is none
  const size_t bytes = bytes_of(call.dtype);
  for (size_t at = 0; at < call.count; at += kPiece) {
    const int count = static_cast<int>(std::min(kPiece, call.count - at));
    run_calls(call, [&](std::vector<MPI_Request>& requests) {
      const void* const in = call.in == call.out ? MPI_IN_PLACE : call.in + at * bytes;
      check_mpi(
          MPI_Iallreduce(in, call.out + at * bytes, count, library_->type_of(call.dtype),
                         library_->reduction(call.reduction), comm_, &requests.emplace_back()),
          "MPI_Iallreduce");
    });
  }
}

void MpiTransport::broadcast(const Call& call) {
  run_calls(call, [&](std::vector<MPI_Request>& requests) {
    const Block block(call.count * bytes_of(call.dtype));
    check_mpi(MPI_Ibcast(call.out, 1, block.type(), call.root, comm_, &requests.emplace_back()),
              "MPI_Ibcast");
  });
}

void MpiTransport::all_gather(const Call& call) {
  run_calls(call, [&](std::vector<MPI_Request>& requests) {
    const Block block(call.count * bytes_of(call.dtype));
    check_mpi(MPI_Iallgather(call.in, 1, block.type(), call.out, 1, block.type(), comm_,
                             &requests.emplace_back()),
              "MPI_Iallgather");
  });
}

// Both sides have named the number of elements by the tag. A send is done when it is received.
int MpiTransport::transfer(const Call& call) {
  const int tag = kExchangeTag + 1 +
                  static_cast<int>(call.tag % static_cast<uint32_t>(library_->greatest_tag()));
  MPI_Status status;
  run_calls(
      call,
      [&](std::vector<MPI_Request>& requests) {
        const Block block(call.count * bytes_of(call.dtype));
        MPI_Request& request = requests.emplace_back();
        if (call.kind == Kind::Send)
          check_mpi(MPI_Issend(call.in, 1, block.type(), call.root, tag, comm_, &request),
                    "MPI_Issend");
        else
          check_mpi(MPI_Irecv(call.out, 1, block.type(), call.root < 0 ? MPI_ANY_SOURCE : call.root,
                              tag, comm_, &request),
                    "MPI_Irecv");
      },
      Wait::ForRanks, &status);
  return call.kind == Kind::Send ? rank_ : status.MPI_SOURCE;
}

}  // namespace

std::unique_ptr<Transport> make_transport(Meeting meeting) {
  return std::make_unique<MpiTransport>(std::move(meeting));
}

}  // namespace moonlet::distributed
