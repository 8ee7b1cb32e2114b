#include <algorithm>

#include "base/error.h"
#include "ckpt/dist_metadata.h"
#include "ckpt/torch_types.h"

namespace mt {

using Kind = PyValue::Kind;
using Offset = std::vector<std::int64_t>;

// Dataclasses are known by name from whichever module.
static const PyValue& field(const PyValue& value, std::string_view type, std::string_view name,
                            const std::string& where) {
  if (!value.is(Kind::object) || value.name() != type)
    fail(Exit::bad_data, where, ": is ", name_of(value.kind()), " ", value.name(), ", expected a ",
         type);
  return value.at(name, concat(where, ": ", type));
}

static std::uint64_t as_size(const PyValue& value, const std::string& where) {
  const std::int64_t number = value.as_integer(where);
  if (number < 0) fail(Exit::bad_data, where, ": ", number, " bytes");
  return static_cast<std::uint64_t>(number);
}

// Bytes of memory for what is known of a chunk and its place beside their names.
constexpr std::uint64_t kChunkBytes = 3 * sizeof(DistChunk);
constexpr std::size_t kMostName = 4096;
constexpr const char* kNotPlain = ": a key with control characters, or of more than 4096 bytes";

// Names go into error lines, and are kept for every chunk.
static bool is_plain(const std::string& name) {
  return name.size() <= kMostName &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
}

static ItemPlace parse_place(const PyValue& info, const std::string& where) {
  ItemPlace place;
  place.file = field(info, "_StorageInfo", "relative_path", where).as_string(where);
  place.offset = as_size(field(info, "_StorageInfo", "offset", where), where + ": offset");
  place.length = as_size(field(info, "_StorageInfo", "length", where), where + ": length");
  if (place.file.empty() || place.file.front() == '/' || !is_plain(place.file) ||
      place.file.find("..") != std::string::npos)
    fail(Exit::bad_data, where, ": relative_path leads out of the checkpoint's folder");
  if (const PyValue* transforms = info.find("transform_descriptors");
      transforms != nullptr && !transforms->is_none())
    fail(Exit::bad_data, where, ": written through transforms, which are not supported");
  return place;
}

using Places = std::map<std::pair<std::string, Offset>, ItemPlace>;

static Places parse_places(const PyValue& storage_data, const std::string& name,
                           Allowance& allowance) {
  Places places;
  const std::string where = name + ": storage_data";
  const std::vector<PyValue>& entries = storage_data.entries(where);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const std::string& key = field(entries[i], "MetadataIndex", "fqn", where).as_string(where);
    if (!is_plain(key)) fail(Exit::bad_data, where, kNotPlain);
    const std::string here = concat(where, ": ", key);
    Offset offset;
    if (const PyValue* given = entries[i].find("offset"); given != nullptr && !given->is_none()) {
      const Shape shape = shape_of_torch(*given, here);
      offset.assign(shape.extents().begin(), shape.extents().end());
    }
    ItemPlace place = parse_place(entries[i + 1], here);
    allowance.take(kChunkBytes + key.size() + place.file.size(), name);
    if (!places.emplace(std::pair(key, std::move(offset)), std::move(place)).second)
      fail(Exit::bad_data, here, ": the same chunk is listed twice");
  }
  return places;
}

static DistTensor parse_tensor(const std::string& key, const PyValue& value,
                               const std::string& where, Allowance& allowance) {
  constexpr std::string_view kType = "TensorStorageMetadata";
  DistTensor tensor;
  tensor.key = key;
  const PyValue& properties = field(value, kType, "properties", where);
  if (!properties.is(Kind::object) || properties.name() != "TensorProperties" ||
      properties.state() == nullptr)
    fail(Exit::bad_data, where, ": properties: expected TensorProperties with a state");
  const std::vector<PyValue>& state = properties.state()->as_items(where + ": properties");
  if (state.empty() || !state[0].is(Kind::global))
    fail(Exit::bad_data, where, ": properties: expected a dtype first");
  tensor.dtype = dtype_of_torch(state[0]);
  tensor.dtype_name = state[0].name();
  tensor.shape = shape_of_torch(field(value, kType, "size", where), where + ": size");
  for (const PyValue& chunk : field(value, kType, "chunks", where).as_items(where + ": chunks")) {
    const auto shape = [&](std::string_view name) {
      return shape_of_torch(field(chunk, "ChunkStorageMetadata", name, where), where + ": chunk");
    };
    allowance.take(kChunkBytes, where);
    tensor.chunks.push_back({shape("offsets"), shape("sizes"), {}});
  }
  if (const auto wrong = why_not_tiling(tensor.shape, tensor.chunks))
    fail(Exit::bad_data, where, ": ", *wrong);
  return tensor;
}

DistMetadata parse_dist_metadata(Bytes stream, const std::string& name) {
  return parse_dist_metadata(stream, name, Allowance(stream.size()));
}

DistMetadata parse_dist_metadata(Bytes stream, const std::string& name, Allowance allowance) {
  const PyValue root = read_pickle(stream, name, allowance);
  if (!root.is(Kind::object) || (root.name() != "Metadata" && root.name() != "MCoreMetadata"))
    fail(Exit::bad_data, name, ": is ", name_of(root.kind()), " ", root.name(),
         ", expected the metadata of a distributed checkpoint");
  const auto places = parse_places(root.at("storage_data", name), name, allowance);
  const auto place_of = [&](const std::string& key, const Offset& offset) {
    const auto found = places.find({key, offset});
    if (found == places.end())
      fail(Exit::bad_data, name, ": ", key, ": a chunk at ", Shape(offset), " is in no file");
    allowance.take(found->second.file.size(), name);
    return found->second;
  };
  DistMetadata metadata;
  const std::vector<PyValue>& entries = root.at("state_dict_metadata", name).entries(name);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const std::string& key = entries[i].as_string(name + ": a key");
    if (!is_plain(key)) fail(Exit::bad_data, name, kNotPlain);
    const std::string where = concat(name, ": ", key);
    allowance.take(kChunkBytes + 2 * key.size(), name);
    if (metadata.tensors.contains(key) || metadata.objects.contains(key))
      fail(Exit::bad_data, where, ": listed twice");
    if (entries[i + 1].is(Kind::object) && entries[i + 1].name() == "BytesStorageMetadata") {
      metadata.objects[key] = place_of(key, {});
      continue;
    }
    DistTensor tensor = parse_tensor(key, entries[i + 1], where, allowance);
    for (DistChunk& chunk : tensor.chunks) {
      const auto extents = chunk.offset.extents();
      chunk.place = place_of(key, Offset(extents.begin(), extents.end()));
    }
    metadata.tensors[key] = std::move(tensor);
  }
  const PyValue* const mcore = root.find("mcore_data");
  if (mcore == nullptr || mcore->is_none()) return metadata;
  const std::vector<PyValue>& shapes = mcore->entries(name + ": mcore_data");
  for (std::size_t i = 0; i < shapes.size(); i += 2) {
    const std::string& key = shapes[i].as_string(name + ": mcore_data");
    const PyValue* const original = shapes[i + 1].find(kOriginalShapeField);
    const auto tensor = metadata.tensors.find(key);
    if (original == nullptr || tensor == metadata.tensors.end()) continue;
    const std::string where = concat(name, ": ", key, ": ", kOriginalShapeField);
    const Shape shape = shape_of_torch(*original, where);
    // A grid of fragments, and one axis with the elements of each (spec: "reformulated").
    const Shape& grid = tensor->second.shape;
    bool fits = grid.rank() == shape.rank() + 1 && grid.numel() == shape.numel();
    for (int axis = 0; fits && axis < shape.rank(); ++axis)
      fits = grid[axis] > 0 && shape[axis] % grid[axis] == 0;
    if (!fits) fail(Exit::bad_data, where, ": ", shape, " does not fit the stored ", grid);
    tensor->second.original_shape = shape;
  }
  return metadata;
}

}  // namespace mt
