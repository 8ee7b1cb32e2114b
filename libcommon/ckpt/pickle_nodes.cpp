#include "ckpt/pickle_nodes.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

PickleNodes::~PickleNodes() {
  for (const std::shared_ptr<Node>& node : nodes_)
    if (!keep_ || node->extent.depth == 0) node->items.clear();
}

std::optional<std::string> PickleNodes::keep(const PyValue& root, std::size_t stream_size) {
  const double longest = 16.0 * static_cast<double>(stream_size) + (1 << 20);
  if (root.node_ != nullptr)
    if (auto wrong = walk(root.node_.get(), longest)) return wrong;
  keep_ = true;
  return {};
}

std::optional<std::string> PickleNodes::walk(Node* root, double longest) {
  using Extent = PyValue::Extent;
  struct Open {  // a node on the path from the root, and how many of its items are done
    Node* node;
    std::size_t next = 0;
    std::uint32_t depth = 0;  // and length, of those
    double length = 0;

    void include(const Extent& child) {
      depth = std::max(depth, child.depth);
      length += child.length;
    }
  };
  std::vector<Open> path = {{root}};
  root->extent.depth = Extent::kOpen;
  while (!path.empty()) {
    Open& open = path.back();
    if (open.next == open.node->items.size()) {
      const double length = open.length + 1 + static_cast<double>(open.node->text.size()) / 16;
      if (length > longest) return "values repeat themselves without limit";
      const Extent done = open.node->extent = {open.depth + 1, static_cast<float>(length)};
      path.pop_back();
      if (!path.empty()) path.back().include(done);
      continue;
    }
    Node* const child = open.node->items[open.next++].node_.get();
    if (child == nullptr) continue;
    const Extent known = child->extent;
    if (known.depth == Extent::kOpen) return "a value contains itself";
    if (path.size() + std::max<std::size_t>(known.depth, 1) > kMaxPickleNesting)
      return concat("nested more than ", kMaxPickleNesting, " deep");
    if (known.depth > 0) {
      open.include(known);
    } else {
      child->extent.depth = Extent::kOpen;
      path.push_back({child});
    }
  }
  return {};
}

}  // namespace mt
