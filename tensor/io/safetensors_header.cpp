// tensor/io/safetensors_header.cpp: the strict reader and the writer of safetensors headers.
#include "tensor/io/safetensors_header.h"

#include <algorithm>
#include <limits>

#include "tensor/io/json.h"
#include "tensor/io/read_budget.h"

namespace moonlet::io {
namespace {

// Types of the format that have no dtype here, and the bits of an element.
struct ForeignType {
  std::string_view code;
  int bits;
};
constexpr ForeignType kForeignTypes[] = {{"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
                                         {"F4", 4},      {"F6_E2M3", 6},     {"F6_E3M2", 6}};

void set_type(SafetensorsEntry& entry, const std::string& code, const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (code != kDTypes[i].code) continue;
    entry.dtype = static_cast<DType>(i);
    entry.bits = static_cast<int>(size_of(entry.dtype)) * 8;
    return;
  }
  for (const ForeignType& type : kForeignTypes) {
    if (code != type.code) continue;
    entry.foreign = type.code;
    entry.bits = type.bits;
    return;
  }
  fail("'", name, "' has the dtype ", code, ", which is not supported");
}

// What a tensor takes beside its elements: here, and as a value of a script.
constexpr uint64_t kTensorBytes = 768;

// The bytes that the elements of an entry take.
int64_t bytes_of(const SafetensorsEntry& entry) {
  const int64_t count = numel_of(entry.shape, "safetensors");
  if (count > std::numeric_limits<int64_t>::max() / entry.bits || count * entry.bits % 8 != 0)
    fail("'", entry.name, "' has the wrong shape ", entry.shape);
  return count * entry.bits / 8;
}

// What a header may hold: an object of entries, each an object of three fields, and the metadata.
class HeaderReader : public JsonHandler {
 public:
  void null() override { unexpected("null"); }
  void boolean(bool) override { unexpected("a boolean"); }
  void number(double) override { unexpected("a number with a fraction"); }

  void integer(int64_t value) override {
    if (state_ != State::List) unexpected("a number");
    if (value < 0) unexpected("a negative number");
    if (list_.size() == static_cast<size_t>(kMaxDims))
      fail(field_, " of '", name_, "' has more than ", kMaxDims, " numbers");
    list_.push_back(value);
  }

  void string(std::string value) override {
    if (state_ == State::Metadata)
      header.metadata.emplace(name_, std::move(value));
    else if (state_ == State::Entry && field_ == "dtype")
      set_type(entry_, value, name_);
    else
      unexpected("a string");
  }

  void begin_array() override {
    if (state_ != State::Entry || field_ == "dtype") unexpected("a list");
    state_ = State::List;
    list_.clear();
  }

  void end_array() override {
    state_ = State::Entry;
    if (field_ == "shape") {
      for (const int64_t size : list_) entry_.shape.push_back(size);
      return;
    }
    if (list_.size() != 2) fail("data_offsets of '", name_, "' are not two numbers");
    entry_.begin = list_[0];
    entry_.end = list_[1];
  }

  void begin_object() override {
    if (state_ == State::Outside) {
      state_ = State::Header;
      return;
    }
    if (state_ != State::Header) unexpected("an object");
    state_ = name_ == "__metadata__" ? State::Metadata : State::Entry;
    entry_ = {};
    fields_ = 0;
  }

  void key(std::string name) override {
    if (state_ != State::Entry) {
      name_ = std::move(name);
      return;
    }
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      fail("unexpected field '", name, "' in '", name_, "'");
    field_ = std::move(name);
    ++fields_;
  }

  void end_object() override {
    if (state_ == State::Entry) {
      if (fields_ != 3) fail("'", name_, "' lacks dtype, shape or data_offsets");
      entry_.name = std::move(name_);
      header.tensors.push_back(std::move(entry_));
    }
    state_ = state_ == State::Header ? State::Outside : State::Header;
  }

  SafetensorsHeader header;

 private:
  enum class State { Outside, Header, Metadata, Entry, List };

  [[noreturn]] void unexpected(const char* got) const {
    switch (state_) {
      case State::Header: fail("'", name_, "' must be an object, got ", got);
      case State::Metadata: fail("metadata '", name_, "' must be a string, got ", got);
      case State::List: fail(field_, " of '", name_, "' must hold whole numbers, got ", got);
      default: break;
    }
    fail(field_, " of '", name_, "' must be ",
         field_ == "dtype" ? "a string" : "a list of whole numbers", ", got ", got);
  }

  State state_ = State::Outside;
  std::string name_, field_;  // the keys read last
  SafetensorsEntry entry_;
  int fields_ = 0;  // how many the entry has so far
  std::vector<int64_t> list_;
};

// Each tensor's bytes follow those of the one before, from the first byte to the last.
void check_layout(std::vector<SafetensorsEntry>& tensors, int64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (const SafetensorsEntry& entry : tensors) {
    if (entry.end < entry.begin || entry.end > data_bytes)
      fail("'", entry.name, "' lies at bytes ", entry.begin, " to ", entry.end, " of ", data_bytes);
    const int64_t wanted = bytes_of(entry);
    if (entry.end - entry.begin != wanted)
      fail("'", entry.name, "' has ", entry.end - entry.begin, " bytes; shape ", entry.shape,
           " of ", entry.foreign.empty() ? name(entry.dtype) : entry.foreign, " wants ", wanted);
    if (entry.begin < at) fail("'", entry.name, "' overlaps the tensor before it");
    if (entry.begin > at) fail("there is a hole before '", entry.name, "'");
    at = entry.end;
  }
  if (at != data_bytes) fail(data_bytes - at, " bytes after the last tensor belong to none");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           ReadBudget& budget) {
  if (text.empty() || text.front() != '{') fail("the header does not start with '{'");
  HeaderReader reader;
  read_json(text, "bad header", reader, &budget);
  budget.take(reader.header.tensors.size() * kTensorBytes);
  check_layout(reader.header.tensors, data_bytes);
  return std::move(reader.header);
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  JsonWriter out;
  out.begin_object();
  if (!header.metadata.empty()) {
    out.key("__metadata__");
    out.begin_object();
    for (const auto& [name, value] : header.metadata) {
      out.key(name);
      out.string(value);
    }
    out.end_object();
  }
  for (const SafetensorsEntry& entry : header.tensors) {
    out.key(entry.name);
    out.begin_object();
    out.key("dtype");
    out.string(info(entry.dtype).code);
    out.key("shape");
    out.begin_array();
    for (const int64_t size : entry.shape) out.integer(size);
    out.end_array();
    out.key("data_offsets");
    out.begin_array();
    out.integer(entry.begin);
    out.integer(entry.end);
    out.end_array();
    out.end_object();
  }
  out.end_object();
  std::string text = out.take();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace moonlet::io
