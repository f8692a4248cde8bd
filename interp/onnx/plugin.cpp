// interp/onnx/plugin.cpp: moonlet-onnx.so: ONNX's messages, by the reflection of protobuf, and its
// checker. A plugin, so that programs without ONNX need none of the libraries.
#include <climits>
#include <limits>
#include <stdexcept>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "interp/onnx/codec.h"

namespace moonlet {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Messages nest by graphs inside nodes; ONNX's own nest less than ten levels deep.
constexpr int kMostLevels = 100;

onnx::ModelProto parse(std::string_view bytes) {
  if (bytes.size() > INT_MAX) throw std::runtime_error("a model of ONNX is smaller than 2 GiB");
  const google::protobuf::LogSilencer silence;
  onnx::ModelProto model;
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMostLevels);
  if (!model.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage())
    throw std::runtime_error("it is no ONNX model, or damaged or cut off, near byte " +
                             std::to_string(input.CurrentPosition()));
  return model;
}

// --- checking and building -----------------------------------------------------------------------

void check_message(const onnx::ModelProto& model) {
  const google::protobuf::LogSilencer silence;
  onnx::checker::check_model(model);
}

void check(std::string_view bytes) { check_message(parse(bytes)); }

class Builder final : public OnnxBuilder {
 public:
  void begin_message() override {
    if (levels_.empty()) return levels_.push_back({&model_, nullptr});
    const FieldDescriptor* field = wanted(FieldDescriptor::CPPTYPE_MESSAGE, "a table of names");
    Message& in = *levels_.back().message;
    if (levels_.size() >= kMostLevels) throw std::runtime_error("the model nests too deeply");
    const Reflection& r = *in.GetReflection();
    levels_.push_back(
        {field->is_repeated() ? r.AddMessage(&in, field) : r.MutableMessage(&in, field), nullptr});
  }
  void end_message() override { levels_.pop_back(); }

  void key(const char* name) override {
    Level& level = levels_.back();
    level.field = level.message->GetDescriptor()->FindFieldByName(name);
    if (!level.field)
      throw std::runtime_error(level.message->GetTypeName() + " has no field '" + name + "'");
  }

  void begin_list() override {
    const FieldDescriptor* field = this->field();
    if (!field->is_repeated()) throw std::runtime_error("'" + field->full_name() + "' is no list");
  }
  void end_list() override {}

  void integer(int64_t value) override {
    const FieldDescriptor* f = field();
    Message* m = levels_.back().message;
    const Reflection& r = *m->GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return f->is_repeated() ? r.AddInt64(m, f, value) : r.SetInt64(m, f, value);
      case FieldDescriptor::CPPTYPE_INT32: {
        const int32_t small = narrow(value, f);
        return f->is_repeated() ? r.AddInt32(m, f, small) : r.SetInt32(m, f, small);
      }
      case FieldDescriptor::CPPTYPE_ENUM: return r.SetEnumValue(m, f, narrow(value, f));
      case FieldDescriptor::CPPTYPE_FLOAT: return number(static_cast<double>(value));
      default: mismatch(f, "an integer");
    }
  }

  void number(double value) override {
    const FieldDescriptor* f = wanted(FieldDescriptor::CPPTYPE_FLOAT, "a number");
    Message* m = levels_.back().message;
    const Reflection& r = *m->GetReflection();
    const auto narrow = static_cast<float>(value);
    if (f->is_repeated())
      r.AddFloat(m, f, narrow);
    else
      r.SetFloat(m, f, narrow);
  }

  void bytes(std::string_view value) override {
    const FieldDescriptor* f = wanted(FieldDescriptor::CPPTYPE_STRING, "a string");
    Message* m = levels_.back().message;
    if (f->is_repeated())
      m->GetReflection()->AddString(m, f, std::string(value));
    else
      m->GetReflection()->SetString(m, f, std::string(value));
  }

  std::string take(bool checked) override {
    if (const size_t size = model_.ByteSizeLong(); size > INT_MAX)
      throw std::runtime_error("the model has " + std::to_string(size) +
                               " bytes, and an ONNX file holds less than 2 GiB");
    if (checked) check_message(model_);
    const google::protobuf::LogSilencer silence;
    return model_.SerializeAsString();
  }

 private:
  struct Level {
    Message* message;
    const FieldDescriptor* field;
  };

  [[noreturn]] static void mismatch(const FieldDescriptor* field, const char* given) {
    throw std::runtime_error("'" + field->full_name() + "' takes no value that is " + given);
  }
  const FieldDescriptor* field() const {
    if (levels_.empty() || !levels_.back().field)
      throw std::runtime_error("a model is a table of names");
    return levels_.back().field;
  }
  const FieldDescriptor* wanted(FieldDescriptor::CppType type, const char* given) const {
    const FieldDescriptor* found = field();
    if (found->cpp_type() != type) mismatch(found, given);
    return found;
  }
  static int32_t narrow(int64_t value, const FieldDescriptor* field) {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
      throw std::runtime_error("'" + field->full_name() + "' holds no " + std::to_string(value));
    return static_cast<int32_t>(value);
  }

  onnx::ModelProto model_;
  std::vector<Level> levels_;
};

std::unique_ptr<OnnxBuilder> build() { return std::make_unique<Builder>(); }

}  // namespace
}  // namespace moonlet

extern "C" __attribute__((visibility("default"))) const moonlet::OnnxCodec moonlet_onnx_codec = {
    moonlet::kOnnxVersion, moonlet::check, moonlet::build};
