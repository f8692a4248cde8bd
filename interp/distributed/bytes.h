// interp/distributed/bytes.h: messages of the store: numbers and texts, one after the other.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace moonlet::distributed {

// Little-endian, as all processors that Moonlet runs on have them.
class Writer {
 public:
  template <class T>
  Writer& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws where the message is shorter than what is read of it.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint32_t>())); }

 private:
  std::string_view take(size_t count) {
    if (count > left_.size()) throw std::runtime_error("a message is cut off");
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  std::string_view left_;
};

}  // namespace moonlet::distributed
