// tensor/program/parts/deferral.h: puts off the ops of a function that were met before in that
// order: their results are tensors of the geometry they had then, on storages without memory. When
// contents are asked for, or the function returns, what was put off runs as one program. An op that
// is another than before runs at once, and is written down as another way to go on.
//
// It holds whatever the function does, as each op is compared by all that it depends on, and
// Storage::data() asks first wherever contents are used:
// - a storage whose op is put off has no memory; one that such an op uses is watched (`watch`), so
//   that it is not read or changed too early.
// - Made memory that nobody is expected to ask for, such as what garbage of a script holds, is left
//   out of the program. Its part is kept, with what it reads watched, until it has gone or is asked
//   for; then it is computed op by op. What was asked for once is in the program of later runs.
// - Changes in place raise versions when they are put off; the program itself writes through
//   storages of its own over the same memory.
// - An op that may raise an error for elements that it reads ends its part, and so raises it there.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/core/storage.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/program/parts/trace.h"

namespace moonlet::program {

class Deferral {
 public:
  Deferral();
  ~Deferral();
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;
  // That of this thread.
  static Deferral& of_thread();

  // Who asks for contents now, and where the script is: for the reasons of new ends.
  struct Script {
    std::function<std::string()> reader;  // "item reads values"
    std::function<std::string()> line;    // "train.lua:12"
  };
  // From now on ops of this thread are those of a function. False when there is one already.
  bool enter(std::shared_ptr<Trace> trace, Script script);
  // The function has returned. Throws what the ops throw that were put off.
  void leave();
  bool is_entered() const { return trace_ != nullptr; }
  // Whether no storage asks it for its contents.
  bool is_idle() const { return marks_.empty(); }
  // Its script is there no more.
  void forget_script() { script_ = {}; }
  // Runs what the function that runs has put off.
  void end_part(const std::string& reason);
  // Of the tensors whose ops wait in the part that is open.
  size_t waiting_bytes() const;
  // Whether a collection of the script's garbage may shorten what waits there; afterwards, with
  // how many bytes waited before.
  bool may_collect() const;
  void note_collected(size_t before);
  // Whether so many parts are kept for what they left out that a script should collect its garbage.
  bool has_many_groups() const { return groups_.size() >= kManyGroups; }
  // Made memory is left out where there are as many bytes of it; below, to compute it costs less
  // than to remember.
  static constinit thread_local size_t least_left_out;
  // Runs all there is, so that no storage waits for this thread.
  void run_all();

 private:
  friend class DeferredCall;
  static constexpr size_t kManyGroups = 32;

  // Contents that are asked for of this thread.
  class Contents final : public DeferredContents {
   public:
    Contents(Deferral& owner, bool has_memory) : owner_(owner), has_memory_(has_memory) {}
    void fill(Storage& storage) override { owner_.asked(storage, has_memory_); }
    void drop(Storage& storage) noexcept override { owner_.dropped(storage); }

   private:
    Deferral& owner_;
    const bool has_memory_;
  };

  // A storage in a buffer of a part.
  struct Bound {
    Storage* storage = nullptr;  // counted where it is external; null when nobody has it any more
    bool is_external = false, is_changed = false;
    int64_t shift = 0;  // in bytes, of an external one: how far behind where the trace has it
  };
  // Ops that were put off, or that ran while they were written down.
  struct Group {
    std::shared_ptr<Trace> trace;
    const TraceStep* last = nullptr;
    PartEnd* end = nullptr;
    std::vector<Bound> buffers;
    std::vector<GivenNumbers> numbers;
    bool waits = false;  // whether its ops have not run
    bool acts = false, must_run = false;
    std::string broken;  // why its contents are lost
  };
  using GroupRef = std::shared_ptr<Group>;
  // What is known of a storage whose contents are asked for here.
  struct Mark {
    bool has_memory = false;
    BufferId open = kNone;  // in the part that is open
    GroupRef maker;         // of memory that was left out
    BufferId made = kNone;
    std::vector<GroupRef> readers;   // what was left out and reads it
    std::shared_ptr<Trace> learned;  // asks are noted in `wanted` of an end
    PartEnd* learner = nullptr;
    BufferId learned_buffer = kNone;
    bool idle() const {
      return open == kNone && maker == nullptr && readers.empty() && learner == nullptr;
    }
  };
  struct Match;
  class Running;

  void asked(Storage& storage, bool has_memory);
  void dropped(Storage& storage) noexcept;

  // --- one op (deferral_match.cpp) ---
  void meet(DeferredCall& call);
  bool is_eligible(const OpInfo& op, const BoxedValues& arguments) const;
  bool is_eligible(const Tensor& t) const;
  bool matches(TraceStep& step, const BoxedValues& arguments, Match& match);
  bool matches_tensor(const TraceStep& step, const Value& v, const Tensor& t, Match& match) const;
  void put_off(TraceStep& step, DeferredCall& call, Match& match);
  BoxedValues made_results(const TraceStep& step);
  void record(DeferredCall& call, const RawOp& raw);
  void begin_step(DeferredCall& call, const RawOp& raw);
  void finish(DeferredCall& call, const BoxedValues& results);
  void bind_external(BufferId buffer, Storage& storage, int64_t shift);
  void step_done(TraceStep& step);

  // --- parts ---
  void open();
  // Ends the open part; `reason` is asked when it never ended there before. `wanted` is a buffer of
  // it that is asked for.
  void close(const std::function<std::string()>& reason, BufferId wanted = kNone);
  // What was put off of the open part runs, and the part goes on with ops that run.
  void run_prefix();
  void drop_open() noexcept;
  void execute(const GroupRef& group);
  std::vector<bool> outputs_of(Group& group) const;
  void run_outputs(Group& group, const std::vector<bool>& outputs);
  bool run_plan(Group& group, const std::vector<bool>& outputs);
  void make_plan(Group& group) const;
  std::vector<Tensor> inputs_of(const Group& group, const std::vector<BufferId>& buffers,
                                const Graph& graph);
  void give(Group& group, const std::vector<BufferId>& buffers, std::vector<Tensor>& made);

  // --- what was left out ---
  void keep(const GroupRef& group);
  void let_go(const GroupRef& group) noexcept;
  // Computes it all; `wanted` is the buffer that is asked for, or kNone.
  void make_up(GroupRef group, BufferId wanted);
  // Before the storage changes: computes what was left out and reads it.
  void make_up_readers(Storage& storage);

  // --- marks ---
  Mark* find(const Storage& storage) {
    const auto found = marks_.find(&storage);
    return found == marks_.end() ? nullptr : &found->second;
  }
  Mark& mark(Storage& storage, bool has_memory);
  void unmark_if_idle(Storage& storage) noexcept;
  std::string at_line() const;

  Contents made_{*this, false}, watched_{*this, true};
  std::unordered_map<const Storage*, Mark> marks_;
  std::vector<GroupRef> groups_;  // with contents left out, the oldest first
  std::shared_ptr<Trace> trace_;
  Script script_;
  PartEnd* start_ = nullptr;  // what the open part begins behind
  TraceStep* at_ = nullptr;   // the last step
  GroupRef open_;
  bool running_ = false;  // ops of our own run
  bool recorded_ = false;
};

}  // namespace moonlet::program
