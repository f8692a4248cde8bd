// tensor/core/platform/programs_posix.cpp: starts programs by posix_spawn, reads what they write,
// and ends them; locks by flock.
#include "tensor/core/platform/programs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <crt_externs.h>
#endif

#include "tensor/core/error.h"
#include "tensor/io/files.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet::platform {

const char* const kNoPrograms = nullptr;

namespace {

// Between two looks at the stop flag.
constexpr int kWaitMilliseconds = 20;
constexpr int kWaitsOfTick = 5;
constexpr size_t kMostOutput = size_t{1} << 20;

class Ticks {
 public:
  explicit Ticks(const std::function<void()>& tick) : tick_(tick) {}
  void operator()() {
    stop_if_requested();
    if (tick_ && ++waits_ % kWaitsOfTick == 0) tick_();
  }

 private:
  const std::function<void()>& tick_;
  int waits_ = 0;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// How a program starts: in a process group of its own, so that it ends with what it has started,
// and Ctrl-C at the terminal is for this process to pass on; with signals as a shell would leave
// them.
class Start {
 public:
  explicit Start(int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // In this order: `output` may be any of the three where the host has closed its own.
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Start() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  // 0 or an errno.
  int run(const Program& program, pid_t* child) const {
    const std::vector<char*> arguments = pointers(program.arguments);
    const std::vector<char*> environment = pointers(program.environment);
    return posix_spawn(child, arguments[0], &actions_, &attributes_, arguments.data(),
                       environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A process that is ended, with its group, unless it has ended by itself.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (ended_) return;
    ::kill(-id_, SIGKILL);
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Whether it has ended.
  bool ended() {
    int status = 0;
    const pid_t got = ::waitpid(id_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    ended_ = true;
    if (got < 0) return true;  // the host has taken its status
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }
  int status() const { return status_; }

 private:
  const pid_t id_;
  bool ended_ = false;
  int status_ = -1;
};

// Reads what there is; false at the end.
bool read_some(int fd, std::string& output) {
  char block[4096];
  const ssize_t got = ::read(fd, block, sizeof block);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  const size_t left = kMostOutput - output.size();
  output.append(block, std::min(static_cast<size_t>(got), left));
  return got > 0;
}

// With ends that programs which start meanwhile do not get, where the system can do both at once.
int make_pipe(int (&ends)[2]) noexcept {
#ifdef __APPLE__
  if (::pipe(ends) != 0) return -1;
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return 0;
#else
  return ::pipe2(ends, O_CLOEXEC);
#endif
}

void wait_a_little() { ::poll(nullptr, 0, kWaitMilliseconds); }

}  // namespace

ProgramResult run_program(const Program& program) {
  check(!program.arguments.empty(), "run_program: expected a program");
  int ends[2];
  check(make_pipe(ends) == 0, "cannot make a pipe: ", std::strerror(errno));
  const io::Descriptor from(ends[0]);
  io::Descriptor to(ends[1]);
  ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
  pid_t id = 0;
  const int error = Start(to.get()).run(program, &id);
  check(error == 0, "cannot run '", program.arguments[0], "': ", std::strerror(error));
  Child child(id);
  to.close();
  ProgramResult result;
  Ticks tick(program.tick);
  // What the program has started may hold the pipe open when it has ended itself.
  for (bool open = true, ended = false; open;) {
    pollfd wanted{from.get(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, kWaitMilliseconds);
    stop_if_requested();
    if (ready > 0) {
      open = read_some(from.get(), result.output);
    } else {
      if (ended) break;
      ended = child.ended();
      tick();
    }
  }
  while (!child.ended()) {
    wait_a_little();
    tick();
  }
  result.status = child.status();
  return result;
}

FileLock::FileLock(const std::string& path, const std::function<void()>& tick) {
  io::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  check(file.get() >= 0, "cannot make the file '", path, "': ", std::strerror(errno));
  Ticks waited(tick);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    check(errno == EWOULDBLOCK || errno == EINTR, "cannot lock '", path,
          "': ", std::strerror(errno));
    wait_a_little();
    waited();
  }
  file_ = file.release();
}

void FileLock::release() noexcept {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

bool is_program(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> environment() {
#ifdef __APPLE__
  char** at = *::_NSGetEnviron();  // what libraries have in the place of `environ`
#else
  char** at = environ;
#endif
  std::vector<std::string> out;
  for (; *at != nullptr; ++at) out.emplace_back(*at);
  return out;
}

std::string new_folder(std::string beginning) {
  beginning += "XXXXXX";
  check(::mkdtemp(beginning.data()) != nullptr, "cannot make the folder '", beginning,
        "': ", std::strerror(errno));
  return beginning;
}

const char* why_not_own(const std::string& folder) {
  struct stat about;
  if (::stat(folder.c_str(), &about) != 0) return std::strerror(errno);
  if (!S_ISDIR(about.st_mode)) return "it is no folder";
  if (about.st_uid != ::geteuid()) return "it belongs to another user";
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write to it";
  return nullptr;
}

std::optional<FileStamp> file_stamp(const std::string& path) {
  struct stat about;
  if (::stat(path.c_str(), &about) != 0) return std::nullopt;
#ifdef __APPLE__
  const timespec& time = about.st_mtimespec;
#else
  const timespec& time = about.st_mtim;
#endif
  return FileStamp{about.st_size, int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

}  // namespace moonlet::platform
