// interp/distributed/store_server.cpp: the store that others reach by TCP: one thread, which serves
// all connections. Who does not prove at once that it knows the secret is sent away.
#include "interp/distributed/store_server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "interp/distributed/bytes.h"
#include "interp/distributed/protocol.h"
#include "interp/distributed/ranks.h"
#include "interp/distributed/sockets.h"

namespace moonlet::distributed {
namespace {

// Who has not said by then who it is, and how many such there may be.
constexpr double kHelloSeconds = 5;
constexpr int kMostStrangers = 200;
// How often a launcher looks whether the ranks of other machines have ended.
constexpr std::chrono::milliseconds kLook{10};

struct Connection {
  Socket socket;
  std::string nonce, in, out;
  Clock::time_point hello_until;
  bool known = false;
  bool ending = false;
  // What it waits for: a Get of one key, or a Wait.
  std::vector<std::string> keys;
  bool gets = false;
  Clock::time_point until;
  // The rank whose life depends on this connection.
  std::string run;
  int rank = -1;
};

class StoreServer final : public Server {
 public:
  explicit StoreServer(const Endpoint& endpoint)
      : secret_(endpoint.secret),
        listener_(listen_at(endpoint.host, endpoint.port)),
        port_(port_of(listener_)),
        wake_(eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~StoreServer() override {
    ending_ = true;
    const uint64_t one = 1;
    if (write(wake_.descriptor(), &one, sizeof one) < 0) listener_.close();
    thread_.join();
  }
  int port() const override { return port_; }
  std::vector<Peer> gone(std::string_view run) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ranks_.gone(run);
  }
  void wait_for_ranks(double seconds, const Tick& tick) override;

 private:
  void serve();
  void accept_all();
  void receive(Connection& connection);
  void read_hello(Connection& connection);
  void read_requests(Connection& connection);
  std::string answer(Connection& connection, Request request, Reader& in);
  std::string answer_of_ranks(Connection& connection, Request request, Reader& in);
  bool answer_waiting(Connection& connection);
  void wake_waiting();
  void send(Connection& connection);
  void close_ended();

  const std::string secret_;
  Socket listener_;
  const int port_;
  const Socket wake_;
  std::atomic<bool> ending_{false};
  std::list<Connection> connections_;
  std::map<std::string, std::string, std::less<>> values_;
  bool changed_ = false;
  std::mutex mutex_;  // of ranks_
  Ranks ranks_;
  std::thread thread_;
};

void add_frame(std::string& out, std::string_view bytes) {
  out += Writer().number(static_cast<uint32_t>(bytes.size())).bytes();
  out += bytes;
}

Writer good() { return Writer().number(kGood); }

std::string bad(std::string_view text) { return Writer().number(kBad).text(text).bytes(); }

// --- connections ---------------------------------------------------------------------------------

void StoreServer::accept_all() {
  for (;;) {
    Socket socket(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      // Without descriptors the listener stays readable.
      if (errno == EMFILE || errno == ENFILE)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    const auto strangers = std::count_if(connections_.begin(), connections_.end(),
                                         [](const Connection& each) { return !each.known; });
    if (strangers >= kMostStrangers) continue;
    const int yes = 1;
    setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Connection connection;
    connection.socket = std::move(socket);
    connection.hello_until = after(kHelloSeconds);
    connection.nonce.resize(kNonceBytes);
    if (getrandom(connection.nonce.data(), kNonceBytes, 0) != kNonceBytes) continue;
    connection.out.append(kGreeting).append(Writer().number(kProtocol).bytes());
    connection.out += connection.nonce;
    connections_.push_back(std::move(connection));
  }
}

void StoreServer::receive(Connection& connection) {
  char bytes[65536];
  for (;;) {
    const ssize_t got = recv(connection.socket.descriptor(), bytes, sizeof bytes, 0);
    if (got > 0) {
      connection.in.append(bytes, static_cast<size_t>(got));
      if (!connection.known && connection.in.size() > kProofBytes + sizeof bytes) break;
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) connection.ending = true;
    break;
  }
  if (!connection.known) read_hello(connection);
  if (connection.known) read_requests(connection);
}

void StoreServer::read_hello(Connection& connection) {
  const size_t compared = std::min(connection.in.size(), kGreeting.size());
  if (connection.in.compare(0, compared, kGreeting.substr(0, compared)) != 0)
    connection.ending = true;
  if (connection.ending || connection.in.size() < kProofBytes) return;
  const std::string hello = connection.in.substr(kGreeting.size(), kProofBytes - kGreeting.size());
  connection.in.erase(0, kProofBytes);
  const std::string_view proof = std::string_view(hello).substr(sizeof kProtocol);
  const std::string wanted = proof_of(secret_, connection.nonce);
  unsigned different = 0;  // looked at whole, so that the time tells nothing
  for (size_t i = 0; i < wanted.size(); ++i)
    different |= static_cast<unsigned char>(wanted[i]) ^ static_cast<unsigned char>(proof[i]);
  connection.known = different == 0;
  add_frame(connection.out,
            connection.known
                ? good().bytes()
                : bad("the secret of this process is not that of the store: it belongs to another "
                      "run (the launcher sets MOONLET_STORE_SECRET)"));
  if (!connection.known) {
    send(connection);
    connection.ending = true;
  }
}

void StoreServer::read_requests(Connection& connection) {
  size_t at = 0;
  while (connection.in.size() - at >= sizeof(uint32_t)) {
    const uint32_t size = Reader(std::string_view(connection.in).substr(at)).number<uint32_t>();
    if (size > kMostBytes) {
      connection.ending = true;
      break;
    }
    if (connection.in.size() - at - sizeof size < size) break;
    Reader in(std::string_view(connection.in).substr(at + sizeof size, size));
    at += sizeof size + size;
    std::string reply;
    try {
      reply = answer(connection, in.number<Request>(), in);
    } catch (const std::exception& e) {
      reply = bad(e.what());
    }
    if (!reply.empty()) add_frame(connection.out, reply);
  }
  connection.in.erase(0, at);
}

void StoreServer::wait_for_ranks(double seconds, const Tick& tick) {
  for (const Clock::time_point until = after(seconds); Clock::now() < until;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!ranks_.any_left()) return;
    }
    std::this_thread::sleep_for(kLook);
    tick();
  }
}

void StoreServer::send(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t sent = ::send(connection.socket.descriptor(), connection.out.data(),
                                connection.out.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      connection.out.erase(0, static_cast<size_t>(sent));
    } else {
      if (errno != EAGAIN && errno != EINTR) connection.ending = true;
      return;
    }
  }
}

void StoreServer::close_ended() {
  const Clock::time_point now = Clock::now();
  for (auto each = connections_.begin(); each != connections_.end();) {
    const bool late = !each->known && now > each->hello_until;
    if (!each->ending && !late) {
      ++each;
      continue;
    }
    if (each->rank >= 0) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ranks_.end(each->run, each->rank, End::Died, "");
    }
    each = connections_.erase(each);
  }
}

// --- requests ------------------------------------------------------------------------------------

int64_t number_of(const std::string& text) {
  size_t used = 0;
  int64_t out = 0;
  try {
    out = std::stoll(text, &used);
  } catch (const std::exception&) {
  }
  if (used == 0 || used != text.size())
    throw std::runtime_error("the value to add to is no integer: '" + text.substr(0, 40) + "'");
  return out;
}

std::string StoreServer::answer(Connection& connection, Request request, Reader& in) {
  switch (request) {
    case Request::Set: {
      const std::string key = in.text();
      values_[key] = in.text();
      changed_ = true;
      return good().bytes();
    }
    case Request::Add: {
      std::string& value = values_[in.text()];
      const auto sum = static_cast<int64_t>(
          static_cast<uint64_t>(value.empty() ? 0 : number_of(value)) + in.number<uint64_t>());
      value = std::to_string(sum);
      changed_ = true;
      return good().number(sum).bytes();
    }
    case Request::Get:
    case Request::Wait: {
      connection.gets = request == Request::Get;
      connection.until = after(in.number<double>());
      connection.keys.clear();
      for (auto left = in.number<uint32_t>(); left > 0; --left)
        connection.keys.push_back(in.text());
      if (connection.keys.empty()) return good().number(uint8_t{1}).bytes();
      answer_waiting(connection);
      return "";
    }
    case Request::Remove: {
      const bool removed = values_.erase(in.text()) > 0;
      return good().number(static_cast<uint8_t>(removed)).bytes();
    }
    case Request::CompareSet: {
      const std::string key = in.text(), expected = in.text(), desired = in.text();
      const auto found = values_.find(key);
      const bool there = found != values_.end();
      const bool sets = there ? found->second == expected : expected.empty();
      if (!there && !sets) return good().number(uint8_t{0}).text("").bytes();
      if (sets) values_[key] = desired, changed_ = true;
      return good().number(uint8_t{1}).text(values_[key]).bytes();
    }
    case Request::Count: return good().number(static_cast<int64_t>(values_.size())).bytes();
    default: return answer_of_ranks(connection, request, in);
  }
}

std::string with_peers(const std::vector<Peer>& peers) {
  Writer out = good();
  out.number(static_cast<uint32_t>(peers.size()));
  for (const Peer& peer : peers)
    out.number(peer.rank).number(peer.end).text(peer.text).text(peer.doing).number(peer.age);
  return out.bytes();
}

std::string StoreServer::answer_of_ranks(Connection& connection, Request request, Reader& in) {
  const std::lock_guard<std::mutex> lock(mutex_);
  switch (request) {
    case Request::Register: {
      const std::string run = in.text();
      const int rank = in.number<int>(), size = in.number<int>();
      if (rank < 0 || rank >= size) throw std::runtime_error("a rank is from 0 to world_size - 1");
      const std::string problem = ranks_.add(run, rank, size, in.number<double>());
      if (!problem.empty()) throw std::runtime_error(problem);
      connection.run = run;
      connection.rank = rank;
      return good().bytes();
    }
    case Request::Beat:
      ranks_.hear(connection.run, connection.rank, in.text());
      return with_peers(ranks_.gone(connection.run));
    case Request::Peers: return with_peers(ranks_.all(in.text()));
    case Request::Leave: {
      const bool failed = in.number<uint8_t>() != 0;
      ranks_.end(connection.run, connection.rank, failed ? End::Failed : End::Left, in.text());
      return good().bytes();
    }
    default: throw std::runtime_error("a request of that kind is not known");
  }
}

// Whether it waits no more.
bool StoreServer::answer_waiting(Connection& connection) {
  bool there = true;
  for (const std::string& key : connection.keys) there = there && values_.count(key) != 0;
  if (!there && Clock::now() < connection.until) return false;
  Writer out = good().number(static_cast<uint8_t>(there));
  if (there && connection.gets) out.text(values_[connection.keys[0]]);
  add_frame(connection.out, out.bytes());
  connection.keys.clear();
  return true;
}

void StoreServer::wake_waiting() {
  for (Connection& each : connections_)
    if (!each.keys.empty()) answer_waiting(each);
}

void StoreServer::serve() {
  std::vector<pollfd> polled;
  while (!ending_) {
    polled.assign(1, {wake_.descriptor(), POLLIN, 0});
    polled.push_back({listener_.descriptor(), POLLIN, 0});
    bool waiting = false;
    for (const Connection& each : connections_) {
      const short events = each.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled.push_back({each.socket.descriptor(), events, 0});
      waiting = waiting || !each.keys.empty();
    }
    poll(polled.data(), polled.size(), waiting ? 50 : 250);
    if (ending_) break;
    size_t i = 2;
    for (Connection& each : connections_)
      if (polled[i++].revents != 0) receive(each);
    if ((polled[1].revents & POLLIN) != 0) accept_all();
    if (std::exchange(changed_, false) || waiting) wake_waiting();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ranks_.look_for_silence();
    }
    for (Connection& each : connections_) send(each);
    close_ended();
  }
}

}  // namespace

std::unique_ptr<Server> serve_store(const Endpoint& endpoint) {
  return std::make_unique<StoreServer>(endpoint);
}

}  // namespace moonlet::distributed
