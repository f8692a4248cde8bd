// interp/distributed/sockets.cpp: TCP with time limits, and waits that look at interrupts.
#include "interp/distributed/sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace moonlet::distributed {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string named(const std::string& host, int port) {
  return "'" + host + ":" + std::to_string(port) + "'";
}

Addresses resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    throw std::runtime_error("the address " + named(host, port) +
                             " cannot be resolved: " + gai_strerror(error));
  return {found, freeaddrinfo};
}

// Waits until the socket can be read, or written; false after that time.
bool wait_for(const Socket& socket, short events, Clock::time_point until, const Tick& tick) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()) +
                      std::chrono::milliseconds(1);
    pollfd one{socket.descriptor(), events, 0};
    const int wait = static_cast<int>(std::clamp<int64_t>(left.count(), 0, kLook.count()));
    const int ready = poll(&one, 1, wait);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw std::runtime_error(system_text(errno));
    if (tick) tick();
    if (Clock::now() >= until) return false;
  }
}

Socket new_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
}

// 0, or the errno of a connection that fails.
int try_address(const addrinfo& address, Socket& out, Clock::time_point until, const Tick& tick) {
  out = new_socket(address);
  if (!out.is_open()) return errno;
  if (connect(out.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(out, POLLOUT, until, tick)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(out.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

std::string system_text(int error) { return std::strerror(error); }

Clock::time_point after(double seconds) {
  const double bounded = std::clamp(seconds, 0.0, 1e9);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.release();
  }
  return *this;
}

int Socket::release() noexcept { return std::exchange(descriptor_, -1); }

void Socket::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

Socket listen_at(const std::string& host, int port) {
  const Addresses addresses = resolve(host, port);
  int error = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket out = new_socket(*each);
    const int yes = 1;
    if (out.is_open() &&
        setsockopt(out.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(out.descriptor(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(out.descriptor(), 1024) == 0)
      return out;
    error = errno;
  }
  const std::string at = named(host, port);
  if (error == EADDRINUSE)
    throw std::runtime_error("the port of " + at +
                             " is in use: another store or program listens there");
  if (error == EADDRNOTAVAIL)
    throw std::runtime_error(at +
                             " is no address of this machine, on which rank 0 keeps the store");
  throw std::runtime_error("cannot listen at " + at + ": " + system_text(error));
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "";
  if (getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "127.0.0.1";
  return host;
}

Socket connect_to(const std::string& host, int port, Clock::time_point until, const Tick& tick) {
  for (;;) {
    const Addresses addresses = resolve(host, port);
    Socket out;
    int error = 0;
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      error = try_address(*each, out, until, tick);
      if (error != 0) continue;
      const int yes = 1;
      setsockopt(out.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      return out;
    }
    if (Clock::now() >= until)
      throw std::runtime_error("no store of Moonlet answers at " + named(host, port) + ": " +
                               system_text(error));
    if (tick) tick();
    std::this_thread::sleep_for(kLook);
  }
}

void send_all(const Socket& socket, std::string_view bytes, Clock::time_point until,
              const Tick& tick) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!wait_for(socket, POLLOUT, until, tick)) throw TimedOut("nobody reads what is sent");
    } else {
      throw Closed(system_text(errno));
    }
  }
}

void receive_all(const Socket& socket, char* out, size_t count, Clock::time_point until,
                 const Tick& tick) {
  while (count > 0) {
    const ssize_t got = ::recv(socket.descriptor(), out, count, 0);
    if (got > 0) {
      out += got;
      count -= static_cast<size_t>(got);
    } else if (got == 0) {
      throw Closed("the other side has closed the connection");
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!wait_for(socket, POLLIN, until, tick)) throw TimedOut("there is no answer");
    } else {
      throw Closed(system_text(errno));
    }
  }
}

}  // namespace moonlet::distributed
