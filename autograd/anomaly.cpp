// autograd/anomaly.cpp: what is said of the node whose derivative goes wrong.
#include "autograd/anomaly.h"

#include <mutex>
#include <utility>

#include "autograd/host_value.h"
#include "autograd/tape.h"
#include "autograd/uses_anomaly.h"
#include "tensor/core/dtype.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/modes.h"

namespace moonlet {

constinit thread_local Anomaly anomaly_mode = Anomaly::Ignore;

namespace {

AnomalyHandler handler;

constinit thread_local const Node* running = nullptr;
constinit thread_local const std::string* given_position = nullptr;

// "MulBackward, recorded at script.lua:3", without the lines that called it.
std::string name_and_line(const Node& node) {
  std::string out = node.name();
  if (node.origin) out += ", recorded at " + node.origin->substr(0, node.origin->find('\n'));
  return out;
}

bool has_nan(const Tensor& g) {
  if ((!is_floating(g.dtype()) && !is_complex(g.dtype())) || !has_values(g)) return false;
  return host_value<bool>(any(isnan(g)));
}

}  // namespace

void set_anomaly_handler(AnomalyHandler given) {
  static std::once_flag once;
  std::call_once(once, [&] { handler = given; });
}

void note_origin(Node& node) {
  std::string position = given_position     ? *given_position
                         : handler.position ? handler.position()
                                            : std::string();
  if (position.empty()) position = "a position outside of scripts";
  if (running) position += "\n    in the backward of " + name_and_line(*running);
  node.origin = std::make_unique<std::string>(std::move(position));
}

std::string origin_text(const Node& node) {
  if (node.origin) return text("\n  ", node.name(), " was recorded at ", *node.origin);
  return text("\n  where ", node.name(),
              " was recorded is not known: anomalies were not looked for then");
}

void rethrow_with_origin(const Node& node) {
  const std::string note = origin_text(node);
  try {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    throw Error(e.what() + note);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    if (handler.amend) handler.amend(note);
    throw;
  }
}

void check_numbers(const Node& node, const Tensor* gradients) {
  const NoModes own_affair;
  const NoGrad no_grad;
  for (size_t i = 0; i < node.edges.size(); ++i) {
    if (gradients[i].defined() && has_nan(gradients[i]))
      fail("backward: ", node.name(), " gave NaN in the gradient of its input ", i + 1);
  }
}

RecordedAt::RecordedAt(const std::string& position)
    : before_(std::exchange(given_position, &position)) {}

RecordedAt::~RecordedAt() { given_position = before_; }

RunningNode::RunningNode(const Node& node) : before_(std::exchange(running, &node)) {}

RunningNode::~RunningNode() { running = before_; }

}  // namespace moonlet
