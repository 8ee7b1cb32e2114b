#include "ckpt/pickle_nodes.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

PickleNodes::~PickleNodes() {
  for (const std::shared_ptr<Node>& node : nodes_)
    if (!keep_ || !walked_.contains(node.get())) node->items.clear();
}

std::optional<std::string> PickleNodes::keep(const PyValue& root, std::size_t stream_size) {
  const double longest = 64.0 * static_cast<double>(stream_size) + (1 << 20);
  if (root.node_ != nullptr)
    if (auto wrong = walk(root.node_.get(), longest)) return wrong;
  keep_ = true;
  return {};
}

void PickleNodes::Extent::include(const Extent& child) {
  depth = std::max(depth, child.depth);
  length += child.length;
}

std::optional<std::string> PickleNodes::walk(Node* root, double longest) {
  struct Open {  // a node on the path from the root, and how many of its items are done
    Node* node;
    std::size_t next = 0;
    Extent extent;
  };
  std::vector<Open> path = {{root, 0, {}}};
  walked_[root] = {};
  while (!path.empty()) {
    Open& open = path.back();
    if (open.next == open.node->items.size()) {
      const double own = 1 + static_cast<double>(open.node->text.size()) / 16;
      const Extent done{open.extent.depth + 1, open.extent.length + own};
      if (done.length > longest) return "values repeat themselves without limit";
      walked_[open.node] = done;
      path.pop_back();
      if (!path.empty()) path.back().extent.include(done);
      continue;
    }
    Node* const child = open.node->items[open.next++].node_.get();
    if (child == nullptr) continue;
    const auto [known, fresh] = walked_.try_emplace(child);
    if (!fresh && known->second.depth == 0) return "a value contains itself";
    open.extent.include(known->second);  // nothing yet if it is fresh
    if (path.size() + std::max<std::size_t>(known->second.depth, 1) > kMaxPickleNesting)
      return concat("nested more than ", kMaxPickleNesting, " deep");
    if (fresh) path.push_back({child, 0, {}});
  }
  return {};
}

}  // namespace mt
