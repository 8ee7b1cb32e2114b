#include "ckpt/indexed_tensors.h"

#include <simdjson.h>

#include "base/allowance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_parse.h"

namespace mt {

constexpr std::uint64_t kEntryBytes = 160;  // of memory, beside its names

// {TENSOR: FILE}
static std::map<std::string, std::string> read_map(const std::string& path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object listed;
  const std::string text = read_regular_file(path);
  Allowance allowance(bytes_in(parent_directory(path)));  // with the files that it lists
  allowance.take_json(text, path);
  if (parse_json(parser, text).get(root) || root["weight_map"].get(listed))
    fail(Exit::bad_data, path, ": expected a JSON object with a weight_map");
  std::map<std::string, std::string> map;
  for (const auto& [tensor, file] : listed) {
    std::string_view name;
    if (file.get(name) || name.empty() || name.find('/') != std::string_view::npos)
      fail(Exit::bad_data, path, ": weight_map: ", tensor,
           ": expected the name of a file beside it");
    allowance.take(kEntryBytes + tensor.size() + name.size(), path);
    if (!map.emplace(tensor, name).second)
      fail(Exit::bad_data, path, ": weight_map: ", tensor, " comes twice");
  }
  return map;
}

IndexedTensors::IndexedTensors(const std::string& path) : path_(path) {
  const std::map<std::string, std::string> map = read_map(path);
  for (const auto& [tensor, file] : map) {
    auto& source = files_[file];
    if (source == nullptr) source = open_tensor_file(parent_directory(path) + "/" + file);
    const DistTensor* const found = source->find(tensor);
    if (found == nullptr)
      fail(Exit::bad_data, path, ": weight_map: ", tensor, ": is not in ", file);
    tensors_.emplace(tensor, *found);
  }
  for (const auto& [file, source] : files_)
    for (const auto& [tensor, stored] : source->tensors())
      if (const auto listed = map.find(tensor); listed == map.end() || listed->second != file)
        fail(Exit::bad_data, path, ": weight_map: does not list ", tensor, " of ", file);
}

void IndexedTensors::read_original(const std::string& key, const Shape& offset, Tensor out) const {
  files_.at(at(key).chunks[0].place.file)->read_original(key, offset, out);
}

std::optional<MappedTensor> IndexedTensors::view(const std::string& key, const Shape& offset,
                                                 const Shape& shape) const {
  return files_.at(at(key).chunks[0].place.file)->view(key, offset, shape);
}

}  // namespace mt
