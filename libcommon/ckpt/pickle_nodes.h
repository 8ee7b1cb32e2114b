// The containers that a pickle builds.  Streams can build what nothing should walk over: values
// that contain themselves, nest a million deep, or repeat one part so often that a walk never ends.
// Listed here, all of them can be examined and taken apart without recursion.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ckpt/pickle.h"

namespace mt {

class PickleNodes {
 public:
  PickleNodes() = default;
  PickleNodes(const PickleNodes&) = delete;
  ~PickleNodes();  // empties all containers but those kept

  using Node = PyValue::Node;
  void add(const std::shared_ptr<Node>& node) { nodes_.push_back(node); }

  // Checks that `root` is a tree no deeper than kMaxPickleNesting, with parts shared so little that
  // a walk over it is no longer than what a stream of that size may ask for; then it is kept.  Else
  // says what is wrong.
  std::optional<std::string> keep(const PyValue& root, std::size_t stream_size);

 private:
  struct Extent {  // of a node with all below it; depth 0 while it is being walked over
    std::size_t depth = 0;
    double length = 0;  // of a walk over it, which visits shared parts again: nodes, and text / 16
    void include(const Extent& child);
  };
  std::optional<std::string> walk(Node* root, double longest);

  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_map<const Node*, Extent> walked_;
  bool keep_ = false;  // what was walked over
};

}  // namespace mt
