// tensor/cpu/common/prepared_operands.h: what kernels have made of operands that stay the same from
// run to run, such as weights in the layout that a library computes in. It belongs to who makes the
// calls, a context of a program, so eager calls have none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/core/tensor.h"

namespace moonlet::cpu {

class PreparedOperands {
 public:
  // The most bytes that are kept.
  static constexpr int64_t kMostBytes = int64_t{256} << 20;

  // The tensors on this storage stay the same but for ops, which raise its version.
  void allow(const Storage& storage) {
    if (std::find(allowed_.begin(), allowed_.end(), &storage) == allowed_.end())
      allowed_.push_back(&storage);
  }
  bool empty() const { return allowed_.empty(); }

  // Which matrix of a storage, and what is made of it. The layout is kept.
  struct Form {
    std::array<int64_t, 4> geometry{};
    std::shared_ptr<const void> layout;
    bool operator==(const Form&) const = default;
  };

  // The operand at `data` as make(to) writes it into so many bytes: made when it is first wanted
  // and when the operand has changed since. Null where the operand may change unseen, or would be
  // too large. For one thread.
  template <class Make>
  const Tensor* get(const void* data, const Form& form, size_t bytes, Make&& make) {
    const Storage* const storage = storage_of(data);
    if (storage == nullptr || storage->has_other_writers() || storage->is_foreign()) return nullptr;
    Entry* entry = find(*storage, data, form);
    if (entry == nullptr) {
      if (bytes_ + static_cast<int64_t>(bytes) > kMostBytes) return nullptr;
      Tensor made =
          empty_plain({static_cast<int64_t>(bytes > 0 ? bytes : 1)}, {DType::UInt8, {}}, "program");
      entries_.push_back({form, storage, data, std::nullopt, std::move(made)});
      bytes_ += static_cast<int64_t>(bytes);
      entry = &entries_.back();
    }
    if (entry->version == storage->version()) return &entry->made;
    entry->version.reset();
    make(entry->made);
    entry->version = storage->version();
    ++made_;
    return &entry->made;
  }

  // How often something was made, for tests.
  int64_t made() const { return made_; }

 private:
  struct Entry {
    Form form;
    const Storage* storage;
    const void* data;
    std::optional<uint32_t> version;
    Tensor made;
  };
  const Storage* storage_of(const void* data) const {
    const auto* at = static_cast<const char*>(data);
    for (const Storage* each : allowed_)
      if (at >= each->data() && at < each->data() + each->bytes()) return each;
    return nullptr;
  }
  Entry* find(const Storage& storage, const void* data, const Form& form) {
    for (Entry& each : entries_)
      if (each.data == data && each.storage == &storage && each.form == form) return &each;
    return nullptr;
  }

  std::vector<const Storage*> allowed_;
  std::list<Entry> entries_;
  int64_t bytes_ = 0, made_ = 0;
};

// Those of the call that this thread makes; null where it has none.
inline thread_local PreparedOperands* prepared_operands = nullptr;

// Makes them those of the calls of a C++ scope.
class PreparedScope {
 public:
  explicit PreparedScope(PreparedOperands* of) : before_(prepared_operands) {
    prepared_operands = of;
  }
  ~PreparedScope() { prepared_operands = before_; }
  PreparedScope(const PreparedScope&) = delete;
  PreparedScope& operator=(const PreparedScope&) = delete;

 private:
  PreparedOperands* const before_;
};

}  // namespace moonlet::cpu
