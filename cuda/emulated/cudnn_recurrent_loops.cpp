// cuda/emulated/cudnn_recurrent_loops.cpp: recurrent networks by the formulas in the description of
// cudnnRNNMode_t, one sequence after the other, and back.
#include "cudnn_recurrent_loops.h"

#include <cmath>

#include "cudnn_loops.h"

std::int64_t cudnnRNNStruct::matrix(std::int64_t part, std::int64_t gate) const {
  std::int64_t out = 0;
  for (std::int64_t i = 0; i < part; ++i) out += gates() * size * (width(i) + size);
  if (part == parts()) return out;
  const std::int64_t of_input = gate < gates() ? gate : gates();
  return out + of_input * size * width(part) + (gate - of_input) * size * size;
}

namespace moonlet::emulated {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Where the steps of a sequence lie, in the order in which a direction goes through them.
class Walk {
 public:
  Walk(const cudnnRNNDataStruct& d, std::int64_t sequence, bool reverse)
      : length_(d.lengths[static_cast<std::size_t>(sequence)]), reverse_(reverse) {
    std::int64_t first = 0;
    for (std::int64_t t = 0; t < length_; ++t) {
      rows_.push_back(first + sequence);
      for (const std::int64_t n : d.lengths) first += n > t ? 1 : 0;
    }
  }
  std::int64_t length() const { return length_; }
  std::int64_t row(std::int64_t step) const {
    return rows_[static_cast<std::size_t>(reverse_ ? length_ - 1 - step : step)];
  }

 private:
  std::int64_t length_;
  bool reverse_;
  std::vector<std::int64_t> rows_;
};

/// A network's numbers beside what it was given.
class Network {
 public:
  Network(const Numbers& numbers, const RecurrentData& data)
      : n(numbers), at(data), d(numbers.network), sequences(count_of(numbers.data.lengths)) {
    if (!at.weights) return;
    for (std::int64_t i = 0; i < d.weights(); ++i)
      weights_.push_back(load(at.weights, d.type, i, tf32() && i < d.bias(0, 0)));
  }

  const Numbers& n;
  const RecurrentData& at;
  const cudnnRNNStruct& d;
  const std::int64_t sequences;

  /// Row i of the matrix of a gate.
  const double* matrix(std::int64_t part, std::int64_t gate, std::int64_t i) const {
    const std::int64_t columns = gate < d.gates() ? d.width(part) : d.size;
    return weights_.data() + d.matrix(part, gate) + i * columns;
  }
  double bias(std::int64_t part, std::int64_t gate, std::int64_t i) const {
    return d.has_biases ? weights_[static_cast<std::size_t>(d.bias(part, gate) + i)] : 0;
  }
  /// What goes into a layer at a row.
  std::vector<double> input(std::int64_t part, std::int64_t row) const {
    std::vector<double> out;
    for (std::int64_t j = 0; j < d.width(part); ++j) {
      const std::int64_t below = (part / d.directions - 1) * d.directions + j / d.size;
      out.push_back(part < d.directions ? load(at.x, d.type, row * d.features + j, tf32())
                                        : n.state(below, row)[j % d.size]);
    }
    return out;
  }
  std::int64_t first(std::int64_t part, std::int64_t sequence) const {
    return (part * sequences + sequence) * d.size;
  }
  /// The hidden state, or the cell, before a step.
  std::vector<double> before(std::int64_t part, std::int64_t sequence, const Walk& walk,
                             std::int64_t step, bool cell) const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < d.size; ++i)
      out.push_back(step == 0 ? load(cell ? at.cx : at.hx, d.type, first(part, sequence) + i, false)
                    : cell    ? n.cell(part, walk.row(step - 1))[i]
                              : n.state(part, walk.row(step - 1))[i]);
    return out;
  }

 private:
  static std::int64_t count_of(const std::vector<std::int64_t>& list) {
    return static_cast<std::int64_t>(list.size());
  }
  bool tf32() const { return d.type == CUDNN_DATA_FLOAT && d.math == CUDNN_DEFAULT_MATH; }

  std::vector<double> weights_;
};

double product(const double* row, const std::vector<double>& x) {
  double out = 0;
  for (std::size_t j = 0; j < x.size(); ++j) out += row[j] * x[j];
  return out;
}

/// Element i of the state at a row, from the layer's input and the state and cell before.
void step_forward(const Network& w, std::int64_t part, std::int64_t row,
                  const std::vector<double>& x, const std::vector<double>& h,
                  const std::vector<double>& c, std::int64_t i) {
  const std::int64_t gates = w.d.gates();
  double of_input[4] = {}, of_state[4] = {};
  for (std::int64_t k = 0; k < gates; ++k) {
    of_input[k] = w.bias(part, k, i) + product(w.matrix(part, k, i), x);
    of_state[k] = w.bias(part, gates + k, i) + product(w.matrix(part, gates + k, i), h);
  }
  const auto gate = [&](std::int64_t k) -> double& { return w.n.gate(part, row, k)[i]; };
  double& state = w.n.state(part, row)[i];
  const auto sum = [&](int k) { return of_input[k] + of_state[k]; };
  switch (w.d.mode) {
    case CUDNN_LSTM: {
      for (const int k : {0, 1, 3}) gate(k) = sigmoid(sum(k));
      gate(2) = std::tanh(sum(2));
      double& cell = w.n.cell(part, row)[i];
      cell = gate(1) * c[static_cast<std::size_t>(i)] + gate(0) * gate(2);
      state = gate(3) * std::tanh(cell);
      return;
    }
    case CUDNN_GRU:
      for (const int k : {0, 1}) gate(k) = sigmoid(sum(k));
      w.n.inner(part, row)[i] = of_state[2];
      gate(2) = std::tanh(of_input[2] + gate(0) * of_state[2]);
      state = (1 - gate(1)) * gate(2) + gate(1) * h[static_cast<std::size_t>(i)];
      return;
    case CUDNN_RNN_TANH: state = gate(0) = std::tanh(sum(0)); return;
    case CUDNN_RNN_RELU: state = gate(0) = sum(0) > 0 ? sum(0) : 0;
  }
}

/// The gradients of the gates of element i, from those of its hidden state and cell; these become
/// what goes on to the step before, but for what the gates bring.
void step_back(const Network& w, std::int64_t part, std::int64_t row, const std::vector<double>& h,
               const std::vector<double>& c, std::int64_t i, double& dh, double& dc) {
  const auto gate = [&](std::int64_t k) -> double& { return w.n.gate(part, row, k)[i]; };
  const auto of_sigmoid = [](double s) { return s * (1 - s); };
  switch (w.d.mode) {
    case CUDNN_LSTM: {
      const double shown = std::tanh(w.n.cell(part, row)[i]);
      const double in = gate(0), forget = gate(1), fresh = gate(2), out = gate(3);
      dc += dh * out * (1 - shown * shown);
      gate(0) = dc * fresh * of_sigmoid(in);
      gate(1) = dc * c[static_cast<std::size_t>(i)] * of_sigmoid(forget);
      gate(2) = dc * in * (1 - fresh * fresh);
      gate(3) = dh * shown * of_sigmoid(out);
      dc *= forget;
      dh = 0;
      return;
    }
    case CUDNN_GRU: {
      const double reset = gate(0), update = gate(1), fresh = gate(2);
      double& inner = w.n.inner(part, row)[i];
      gate(2) = dh * (1 - update) * (1 - fresh * fresh);
      gate(1) = dh * (h[static_cast<std::size_t>(i)] - fresh) * of_sigmoid(update);
      gate(0) = gate(2) * inner * of_sigmoid(reset);
      inner = gate(2) * reset;
      dh *= update;
      return;
    }
    case CUDNN_RNN_TANH: gate(0) = dh * (1 - gate(0) * gate(0)); break;
    case CUDNN_RNN_RELU: gate(0) = gate(0) > 0 ? dh : 0;
  }
  dh = 0;
}

/// The gradient of what the hidden state gave a gate.
double by_state(const Network& w, std::int64_t part, std::int64_t row, std::int64_t k,
                std::int64_t i) {
  const bool inner = w.d.mode == CUDNN_GRU && k == 2;
  return inner ? w.n.inner(part, row)[i] : w.n.gate(part, row, k)[i];
}

/// Calls f(direction's number among all parts, sequence, its walk).
template <class F>
void each_sequence(const Network& w, std::int64_t layer, F&& f) {
  for (std::int64_t direction = 0; direction < w.d.directions; ++direction)
    for (std::int64_t s = 0; s < w.sequences; ++s)
      f(layer * w.d.directions + direction, s, Walk(w.n.data, s, direction == 1));
}

/// Back through a sequence: adds to the gradients of what goes into the layer, `below`.
void sequence_back(const Network& w, std::int64_t part, std::int64_t s, const Walk& walk,
                   const std::vector<double>& above, std::vector<double>& below) {
  const RecurrentData& at = w.at;
  const auto size = static_cast<std::size_t>(w.d.size);
  const std::int64_t column = part % w.d.directions * w.d.size, width = w.d.width(part);
  std::vector<double> dh(size), dc(size);
  for (std::int64_t i = 0; i < w.d.size; ++i) {
    const std::int64_t from = w.first(part, s) + i;
    if (at.dhy) dh[static_cast<std::size_t>(i)] = load(at.dhy, w.d.type, from, false);
    if (at.dcy) dc[static_cast<std::size_t>(i)] = load(at.dcy, w.d.type, from, false);
  }
  for (std::int64_t step = walk.length() - 1; step >= 0; --step) {
    const std::int64_t row = walk.row(step);
    const std::vector<double> h = w.before(part, s, walk, step, false);
    const std::vector<double> c =
        w.d.mode == CUDNN_LSTM ? w.before(part, s, walk, step, true) : std::vector<double>();
    for (std::size_t i = 0; i < size; ++i) {
      const auto to = static_cast<std::int64_t>(i);
      dh[i] += above[static_cast<std::size_t>(row * w.d.directions * w.d.size + column + to)];
      step_back(w, part, row, h, c, to, dh[i], dc[i]);
    }
    for (std::int64_t k = 0; k < w.d.gates(); ++k)
      for (std::int64_t i = 0; i < w.d.size; ++i) {
        const double g = w.n.gate(part, row, k)[i], inner = by_state(w, part, row, k, i);
        const double *of_state = w.matrix(part, w.d.gates() + k, i), *of_x = w.matrix(part, k, i);
        for (std::size_t j = 0; j < size; ++j) dh[j] += inner * of_state[j];
        double* const to = below.data() + row * width;
        for (std::int64_t j = 0; j < width; ++j) to[j] += g * of_x[j];
      }
  }
  for (std::int64_t i = 0; i < w.d.size; ++i) {
    const std::int64_t to = w.first(part, s) + i;
    if (at.dhx) store(dh[static_cast<std::size_t>(i)], at.dhx, w.d.type, to);
    if (at.dcx) store(dc[static_cast<std::size_t>(i)], at.dcx, w.d.type, to);
  }
}

}  // namespace

void forward(const Numbers& n, const RecurrentData& at) {
  const Network w{n, at};
  const cudnnDataType_t type = w.d.type;
  for (std::int64_t layer = 0; layer < w.d.layers; ++layer)
    each_sequence(w, layer, [&](std::int64_t part, std::int64_t s, const Walk& walk) {
      for (std::int64_t step = 0; step < walk.length(); ++step) {
        const std::vector<double> h = w.before(part, s, walk, step, false);
        const std::vector<double> c =
            w.d.mode == CUDNN_LSTM ? w.before(part, s, walk, step, true) : std::vector<double>();
        const std::vector<double> x = w.input(part, walk.row(step));
        for (std::int64_t i = 0; i < w.d.size; ++i)
          step_forward(w, part, walk.row(step), x, h, c, i);
      }
      const std::int64_t last = walk.row(walk.length() - 1);
      for (std::int64_t i = 0; i < w.d.size; ++i) {
        if (at.hy) store(n.state(part, last)[i], at.hy, type, w.first(part, s) + i);
        if (at.cy) store(n.cell(part, last)[i], at.cy, type, w.first(part, s) + i);
      }
    });
  const std::int64_t wide = w.d.directions * w.d.size, top = (w.d.layers - 1) * w.d.directions;
  for (std::int64_t row = 0; row < n.data.rows(); ++row)
    for (std::int64_t j = 0; j < wide; ++j)
      store(n.state(top + j / w.d.size, row)[j % w.d.size], at.y, type, row * wide + j);
}

void backward_data(const Numbers& n, const RecurrentData& at) {
  const Network w{n, at};
  const std::int64_t rows = n.data.rows(), wide = w.d.directions * w.d.size;
  std::vector<double> above(static_cast<std::size_t>(rows * wide));
  for (std::int64_t i = 0; i < rows * wide; ++i)
    above[static_cast<std::size_t>(i)] = load(at.dy, w.d.type, i, false);
  for (std::int64_t layer = w.d.layers - 1; layer >= 0; --layer) {
    std::vector<double> below(static_cast<std::size_t>(rows * w.d.width(layer * w.d.directions)));
    each_sequence(w, layer, [&](std::int64_t part, std::int64_t s, const Walk& walk) {
      sequence_back(w, part, s, walk, above, below);
    });
    above = std::move(below);
  }
  for (std::int64_t i = 0; i < rows * w.d.features; ++i)
    store(above[static_cast<std::size_t>(i)], at.dx, w.d.type, i);
}

void backward_weights(const Numbers& n, const RecurrentData& at) {
  const Network w{n, at};
  std::vector<double> sums(static_cast<std::size_t>(w.d.weights()));
  const auto add = [&](std::int64_t to, double x) { sums[static_cast<std::size_t>(to)] += x; };
  for (std::int64_t layer = 0; layer < w.d.layers; ++layer)
    each_sequence(w, layer, [&](std::int64_t part, std::int64_t s, const Walk& walk) {
      const std::int64_t width = w.d.width(part);
      for (std::int64_t step = 0; step < walk.length(); ++step) {
        const std::int64_t row = walk.row(step);
        const std::vector<double> h = w.before(part, s, walk, step, false);
        const std::vector<double> x = w.input(part, row);
        for (std::int64_t k = 0; k < w.d.gates(); ++k)
          for (std::int64_t i = 0; i < w.d.size; ++i) {
            const double g = n.gate(part, row, k)[i], inner = by_state(w, part, row, k, i);
            for (std::int64_t j = 0; j < width; ++j)
              add(w.d.matrix(part, k) + i * width + j, g * x[static_cast<std::size_t>(j)]);
            for (std::int64_t j = 0; j < w.d.size; ++j)
              add(w.d.matrix(part, w.d.gates() + k) + i * w.d.size + j,
                  inner * h[static_cast<std::size_t>(j)]);
            if (!w.d.has_biases) continue;
            add(w.d.bias(part, k) + i, g);
            add(w.d.bias(part, w.d.gates() + k) + i, inner);
          }
      }
    });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto to = static_cast<std::int64_t>(i);
    store(load(at.dweights, w.d.type, to, false) + sums[i], at.dweights, w.d.type, to);
  }
}

}  // namespace moonlet::emulated
