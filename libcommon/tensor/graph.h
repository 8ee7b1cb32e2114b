// Graph: work of a GPU's stream that was captured once and is launched again and again.  Whatever
// addresses it reads and writes must stay what they were.
#pragma once

#include <functional>
#include <utility>

#include "tensor/stream.h"

namespace mt {

class Graph {
 public:
  Graph() = default;
  // What `body` queues on the stream; it makes no memory and waits for nothing.
  Graph(Stream& stream, const std::function<void()>& body) {
    device::begin_capture(stream.handle());
    body();
    handle_ = device::end_capture(stream.handle());
  }
  Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Graph() {
    if (handle_ != nullptr) device::destroy_graph(handle_);
  }

  explicit operator bool() const { return handle_ != nullptr; }
  void launch(Stream& stream) const { device::launch(handle_, stream.handle()); }

 private:
  GraphHandle handle_ = nullptr;
};

}  // namespace mt
