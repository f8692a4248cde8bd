// interp/onnx/codec.h: what the ONNX plugin offers: models built from a walk over their fields, and
// ONNX's checker. The plugin knows ONNX's messages; this side of it knows Lua.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace moonlet {

// Gets what a message holds, field by field: a message is begin_message, for each of its fields a
// key and a value, and end_message; a value is a number, bytes, a message or a list of values.
class OnnxVisitor {
 public:
  virtual ~OnnxVisitor() = default;
  virtual void begin_message() = 0;
  virtual void key(const char* name) = 0;
  virtual void end_message() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  virtual void integer(int64_t value) = 0;
  virtual void number(double value) = 0;
  virtual void bytes(std::string_view value) = 0;
};

// Builds a model from such a walk. What does not fit ONNX's messages is an error.
class OnnxBuilder : public OnnxVisitor {
 public:
  // The bytes of the finished model, after ONNX's checker has looked at it where `checked`.
  virtual std::string take(bool checked) = 0;
};

// Its functions throw std::exception.
struct OnnxCodec {
  uint64_t version;  // kOnnxVersion of its build
  void (*check)(std::string_view model);
  std::unique_ptr<OnnxBuilder> (*build)();
};
inline constexpr uint64_t kOnnxVersion = 2;
// The plugin's one exported object.
inline constexpr const char* kOnnxCodec = "moonlet_onnx_codec";

}  // namespace moonlet
