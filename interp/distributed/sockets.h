// interp/distributed/sockets.h: TCP with time limits, and waits that look at interrupts.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "interp/distributed/engine.h"

namespace moonlet::distributed {

using Clock = std::chrono::steady_clock;
Clock::time_point after(double seconds);
// What waits looks at interrupts so often.
inline constexpr std::chrono::milliseconds kLook{50};

// The socket of a connection or a listener; closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  int release() noexcept;
  void close() noexcept;

 private:
  int descriptor_ = -1;
};

// Whether a name stands for this machine alone.
bool is_loopback(const std::string& host);

// Listens at an address of this machine; port 0: any. Throws naming both.
Socket listen_at(const std::string& host, int port);
int port_of(const Socket& socket);
// This side's address of a connection.
std::string own_address(const Socket& socket);

// Connects, again and again while nobody listens. Throws naming both.
Socket connect_to(const std::string& host, int port, Clock::time_point until, const Tick& tick);

// All bytes, or throws: Closed where the other side has ended, TimedOut.
class Closed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class TimedOut : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
void send_all(const Socket& socket, std::string_view bytes, Clock::time_point until,
              const Tick& tick);
void receive_all(const Socket& socket, char* out, size_t count, Clock::time_point until,
                 const Tick& tick);

std::string system_text(int error);

}  // namespace moonlet::distributed
