// interp/distributed/mpi_library.cpp: the start and the end of MPI in this process, its data types
// and reductions.
#include "interp/distributed/mpi_library.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include <unistd.h>

#include "interp/distributed/reduce.h"
#include "interp/distributed/transport.h"

namespace moonlet::distributed {

const bool kFailureEndsOthers = true;

namespace {

std::atomic<bool> has_failed{false};
// What started MPI; processes that it forks do not end it.
std::atomic<MpiLibrary*> started_library{nullptr};
std::atomic<pid_t> starter{0};

constexpr size_t kTypeCount = std::size(kDTypes);
constexpr size_t kReductionCount = static_cast<size_t>(Reduction::Xor) + 1;
std::array<MPI_Datatype, kTypeCount> types;
std::array<MPI_Op, kReductionCount> reductions;

// MPI's form of the functions of reduce.h. It throws nothing: the caller has looked the function up
// before.
template <size_t I>
void reduce_elements(void* in, void* in_out, int* count, MPI_Datatype* type) {
  for (size_t i = 0; i < kTypeCount; ++i)
    if (types[i] == *type)
      return combine_of(static_cast<Reduction>(I), static_cast<DType>(i))(
          in_out, in, in_out, static_cast<size_t>(*count));
}

template <size_t... I>
void make_reductions(std::index_sequence<I...>) {
  (check_mpi(MPI_Op_create(reduce_elements<I>, 1, &reductions[I]), "MPI_Op_create"), ...);
}

void make_types() {
  for (size_t i = 0; i < kTypeCount; ++i) {
    check_mpi(
        MPI_Type_contiguous(static_cast<int>(bytes_of(static_cast<DType>(i))), MPI_BYTE, &types[i]),
        "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&types[i]), "MPI_Type_commit");
  }
  make_reductions(std::make_index_sequence<kReductionCount>());
}

// Started without a launcher MPI would be alone, and some of them end the process.
bool has_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

}  // namespace

void note_failure() noexcept { has_failed = true; }

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "an unknown error";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw std::runtime_error(std::string(call) + ": " + text);
}

MpiLibrary::MpiLibrary() {
  int started = 0, level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Initialized(&started), "MPI_Initialized");
  if (started == 0) {
    if (!has_launcher())
      throw std::runtime_error(
          "MPI has not started this process: run the script by mpirun -n N moonlet SCRIPT");
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    starter = getpid();
    std::atexit(end);
  } else {
    check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  }
  if (level < MPI_THREAD_SERIALIZED)
    throw std::runtime_error("this MPI can be called by the thread alone that starts it");
  concurrent_ = level == MPI_THREAD_MULTIPLE;
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  int* tag = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &found), "MPI_Comm_get_attr");
  greatest_tag_ = found != 0 ? *tag : 32767;
  make_types();
}

MpiLibrary& MpiLibrary::get() {
  static MpiLibrary& it = *new MpiLibrary;
  started_library = &it;
  return it;
}

void MpiLibrary::begin_call() {
  if (ended_) throw std::runtime_error("this process ends");
  ++pending_;
}

MPI_Datatype MpiLibrary::type_of(DType dtype) const { return types[static_cast<size_t>(dtype)]; }
MPI_Op MpiLibrary::reduction(Reduction reduction) const {
  return reductions[static_cast<size_t>(reduction)];
}

void MpiLibrary::abandon(std::shared_ptr<const void> memory) {
  abandoned_.push_back(std::move(memory));
}

// At the end of the process. MPI_Finalize waits for the other ranks, so it is for those that have
// done their part; who ends without it lets the launcher end the others.
void MpiLibrary::end() noexcept {
  MpiLibrary* const library = started_library;
  if (library == nullptr || starter != getpid()) return;
  const std::lock_guard<std::mutex> lock(library->mutex_);
  library->ended_ = true;
  if (!has_failed && library->pending_ == 0 && library->abandoned_.empty()) MPI_Finalize();
}

}  // namespace moonlet::distributed
