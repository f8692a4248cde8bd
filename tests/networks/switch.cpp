// tests/networks/switch.cpp: connects network namespaces by links that are slow, lose packets or
// are cut, for tests of processes on several machines. `tc netem` does as much where the kernel has
// it; this needs no more than TUN devices. usage: switch FIFO NAMESPACE... Each namespace gets a
// device `link0`; the address of the i-th one, from 0, ends in i + 1. Lines that are written to
// FIFO change the links: "delay MS" and "loss PERCENT" of all, "cut I", "mend I". It ends with its
// standard input.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

// What waits in a router's memory at most; what comes then is lost.
constexpr size_t kMostWaiting = 20000;
constexpr size_t kMostBytes = 65536;
// Where IPv4 has the last byte of the address that a packet goes to.
constexpr size_t kLastOfAddress = 19;

int checked(int result, const std::string& what) {
  if (result < 0) throw std::runtime_error(what + ": " + std::strerror(errno));
  return result;
}

// A device of packets in that namespace. It stays there while this thread is elsewhere.
int open_link(const std::string& name) {
  const int space = checked(open(("/var/run/netns/" + name).c_str(), O_RDONLY), name);
  checked(setns(space, CLONE_NEWNET), "setns");
  close(space);
  const int link = checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "link0");
  checked(ioctl(link, TUNSETIFF, &request), "TUNSETIFF");
  return link;
}

struct Packet {
  Clock::time_point due;
  size_t to;
  std::string bytes;
};

class Switch {
 public:
  explicit Switch(const std::vector<std::string>& names) : cut_(names.size(), false) {
    for (const std::string& name : names) links_.push_back(open_link(name));
  }
  void obey(const std::string& line);
  void run(int commands);

 private:
  void take(size_t from);
  void pass_on();
  int milliseconds_to_next() const;

  std::vector<int> links_;
  std::vector<bool> cut_;
  std::chrono::microseconds delay_{0};
  double loss_ = 0;
  std::mt19937 random_{1};
  std::deque<Packet> waiting_;
};

void Switch::obey(const std::string& line) {
  std::istringstream words(line);
  std::string what;
  double value = 0;
  if (!(words >> what >> value)) throw std::runtime_error("no command: " + line);
  if (what == "delay")
    delay_ = std::chrono::microseconds(static_cast<int64_t>(value * 1000));
  else if (what == "loss")
    loss_ = value / 100;
  else if (what == "cut" || what == "mend")
    cut_.at(static_cast<size_t>(value)) = what == "cut";
  else
    throw std::runtime_error("no command: " + line);
}

void Switch::take(size_t from) {
  char bytes[kMostBytes];
  ssize_t got = 0;
  while ((got = read(links_[from], bytes, sizeof bytes)) > 0) {
    const auto size = static_cast<size_t>(got);
    if (size <= kLastOfAddress || static_cast<unsigned char>(bytes[0]) >> 4 != 4) continue;
    const size_t to = static_cast<unsigned char>(bytes[kLastOfAddress]) - size_t{1};
    if (to >= links_.size() || cut_[from] || cut_[to] || waiting_.size() >= kMostWaiting) continue;
    if (std::uniform_real_distribution<>()(random_) < loss_) continue;
    waiting_.push_back({Clock::now() + delay_, to, std::string(bytes, size)});
  }
}

// A link that takes no more loses packets, as a router does.
void Switch::pass_on() {
  while (!waiting_.empty() && waiting_.front().due <= Clock::now()) {
    const Packet& packet = waiting_.front();
    if (!cut_[packet.to] &&
        write(links_[packet.to], packet.bytes.data(), packet.bytes.size()) < 0 && errno != EAGAIN &&
        errno != EIO)
      throw std::runtime_error(std::strerror(errno));
    waiting_.pop_front();
  }
}

int Switch::milliseconds_to_next() const {
  if (waiting_.empty()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(waiting_.front().due - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

void Switch::run(int commands) {
  std::string text;
  std::vector<pollfd> polled{{STDIN_FILENO, POLLIN, 0}, {commands, POLLIN, 0}};
  for (const int link : links_) polled.push_back({link, POLLIN, 0});
  for (;;) {
    poll(polled.data(), polled.size(), milliseconds_to_next());
    if (polled[0].revents != 0) return;
    if (polled[1].revents != 0) {
      char bytes[256];
      const ssize_t got = read(commands, bytes, sizeof bytes);
      if (got > 0) text.append(bytes, static_cast<size_t>(got));
      for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
        obey(text.substr(0, end));
        text.erase(0, end + 1);
      }
    }
    for (size_t i = 0; i < links_.size(); ++i)
      if (polled[i + 2].revents != 0) take(i);
    pass_on();
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: switch FIFO NAMESPACE...\n", stderr);
    return 2;
  }
  try {
    // Open for writing, too, so that it never ends.
    const int commands = checked(open(words[1], O_RDWR | O_NONBLOCK | O_CLOEXEC), words[1]);
    Switch all(std::vector<std::string>(words + 2, words + count));
    all.run(commands);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "switch: %s\n", e.what());
    return 1;
  }
  return 0;
}
