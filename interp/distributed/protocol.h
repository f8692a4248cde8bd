// interp/distributed/protocol.h: what store and clients say to each other. The server begins with
// kGreeting, its version and a number that is used once; the client answers with the same greeting,
// its version, and a proof that it knows the secret. Then each request, a frame, has one reply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/io/sha256.h"

namespace moonlet::distributed {

inline constexpr std::string_view kGreeting = "MOONLET STORE \r\n";
inline constexpr uint32_t kProtocol = 2;
inline constexpr size_t kNonceBytes = 16;
inline constexpr size_t kHelloBytes = 16 + 4 + kNonceBytes;
inline constexpr size_t kProofBytes = 16 + 4 + 32;
static_assert(kGreeting.size() == 16);

// A frame is the size of what follows and that: a request begins with its kind, a reply with
// kGood or kBad, behind which an error's text comes.
inline constexpr uint32_t kMostBytes = 256u << 20;
enum class Request : uint8_t {
  Set,
  Get,
  Add,
  Wait,
  Remove,
  CompareSet,
  Count,
  Register,
  Beat,
  Peers,
  Leave
};
inline constexpr uint8_t kBad = 0, kGood = 1;

inline std::string proof_of(std::string_view secret, std::string_view nonce) {
  const io::Digest digest =
      io::sha256(std::string(nonce).append(secret).append("moonlet").append(nonce));
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace moonlet::distributed
