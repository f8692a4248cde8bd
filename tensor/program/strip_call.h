// tensor/program/strip_call.h: the memory of one thread for a strip: tensors of as many rows as run
// at once, and how far each part is.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tensor/functors/philox.h"
#include "tensor/program/fusion/strip.h"

namespace moonlet::program {

class StripCall {
 public:
  // Where a buffer lies during a run.
  struct Home {
    Storage* storage;
    int64_t shift;  // in bytes
  };

  // `tensor` gives the tensor of a value, which its owner keeps where the value lies.
  StripCall(const Strip& strip, const Graph& graph,
            const std::function<const Tensor&(ValueId)>& tensor);
  ~StripCall();
  StripCall(const StripCall&) = delete;
  StripCall& operator=(const StripCall&) = delete;

  // The buffers whose homes a run is given, in order.
  const std::vector<BufferId>& buffers() const { return buffers_; }
  // `at` gets the node that runs. Throws as the ops do.
  void run(std::span<const Home> homes, int32_t& at);

 private:
  // A tensor of some rows.
  struct RowTensor {
    Tensor tensor;
    int home = 0;        // index into buffers
    int64_t offset = 0;  // of row 0, in elements
    int64_t step = 0;    // of a row, in elements; 0 where the memory is that of a strip's rows
  };
  // An op's call; those of parts that are none are empty.
  struct Call {
    std::vector<BoxedValue> arguments;
    std::vector<Tensor> results;
  };
  struct Part {
    Call whole, last;
    std::vector<int> operands;  // of a loop: its homes
    RowTensor from;             // of a fold
    std::vector<char> runs;
    Tensor result;
    Philox numbers;  // of a mask
  };
  class Let;

  int home_of(BufferId buffer);
  Tensor row_tensor(ValueId id, int64_t rows);
  Call make_call(const StripPart& part, int64_t rows,
                 const std::function<const Tensor&(ValueId)>& tensor);
  void prepare_fold(const StripPart& part, Part& to,
                    const std::function<const Tensor&(ValueId)>& tensor);
  void bind(std::span<const Home> homes);
  void let_go();
  void draw();
  void run_part(size_t i, std::span<const Home> homes, int64_t first, int64_t rows);
  void run_loop(size_t i, std::span<const Home> homes, int64_t first, int64_t rows);

  const Strip& strip_;
  const Graph& graph_;
  std::vector<BufferId> buffers_;
  std::vector<bool> is_local_;  // by home
  std::vector<Part> parts_;
  std::vector<RowTensor> tensors_;
  Storage* idle_ = nullptr;  // where those lie between runs; counted
  BoxedValues results_;
};

}  // namespace moonlet::program
