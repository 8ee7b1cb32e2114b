// Graph: work of a GPU's stream that was captured once and is launched again and again.  Whatever
// addresses it reads and writes must stay what they were.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "tensor/stream.h"

namespace mt {

class Graph {
 public:
  Graph() = default;
  // What `body` queues on the stream; it makes no memory and waits for nothing.
  Graph(Stream& stream, const std::function<void()>& body) {
    stream.note_capture(&at_launch_);
    device::begin_capture(stream.handle());
    body();
    handle_ = device::end_capture(stream.handle());
    stream.note_capture(nullptr);
  }
  Graph(Graph&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), at_launch_(std::move(other.at_launch_)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(at_launch_, other.at_launch_);
    return *this;
  }
  ~Graph() {
    if (handle_ != nullptr) device::destroy_graph(handle_);
  }

  explicit operator bool() const { return handle_ != nullptr; }
  void launch(Stream& stream) const {
    for (const auto& body : at_launch_) body();
    device::launch(handle_, stream.handle());
  }

 private:
  GraphHandle handle_ = nullptr;
  Stream::AtLaunch at_launch_;
};

// Work that comes again and again, known by its key.
template <class Key>
class Graphs {
 public:
  std::size_t size() const { return captured_.size(); }
  // How much of it is launched.
  std::size_t graphs() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(captured_, [](const auto& one) { return bool(one.second.graph); }));
  }
  // Queues what `body` queues: by calling it the first time, which makes and loads what it needs,
  // and the second time, to capture it, or each time, where the host reads meanwhile what the
  // device has made.  Whether it was called.
  template <class Body>
  bool run(Stream& stream, const Key& key, const Body& body) {
    Captured& captured = captured_[key];
    const bool calls = !captured.graph;
    if (!captured.loaded || captured.read_by_host) {
      const std::int64_t before = stream.host_reads();
      body();
      captured.loaded = true;
      captured.read_by_host = stream.host_reads() > before;
      return true;
    }
    if (calls) captured.graph = Graph(stream, body);
    captured.graph.launch(stream);
    return calls;
  }

 private:
  struct Captured {
    bool loaded = false, read_by_host = false;
    Graph graph;
  };
  std::map<Key, Captured> captured_;
};

}  // namespace mt
