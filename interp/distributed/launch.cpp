// interp/distributed/launch.cpp: the processes of the ranks on this machine, from start to end.
#include "interp/distributed/launch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interp/distributed/sockets.h"

namespace moonlet::distributed {
namespace {

// When a rank has failed, others find that out by themselves in this time, and say where they were;
// then they are told to end, and then they are ended.
constexpr double kOwnEndSeconds = 3, kAskedEndSeconds = 3;
// What is kept of what a rank wrote to standard error; a line that is longer is passed on in parts.
constexpr size_t kKept = 64 << 10, kMostLine = 64 << 10;

// A rank's output, by lines.
struct Stream {
  Socket pipe{};
  std::string line{};
};

struct Child {
  int number = 0;
  pid_t process = 0;
  bool runs = true;
  Clock::time_point ended{};
  Stream streams[2]{};  // output and errors
  RankEnd end{};
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the new process, where only what signal handlers may call is allowed.
[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& environment,
                         int input, int output, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  dup2(input, 0);
  dup2(output, 1);
  dup2(errors, 2);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

class Launch {
 public:
  Launch(const std::function<void(int, bool, std::string_view)>& line, const Tick& tick)
      : line_(line), tick_(tick) {}
  ~Launch() { signal_all(SIGKILL); }
  void start(const Rank& rank);
  std::vector<RankEnd> run();

 private:
  void read(Child& child, int which);
  void add_line(Child& child, int which, std::string_view line);
  void wait_for_output();
  void look_for_ends();
  void end_others();
  void signal_all(int signal) noexcept;
  bool any_runs() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& each) { return each.runs; });
  }

  const std::function<void(int, bool, std::string_view)>& line_;
  const Tick& tick_;
  std::vector<Child> children_;
  bool failed_ = false;
  bool asked_ = false;
  Clock::time_point next_step_{};
  std::exception_ptr interrupted_;
};

void Launch::start(const Rank& rank) {
  Child child;
  child.number = child.end.number = rank.number;
  int ends[2][2];
  for (int which = 0; which < 2; ++which) {
    if (pipe2(ends[which], O_CLOEXEC) != 0) throw std::runtime_error(system_text(errno));
    child.streams[which].pipe = Socket(ends[which][0]);
    fcntl(ends[which][0], F_SETFL, O_NONBLOCK);
  }
  const Socket output(ends[0][1]), errors(ends[1][1]);
  const Socket input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<char*> arguments = pointers_to(rank.arguments);
  const std::vector<char*> environment = pointers_to(rank.environment);
  const pid_t parent = getpid();
  child.process = fork();
  if (child.process < 0) throw std::runtime_error(system_text(errno));
  if (child.process == 0)
    become(arguments, environment, input.descriptor(), output.descriptor(), errors.descriptor(),
           parent);
  setpgid(child.process, child.process);
  children_.push_back(std::move(child));
}

void Launch::add_line(Child& child, int which, std::string_view line) {
  if (which == 1) {
    child.end.errors.append(line).append("\n");
    if (child.end.errors.size() > 2 * kKept)
      child.end.errors.erase(0, child.end.errors.size() - kKept);
  }
  line_(child.number, which == 1, line);
}

void Launch::read(Child& child, int which) {
  Stream& stream = child.streams[which];
  char bytes[65536];
  ssize_t got = 0;
  while ((got = ::read(stream.pipe.descriptor(), bytes, sizeof bytes)) > 0) {
    std::string_view news(bytes, static_cast<size_t>(got));
    for (size_t end = news.find('\n'); end != news.npos; end = news.find('\n')) {
      stream.line.append(news.substr(0, end));
      add_line(child, which, stream.line);
      stream.line.clear();
      news.remove_prefix(end + 1);
    }
    stream.line.append(news);
    if (stream.line.size() > kMostLine) add_line(child, which, std::exchange(stream.line, {}));
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  stream.pipe.close();
  if (!stream.line.empty()) add_line(child, which, std::exchange(stream.line, {}));
}

void Launch::wait_for_output() {
  std::vector<pollfd> polled;
  for (const Child& child : children_)
    for (const Stream& stream : child.streams)
      polled.push_back({stream.pipe.descriptor(), POLLIN, 0});
  poll(polled.data(), polled.size(), static_cast<int>(kLook.count()));
  size_t i = 0;
  for (Child& child : children_)
    for (int which = 0; which < 2; ++which, ++i)
      if (polled[i].revents != 0) read(child, which);
}

void Launch::look_for_ends() {
  for (Child& child : children_) {
    int status = 0;
    if (!child.runs || waitpid(child.process, &status, WNOHANG) != child.process) continue;
    child.runs = false;
    for (int which = 0; which < 2; ++which)
      if (child.streams[which].pipe.is_open()) read(child, which);
    child.end.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (child.end.status == 0 || failed_ || interrupted_) continue;
    failed_ = child.end.first = true;
    next_step_ = after(kOwnEndSeconds);
  }
}

void Launch::signal_all(int signal) noexcept {
  for (const Child& child : children_)
    if (child.runs && child.process > 0) kill(-child.process, signal);
}

void Launch::end_others() {
  if (!interrupted_) {
    try {
      tick_();
    } catch (...) {
      interrupted_ = std::current_exception();
      next_step_ = Clock::now();
      asked_ = false;
    }
  }
  if ((!failed_ && !interrupted_) || Clock::now() < next_step_) return;
  signal_all(asked_ ? SIGKILL : SIGTERM);
  signal_all(SIGCONT);  // what is stopped ends when it goes on
  asked_ = true;
  next_step_ = after(kAskedEndSeconds);
}

std::vector<RankEnd> Launch::run() {
  while (any_runs()) {
    wait_for_output();
    look_for_ends();
    end_others();
  }
  if (interrupted_) std::rethrow_exception(interrupted_);
  std::vector<RankEnd> out;
  for (Child& child : children_) {
    for (int which = 0; which < 2; ++which)
      if (!child.streams[which].line.empty())
        add_line(child, which, std::exchange(child.streams[which].line, {}));
    out.push_back(std::move(child.end));
  }
  return out;
}

}  // namespace

std::vector<RankEnd> launch(
    const std::vector<Rank>& ranks,
    const std::function<void(int rank, bool error, std::string_view line)>& line,
    const Tick& tick) {
  Launch all(line, tick);
  for (const Rank& rank : ranks) all.start(rank);
  return all.run();
}

}  // namespace moonlet::distributed
