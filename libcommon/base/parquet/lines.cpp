#include "base/parquet/lines.h"

#include <algorithm>

#include "base/parquet/scalars.h"

namespace mt {

using parquet::Column;
using parquet::Leaf;
using parquet::Meaning;
using parquet::Node;

ParquetLines::ParquetLines(const std::string& path, const std::string& name)
    : file_(path), where_(name), footer_(parquet::read_footer(file_.bytes(), where_)) {
  if (!keeps(footer_.root))
    fail(Exit::bad_data, where_, ": a Parquet file without columns of texts or numbers");
}

// Takes out what is below a node and has no values that are written; whether anything is left.
bool ParquetLines::keeps(Node& node) const {
  if (node.kind == Node::Kind::leaf) return footer_.leaves[node.leaf].meaning != Meaning::other;
  const std::size_t before = node.children.size();
  std::erase_if(node.children, [this](Node& child) { return !keeps(child); });
  return node.kind == Node::Kind::map ? node.children.size() == before : !node.children.empty();
}

std::int64_t ParquetLines::stored_bytes() const {
  const auto size = static_cast<double>(stored().size());
  return footer_.rows == 0 ? std::ssize(stored())
                           : static_cast<std::int64_t>(size * static_cast<double>(rows_) /
                                                       static_cast<double>(footer_.rows));
}

std::size_t ParquetLines::read(std::span<char> into) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    if (taken_ == line_.size() && !next_row()) break;
    const std::size_t count = std::min(line_.size() - taken_, into.size() - filled);
    std::copy_n(line_.data() + taken_, count, into.data() + filled);
    taken_ += count;
    filled += count;
  }
  return filled;
}

bool ParquetLines::next_row() {
  while (left_ == 0) {
    if (next_group_ > 0) {
      for (const parquet::Chunk& chunk : footer_.groups[next_group_ - 1].columns)
        file_.forget(chunk.pages);
    }
    if (next_group_ == footer_.groups.size()) return false;
    const parquet::RowGroup& group = footer_.groups[next_group_++];
    columns_.clear();
    for (std::size_t i = 0; i < group.columns.size(); ++i)
      columns_.emplace_back(group.columns[i], footer_.leaves[i], where_);
    left_ = group.rows;
  }
  --left_;
  ++rows_;
  JsonWriter json;
  write_present(json, footer_.root);
  line_ = json.text();
  line_ += '\n';
  taken_ = 0;
  check_end_of_row(footer_.root);
  return true;
}

// Each column's row has ended where the others' have.
void ParquetLines::check_end_of_row(const Node& node) {
  for (const Node& child : node.children) check_end_of_row(child);
  if (node.kind != Node::Kind::leaf) return;
  Column& column = columns_[node.leaf];
  const bool ends = left_ == 0 ? column.at_end() : column.repetition() == 0;
  if (!ends)
    fail(Exit::bad_data, where_, ": damaged Parquet: row ", rows_, ": column ",
         footer_.leaves[node.leaf].path, " has more values than the others");
}

Column& ParquetLines::first_column(const Node& node) {
  const Node* first = &node;
  while (first->kind != Node::Kind::leaf) first = &first->children[0];
  return columns_[first->leaf];
}

// Takes the entries that say of each column that a node is not there.
void ParquetLines::pass(const Node& node) {
  if (node.kind == Node::Kind::leaf) columns_[node.leaf].next();
  for (const Node& child : node.children) pass(child);
}

template <class Each>
void ParquetLines::repeat(const Node& node, const Each& each) {
  Column& first = first_column(node);
  if (first.definition() < node.definitions) return pass(node);
  do each();
  while (!first.at_end() && first.repetition() == node.repetitions);
}

void ParquetLines::write(Json& json, const Node& node) {
  if (node.repetition == Node::Repetition::repeated) {
    json.begin_array();
    repeat(node, [&] { write_present(json, node); });
    json.end_array();
  } else if (node.repetition == Node::Repetition::optional &&
             first_column(node).definition() < node.definitions) {
    pass(node);
    json.null();
  } else {
    write_present(json, node);
  }
}

void ParquetLines::write_present(Json& json, const Node& node) {
  switch (node.kind) {
    case Node::Kind::leaf:
      return write_leaf(json, node);
    case Node::Kind::list:
      return write_list(json, node);
    case Node::Kind::map:
      return write_map(json, node);
    case Node::Kind::object:
      break;
  }
  json.begin_object();
  for (const Node& child : node.children) write(json.key(child.name), child);
  json.end_object();
}

void ParquetLines::write_list(Json& json, const Node& list) {
  const Node& middle = list.children[0];
  json.begin_array();
  repeat(middle, [&] {
    if (middle.kind == Node::Kind::list)
      write(json, middle.children[0]);
    else
      write_present(json, middle);
  });
  json.end_array();
}

void ParquetLines::write_map(Json& json, const Node& map) {
  const Node& pairs = map.children[0];
  json.begin_object();
  repeat(pairs, [&] {
    JsonWriter key;
    write_leaf(key, pairs.children[0]);
    write(json.raw_key(key.text()), pairs.children[1]);
  });
  json.end_object();
}

void ParquetLines::write_leaf(Json& json, const Node& node) {
  const Leaf& leaf = footer_.leaves[node.leaf];
  const parquet::Cell* const cell = columns_[node.leaf].next();
  if (cell == nullptr)
    fail(Exit::bad_data, where_, ": damaged Parquet: row ", rows_, ": column ", leaf.path,
         " has no value where there must be one");
  if (!parquet::write_cell(json, leaf, *cell))
    fail(Exit::bad_data, where_, ": row ", rows_, ": column ", leaf.path,
         " has a text that is not UTF-8");
}

}  // namespace mt
