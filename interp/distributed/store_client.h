// interp/distributed/store_client.h: a connection to a store.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interp/distributed/bytes.h"
#include "interp/distributed/engine.h"
#include "interp/distributed/protocol.h"
#include "interp/distributed/sockets.h"

namespace moonlet::distributed {

// A store that lives answers in this time.
inline constexpr double kAnswerSeconds = 10;

// For several threads; each request has the connection for itself.
class StoreClient final : public Store {
 public:
  // Throws where there is no such store in that time.
  StoreClient(Endpoint endpoint, double seconds, const Tick& tick);

  void set(std::string_view key, std::string_view value, const Tick& tick) override;
  std::optional<std::string> get(std::string_view key, double seconds, const Tick& tick) override;
  int64_t add(std::string_view key, int64_t amount, const Tick& tick) override;
  bool wait(const std::vector<std::string>& keys, double seconds, const Tick& tick) override;
  bool remove(std::string_view key, const Tick& tick) override;
  std::optional<std::string> compare_set(std::string_view key, std::string_view expected,
                                         std::string_view desired, const Tick& tick) override;
  int64_t count(const Tick& tick) override;

  // Of the connection of a rank.
  void register_rank(const std::string& run, int rank, int size, double limit, const Tick& tick);
  std::vector<Peer> beat(const std::string& doing, double seconds);
  std::vector<Peer> peers(const std::string& run, double seconds, const Tick& tick);
  void leave(bool failed, const std::string& reason, double seconds);

  std::string own_address() const { return address_; }
  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Socket connect(double seconds, const Tick& tick) const;
  // The reply to a request, which the store takes that time to answer at most.
  std::string ask(const Writer& request, double seconds, const Tick& tick);
  std::vector<Peer> read_peers(const std::string& reply) const;

  const Endpoint endpoint_;
  std::mutex mutex_;
  Socket socket_;
  std::string address_;
};

}  // namespace moonlet::distributed
