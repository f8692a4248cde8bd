// interp/distributed/store_client.cpp: a connection to a store.
#include "interp/distributed/store_client.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace moonlet::distributed {
namespace {

Writer request(Request kind) { return Writer().number(kind); }

std::string read_frame(const Socket& socket, Clock::time_point until, const Tick& tick) {
  uint32_t size = 0;
  receive_all(socket, reinterpret_cast<char*>(&size), sizeof size, until, tick);
  if (size > kMostBytes) throw Closed("the answer is none of a store");
  std::string out(size, '\0');
  receive_all(socket, out.data(), size, until, tick);
  return out;
}

// What is behind the mark that the request was met.
std::string checked(std::string reply) {
  Reader in(reply);
  if (in.number<uint8_t>() != kGood) throw std::runtime_error(in.text());
  return reply.substr(1);
}

}  // namespace

StoreClient::StoreClient(Endpoint endpoint, double seconds, const Tick& tick)
    : endpoint_(std::move(endpoint)), socket_(connect(seconds, tick)) {
  address_ = moonlet::distributed::own_address(socket_);
}

Socket StoreClient::connect(double seconds, const Tick& tick) const {
  Socket socket = connect_to(endpoint_.host, endpoint_.port, after(seconds), tick);
  const std::string at = "'" + endpoint_.host + ":" + std::to_string(endpoint_.port) + "'";
  const Clock::time_point until = after(std::min(std::max(seconds, 1.0), kAnswerSeconds));
  try {
    std::string hello(kHelloBytes, '\0');
    receive_all(socket, hello.data(), kGreeting.size(), until, tick);
    if (hello.compare(0, kGreeting.size(), kGreeting) != 0) throw Closed("it is another program");
    receive_all(socket, hello.data() + kGreeting.size(), kHelloBytes - kGreeting.size(), until,
                tick);
    const auto version =
        Reader(std::string_view(hello).substr(kGreeting.size())).number<uint32_t>();
    if (version != kProtocol)
      throw std::runtime_error("the store at " + at +
                               " is of another version of Moonlet: its "
                               "protocol is " +
                               std::to_string(version) + ", this one's " +
                               std::to_string(kProtocol));
    const std::string nonce = hello.substr(kHelloBytes - kNonceBytes);
    send_all(socket,
             std::string(kGreeting) + Writer().number(kProtocol).bytes() +
                 proof_of(endpoint_.secret, nonce),
             until, tick);
    checked(read_frame(socket, until, tick));
  } catch (const Closed& e) {
    throw std::runtime_error("no store of Moonlet answers at " + at + ": " + e.what());
  } catch (const TimedOut&) {
    throw std::runtime_error("what listens at " + at + " does not answer as a store of Moonlet");
  }
  return socket;
}

std::string StoreClient::ask(const Writer& request, double seconds, const Tick& tick) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!socket_.is_open()) socket_ = connect(std::min(seconds, kAnswerSeconds), tick);
  // What ends the wait leaves an answer behind, so the connection ends, too.
  struct Closer {
    Socket* socket;
    ~Closer() {
      if (socket != nullptr) socket->close();
    }
  } closer{&socket_};
  const Clock::time_point until = after(seconds);
  std::string reply;
  try {
    send_all(socket_, Writer().text(request.bytes()).bytes(), until, tick);
    reply = read_frame(socket_, until, tick);
  } catch (const Closed& e) {
    throw std::runtime_error("the store at '" + endpoint_.host + ":" +
                             std::to_string(endpoint_.port) + "' is gone: " + e.what());
  } catch (const TimedOut&) {
    throw std::runtime_error("the store at '" + endpoint_.host + ":" +
                             std::to_string(endpoint_.port) + "' does not answer");
  }
  closer.socket = nullptr;
  return checked(std::move(reply));
}

void StoreClient::set(std::string_view key, std::string_view value, const Tick& tick) {
  ask(request(Request::Set).text(key).text(value), kAnswerSeconds, tick);
}

std::optional<std::string> StoreClient::get(std::string_view key, double seconds,
                                            const Tick& tick) {
  const std::string reply = ask(request(Request::Get).number(seconds).number(uint32_t{1}).text(key),
                                seconds + kAnswerSeconds, tick);
  Reader in(reply);
  if (in.number<uint8_t>() == 0) return std::nullopt;
  return in.text();
}

int64_t StoreClient::add(std::string_view key, int64_t amount, const Tick& tick) {
  const std::string reply =
      ask(request(Request::Add).text(key).number(amount), kAnswerSeconds, tick);
  return Reader(reply).number<int64_t>();
}

bool StoreClient::wait(const std::vector<std::string>& keys, double seconds, const Tick& tick) {
  Writer out = request(Request::Wait).number(seconds).number(static_cast<uint32_t>(keys.size()));
  for (const std::string& key : keys) out.text(key);
  const std::string reply = ask(out, seconds + kAnswerSeconds, tick);
  return Reader(reply).number<uint8_t>() != 0;
}

bool StoreClient::remove(std::string_view key, const Tick& tick) {
  const std::string reply = ask(request(Request::Remove).text(key), kAnswerSeconds, tick);
  return Reader(reply).number<uint8_t>() != 0;
}

std::optional<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                                    std::string_view desired, const Tick& tick) {
  const std::string reply = ask(request(Request::CompareSet).text(key).text(expected).text(desired),
                                kAnswerSeconds, tick);
  Reader in(reply);
  if (in.number<uint8_t>() == 0) return std::nullopt;
  return in.text();
}

int64_t StoreClient::count(const Tick& tick) {
  const std::string reply = ask(request(Request::Count), kAnswerSeconds, tick);
  return Reader(reply).number<int64_t>();
}

void StoreClient::register_rank(const std::string& run, int rank, int size, double limit,
                                const Tick& tick) {
  ask(request(Request::Register).text(run).number(rank).number(size).number(limit), kAnswerSeconds,
      tick);
}

std::vector<Peer> StoreClient::beat(const std::string& doing, double seconds) {
  return read_peers(ask(request(Request::Beat).text(doing), seconds, {}));
}

std::vector<Peer> StoreClient::peers(const std::string& run, double seconds, const Tick& tick) {
  return read_peers(ask(request(Request::Peers).text(run), seconds, tick));
}

void StoreClient::leave(bool failed, const std::string& reason, double seconds) {
  ask(request(Request::Leave).number(static_cast<uint8_t>(failed)).text(reason), seconds, {});
}

std::vector<Peer> StoreClient::read_peers(const std::string& reply) const {
  Reader in(reply);
  std::vector<Peer> out;
  for (auto left = in.number<uint32_t>(); left > 0; --left) {
    Peer peer;
    peer.rank = in.number<int>();
    peer.end = in.number<End>();
    peer.text = in.text();
    peer.doing = in.text();
    peer.age = in.number<double>();
    out.push_back(std::move(peer));
  }
  return out;
}

}  // namespace moonlet::distributed
