// tensor/core/platform/write_file_posix.cpp: writing that never leaves half a file, nor a temporary
// one, behind.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/core/platform/files.h"
#include "tensor/io/files.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::platform {
namespace {

using io::Descriptor;
using io::kMaxAtOnce;

// --- names to remove when a signal ends the process ----------------------------------------------

constexpr std::array kEndings = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
constexpr size_t kMaxPending = 64;

std::array<std::atomic<const char*>, kMaxPending> pending;
std::mutex handlers_mutex;
int handlers_users = 0;
std::array<struct sigaction, kEndings.size()> handlers_before;

void end_by(int signal) {
  remove_temporary_files();
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  ::raise(signal);  // ends the process as soon as this handler returns
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == end_by;
}

// While one is alive, signals that would end the process at once remove the pending names first.
// Signals that are handled or ignored stay as they are.
class TerminationSignals {
 public:
  TerminationSignals() {
    const std::lock_guard lock(handlers_mutex);
    if (handlers_users++ > 0) return;
    struct sigaction action {};
    action.sa_handler = end_by;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < kEndings.size(); ++i) {
      ::sigaction(kEndings[i], nullptr, &handlers_before[i]);
      const struct sigaction& before = handlers_before[i];
      if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL)
        ::sigaction(kEndings[i], &action, nullptr);
    }
  }
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;
  ~TerminationSignals() {
    const std::lock_guard lock(handlers_mutex);
    if (--handlers_users > 0) return;
    for (size_t i = 0; i < kEndings.size(); ++i) {
      struct sigaction now {};
      ::sigaction(kEndings[i], nullptr, &now);
      if (is_ours(now)) ::sigaction(kEndings[i], &handlers_before[i], nullptr);
    }
  }
};

// The name of a temporary file, which goes unless it was renamed into place.
class TemporaryName {
 public:
  explicit TemporaryName(std::string name) : name_(std::move(name)) {
    for (auto& slot : pending) {
      const char* none = nullptr;
      if (slot.compare_exchange_strong(none, name_.c_str())) {
        slot_ = &slot;
        break;
      }
    }
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (made_) ::unlink(name_.c_str());
    if (slot_ != nullptr) slot_->store(nullptr);
  }
  const char* name() const { return name_.c_str(); }
  // Whether a file has the name by now, and is the one to remove.
  void set_made(bool made) { made_ = made; }

 private:
  TerminationSignals signals_;
  const std::string name_;
  std::atomic<const char*>* slot_ = nullptr;
  bool made_ = false;
};

// --- writing -------------------------------------------------------------------------------------

// While alive, a write past a limit on the size of files, or to a pipe that nobody reads, gives its
// error to this thread instead of a signal that ends the process.
class WriteErrors {
 public:
  WriteErrors() {
    sigset_t already;
    sigemptyset(&set_);
    sigpending(&already);
    for (const int signal : {SIGXFSZ, SIGPIPE})
      if (sigismember(&already, signal) == 0) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  WriteErrors(const WriteErrors&) = delete;
  WriteErrors& operator=(const WriteErrors&) = delete;
  ~WriteErrors() {
    take_pending();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  // Those of the set, without waiting for one.
  void take_pending() const {
#ifdef __APPLE__
    sigset_t pending;
    int signal = 0;
    for (const int each : {SIGXFSZ, SIGPIPE})
      if (sigismember(&set_, each) == 1 && sigpending(&pending) == 0 &&
          sigismember(&pending, each) == 1)
        sigwait(&set_, &signal);
#else
    const timespec at_once{};
    while (sigtimedwait(&set_, nullptr, &at_once) > 0) {
    }
#endif
  }

  sigset_t set_, before_;
};

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    stop_if_requested();
    const ssize_t written = ::write(fd, data.data(), std::min(data.size(), kMaxAtOnce));
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    data.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int write_parts(int fd, const std::vector<std::string_view>& parts) {
  const WriteErrors errors;
  for (const std::string_view part : parts) {
    if (const int error = write_all(fd, part)) return error;
  }
  return 0;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "./" : path.substr(0, slash + 1);
}

// Follows symbolic links, also to a file that is not there yet.
std::string resolve_links(std::string path) {
  constexpr int kMaxLinks = 40;  // as the system's own limit
  char target[PATH_MAX];
  for (int i = 0; i < kMaxLinks; ++i) {
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0 || length == static_cast<ssize_t>(sizeof target)) break;
    path = target[0] == '/' ? "" : folder_of(path);
    path.append(target, static_cast<size_t>(length));
  }
  return path;
}

// Best effort: makes the rename itself last through a power cut.
void sync_folder(const std::string& path) {
  const Descriptor fd(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) ::fsync(fd.get());
}

// In the same folder; not longer than names may be.
std::string temporary_name(const std::string& path, int attempt) {
  constexpr size_t kRoom = NAME_MAX - 40;
  const std::string folder = folder_of(path);
  const std::string name = path.find('/') == path.npos ? path : path.substr(folder.size());
  return folder + name.substr(0, kRoom) + ".tmp" + std::to_string(::getpid()) + "-" +
         std::to_string(attempt);
}

constexpr int kAttempts = 100;

// Writes, and makes sure that the data are on the disk. 0 or an errno.
int fill(Descriptor& fd, const std::vector<std::string_view>& parts, const struct stat* existing) {
  if (existing != nullptr) (void)!::fchmod(fd.get(), existing->st_mode & 07777);
  if (const int error = write_parts(fd.get(), parts)) return error;
  return ::fsync(fd.get()) != 0 ? errno : 0;
}

int rename_to(TemporaryName& temporary, const std::string& target) {
  if (::rename(temporary.name(), target.c_str()) != 0) return errno;
  temporary.set_made(false);
  return 0;
}

// Gives the file behind `fd`, which has no name yet, the name `target`. An existing file cannot be
// replaced by a link, so the name in between is there for a moment. 0 or an errno.
[[maybe_unused]] int give_name(int fd, const std::string& target) {
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  const auto link_as = [&](const char* name) {
    return ::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  };
  int error = link_as(target.c_str());
  for (int attempt = 0; error == EEXIST && attempt < kAttempts; ++attempt) {
    TemporaryName temporary(temporary_name(target, attempt));
    error = link_as(temporary.name());
    if (error != 0) continue;
    temporary.set_made(true);
    return rename_to(temporary, target);
  }
  return error;
}

// Through a file without a name. 0, an errno, or -1 where there are no such files.
int write_unnamed([[maybe_unused]] const std::string& target,
                  [[maybe_unused]] const std::vector<std::string_view>& parts,
                  [[maybe_unused]] const struct stat* existing) {
#ifndef O_TMPFILE
  return -1;
#else
  Descriptor fd(::open(folder_of(target).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (fd.get() < 0) return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? -1 : errno;
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  if (const int error = fill(fd, parts, existing)) return error;
  const int error = give_name(fd.get(), target);
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return error == 0 || is_full ? error : -1;  // some file systems have no way to give a name late
#endif
}

// Through a file with a name. 0 or an errno.
int write_named(const std::string& target, const std::vector<std::string_view>& parts,
                const struct stat* existing) {
  int error = EEXIST;
  for (int attempt = 0; error == EEXIST && attempt < kAttempts; ++attempt) {
    TemporaryName temporary(temporary_name(target, attempt));
    Descriptor fd(::open(temporary.name(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    error = fd.get() < 0 ? errno : 0;
    if (error != 0) continue;
    temporary.set_made(true);
    error = fill(fd, parts, existing);
    if (error == 0 && fd.close() != 0) error = errno;
    return error != 0 ? error : rename_to(temporary, target);
  }
  return error;
}

// To a device or a pipe. Does not wait for who reads a pipe to come. 0 or an errno.
int write_directly(const std::string& path, const std::vector<std::string_view>& parts) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (fd.get() < 0) return errno;
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  if (const int error = write_parts(fd.get(), parts)) return error;
  return fd.close() != 0 ? errno : 0;
}

// To a file that `existing` describes, or to a new one. 0 or an errno.
int write_whole(const std::string& path, const std::vector<std::string_view>& parts,
                const struct stat* existing) {
  const std::string target = resolve_links(path);
  int error = write_unnamed(target, parts, existing);
  if (error < 0) error = write_named(target, parts, existing);
  if (error == 0) sync_folder(target);
  return error;
}

}  // namespace

void remove_temporary_files() noexcept {
  for (auto& slot : pending) {
    if (const char* name = slot.load()) ::unlink(name);
  }
}

int write_file(const std::string& path, const std::vector<std::string_view>& parts) {
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return errno;
  if (!exists || S_ISREG(info.st_mode)) return write_whole(path, parts, exists ? &info : nullptr);
  return S_ISDIR(info.st_mode) ? EISDIR : write_directly(path, parts);
}

}  // namespace moonlet::platform
