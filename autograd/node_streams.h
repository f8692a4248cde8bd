// autograd/node_streams.h: the streams in which the nodes of one backward run.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "autograd/node_stream.h"
#include "tensor/runtime/backend.h"

namespace moonlet {

// Nodes run in the streams in which their ops ran, so that what was saved there, and is freed
// there, needs no waiting. Where a gradient goes from one stream to another, the latter waits; in
// the end those wait that were current when backward began.
class NodeStreams {
 public:
  // The stream of `node` is current on its device.
  class Scope {
   public:
    Scope(NodeStreams& streams, const Node& node) {
      if (!has_streams(node.output(0).options.device.real())) [[likely]]
        return;
      const DeviceStream stream = stream_for(node);
      streams.note(stream);
      if (stream != current_stream(stream.device)) guard_.emplace(stream);
    }

   private:
    std::optional<StreamGuard> guard_;
  };

  // That of the node; while a graph is captured, which takes the work of one stream, the current
  // one.
  static DeviceStream stream_for(const Node& node) {
    const DeviceStream own = stream_of(node);
    Backend* const backend = opened_backend(node.output(0).options.device.real().type);
    DeviceGraphs* const graphs = backend != nullptr ? backend->graphs() : nullptr;
    const bool captured = graphs != nullptr && graphs->is_capturing(own.device);
    return captured ? current_stream(own.device) : own;
  }

  // Whether work that is issued now goes where that of `node` does.
  static bool is_current(const Node& node) {
    return !has_streams(node.output(0).options.device.real()) ||
           stream_for(node) == current_stream(stream_for(node).device);
  }

  // Makes a gradient from the current stream of its device one for `node`.
  void hand_over(const Tensor& g, const Node& node) {
    if (!has_streams(g.device().real())) [[likely]]
      return;
    const DeviceStream from = current_stream(g.device().index), to = stream_for(node);
    note(from);
    // Between devices the copy waits.
    if (from.device != to.device || from == to) return;
    wait_stream(to, from);
    record_stream(g, to);
  }

  // Those that are current now wait for all that was used.
  void join() const {
    for (const DeviceStream& used : used_)
      if (const DeviceStream now = current_stream(used.device); now != used) wait_stream(now, used);
  }

 private:
  void note(DeviceStream stream) {
    if (std::find(used_.begin(), used_.end(), stream) == used_.end()) used_.push_back(stream);
  }

  std::vector<DeviceStream> used_;
};

}  // namespace moonlet
