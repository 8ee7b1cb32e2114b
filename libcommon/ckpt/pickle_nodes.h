// The containers that a pickle builds.  Streams can build what nothing should walk over: values
// that contain themselves, nest a million deep, or repeat one part so often that a walk never ends.
// Listed here, all of them can be examined and taken apart without recursion.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

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
  std::optional<std::string> walk(Node* root, double longest);

  std::deque<std::shared_ptr<Node>> nodes_;
  bool keep_ = false;  // what was walked over
};

}  // namespace mt
