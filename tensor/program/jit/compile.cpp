// tensor/program/jit/compile.cpp: compiled code by content, and its executor.
#include "tensor/program/jit/compile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tensor/cpu/pointwise/pointwise_targets.h"
//
#include "hwy/targets.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/program/jit/loop_trace.h"
#if defined(__aarch64__)
#include "tensor/program/jit/neon_emitter.h"
#else
#include "tensor/program/jit/emitter.h"
#endif

namespace moonlet::program {

namespace jit {

namespace {

// Never destroyed, as programs may live as long as the process.
asmjit::JitRuntime& runtime() {
  static auto* const made = new asmjit::JitRuntime;
  return *made;
}

std::atomic<int64_t> alive, compiled, alive_bytes;

// A function in executable memory.
class CompiledCode {
 public:
  CompiledCode(Function function, int64_t bytes) : function_(function), bytes_(bytes) {
    ++alive, ++compiled, alive_bytes += bytes;
  }
  ~CompiledCode() {
    runtime().release(function_);
    --alive, alive_bytes -= bytes_;
  }
  CompiledCode(const CompiledCode&) = delete;
  CompiledCode& operator=(const CompiledCode&) = delete;
  Function function() const { return function_; }

 private:
  const Function function_;
  const int64_t bytes_;
};
using SharedCode = std::shared_ptr<const CompiledCode>;

// The elements of rows from which on two vectors at once leave few lanes empty.
constexpr int64_t kLongRow = 128;

// What the code depends on.
template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_memory(std::string& key, const Loop& loop, const Loop::Memory& memory) {
  append(key, memory.dtype);
  append(key, memory.strides[0]);
  append(key, loop.ndim > 1 ? memory.strides[1] : int64_t{0});
}
void append_number(std::string& key, const Scalar& number) {
  append(key, number.default_dtype());
  if (is_complex(number.default_dtype()))
    append(key, number.to<complex128>());
  else if (is_floating(number.default_dtype()))
    append(key, number.to<double>());
  else
    append(key, number.to<int64_t>());
}
bool has_long_rows(const Loop& loop) { return loop.sizes[0] >= kLongRow; }
std::string key_of(const Loop& loop, Target target) {
  std::string key;
  append(key, target);
  append(key, has_long_rows(loop));
  for (const Loop::Memory& load : loop.loads) append_memory(key, loop, load);
  key += '|';
  for (const Loop::Op& op : loop.ops) {
    append(key, op.op);
    append(key, op.compute);
    append(key, op.dtype);
    for (int k = 0; k < op.inputs; ++k) {
      append(key, op.in[k].kind);
      if (op.in[k].kind == Loop::Source::Number)
        append_number(key, loop.numbers[op.in[k].index]);
      else
        append(key, op.in[k].index);
    }
    for (int k = 0; k < op.param_count; ++k) append_number(key, loop.params[op.first_param + k]);
    key += ';';
  }
  for (const Loop::Store& store : loop.stores) {
    append(key, store.op);
    append_memory(key, loop, store.to);
  }
  return key;
}

SharedCode compile(const Loop& loop, Target target) {
  Body body;
  if (!trace_loop(loop, target, body)) return nullptr;
  body.long_rows = has_long_rows(loop);
  asmjit::CodeHolder code;
  if (code.init(runtime().environment()) != asmjit::kErrorOk) return nullptr;
#if defined(__aarch64__)
  NeonEmitter emitter(body, code);
#else
  Emitter emitter(body, code);
#endif
  if (!emitter.emit()) return nullptr;
  Function function = nullptr;
  if (runtime().add(&function, &code) != asmjit::kErrorOk) return nullptr;
  return std::make_shared<const CompiledCode>(function, static_cast<int64_t>(code.codeSize()));
}

// Of all threads. What no loop has any more is forgotten when the table has grown.
SharedCode code_of(const Loop& loop, Target target) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<std::string, std::weak_ptr<const CompiledCode>>;
  static size_t limit = 256;
  const std::string key = key_of(loop, target);
  {
    const std::lock_guard lock(mutex);
    const auto found = known->find(key);
    if (found != known->end())
      if (SharedCode code = found->second.lock()) return code;
  }
  SharedCode code = compile(loop, target);
  if (!code) return nullptr;
  const std::lock_guard lock(mutex);
  if (known->size() >= limit) {
    std::erase_if(*known, [](const auto& each) { return each.second.expired(); });
    limit = std::max<size_t>(256, 2 * known->size());
  }
  std::weak_ptr<const CompiledCode>& slot = (*known)[key];
  // Another thread may have been faster.
  if (SharedCode other = slot.lock()) return other;
  slot = code;
  return code;
}

class JitExecutor : public LoopExecutor {
 public:
  JitExecutor(const Loop& loop, SharedCode code) : loop_(loop), code_(std::move(code)) {
    for (const Loop::Memory& load : loop.loads) operands_.push_back(load);
    for (const Loop::Store& store : loop.stores) operands_.push_back(store.to);
    const int64_t columns = loop.sizes[0];
    for (int d = 1; d < loop.ndim; ++d) rows_ *= loop.sizes[d];
    parts_ = (columns + 2 * kColumns - 1) / (2 * kColumns);
    if (parts_ > 1) parts_ = (columns + kColumns - 1) / kColumns;
    const int64_t unit = parts_ > 1 ? kColumns : columns;
    const auto ops = static_cast<int64_t>(loop.ops.size());
    grain_ = std::max<int64_t>(1, cpu::grain_for(ops) / std::max<int64_t>(unit, 1));
  }

  bool is_compiled() const override { return true; }
  void run(char* const* addresses) const override {
    if (loop_.numel == 0) return;
    if (rows_ * parts_ == 1) return run_units(addresses, 0, 1);
    cpu::parallel_for(rows_ * parts_, grain_,
                      [&](int64_t begin, int64_t end) { run_units(addresses, begin, end); });
  }

 private:
  // Long rows go to threads in parts of so many elements.
  static constexpr int64_t kColumns = 16384;

  // Units are rows, or parts of them: one call for those that follow each other in dimension 1.
  void run_units(char* const* addresses, int64_t begin, int64_t end) const {
    char* cursors[Loop::kMaxOperands];
    const int count = static_cast<int>(operands_.size());
    while (begin < end) {
      int64_t row = begin / parts_;
      const int64_t first = begin % parts_ * kColumns;
      for (int i = 0; i < count; ++i)
        cursors[i] =
            addresses[operands_[i].slot] + operands_[i].offset + first * operands_[i].strides[0];
      int64_t rows = 1;
      for (int d = 1; d < loop_.ndim; ++d) {
        const int64_t index = row % loop_.sizes[d];
        row /= loop_.sizes[d];
        if (d == 1 && parts_ == 1) rows = std::min(loop_.sizes[1] - index, end - begin);
        if (index == 0) continue;
        for (int i = 0; i < count; ++i) cursors[i] += index * operands_[i].strides[d];
      }
      int64_t columns = loop_.sizes[0], units = rows;
      if (parts_ > 1) {
        const int64_t parts = std::min(end - begin, parts_ - begin % parts_);
        columns = std::min(columns - first, parts * kColumns);
        units = parts;
      }
      code_->function()(cursors, columns, rows);
      begin += units;
    }
  }

  const Loop loop_;
  const SharedCode code_;
  std::vector<Loop::Memory> operands_;
  int64_t rows_ = 1, parts_ = 1, grain_ = 1;
};

}  // namespace

bool best_target(Target& target) {
  // Of those that the kernels are compiled for.
  const int64_t has = hwy::SupportedTargets() & HWY_TARGETS;
#if defined(__aarch64__)
  target = Target::Neon;
  return (has & HWY_NEON) != 0;
#else
  target = (has & HWY_AVX3) ? Target::Avx512 : Target::Avx2;
  return (has & (HWY_AVX3 | HWY_AVX2)) != 0 && asmjit::CpuInfo::host().features().x86().hasF16C();
#endif
}

std::unique_ptr<const LoopExecutor> compile_for(const Loop& loop, Target target) {
  if (loop.device.type != DeviceType::CPU || loop.ops.empty()) return nullptr;
  if (loop.loads.size() + loop.stores.size() > Loop::kMaxOperands) return nullptr;
  SharedCode code = code_of(loop, target);
  if (!code) return nullptr;
  return std::make_unique<const JitExecutor>(loop, std::move(code));
}

Statistics statistics() { return {alive, compiled, alive_bytes}; }

}  // namespace jit

std::unique_ptr<const LoopExecutor> compile_jit(const Loop& loop) {
  jit::Target target;
  if (!jit::best_target(target)) return nullptr;
  return jit::compile_for(loop, target);
}

}  // namespace moonlet::program
