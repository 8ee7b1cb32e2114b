#include "ckpt/dist_metadata.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/torch_file.h"

namespace mt {

using Kind = PyValue::Kind;
using Offset = std::vector<std::int64_t>;

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kFilesystem = "torch.distributed.checkpoint.filesystem";
constexpr std::string_view kOriginalShape = "nd_reformulated_orig_global_shape";

// --- Tiling -------------------------------------------------------------------------------------

static std::int64_t end_of(const DistChunk& chunk, int axis) {
  return chunk.offset[axis] + chunk.size[axis];
}

static bool overlap(const DistChunk& a, const DistChunk& b) {
  for (int axis = 0; axis < a.offset.rank(); ++axis)
    if (end_of(a, axis) <= b.offset[axis] || end_of(b, axis) <= a.offset[axis]) return false;
  return true;
}

// What is wrong with chunks of which two overlap.  They are split wherever an axis has a gap
// between them; what no axis splits (as a pinwheel of five) is compared pair by pair.
class OverlapSearch {
 public:
  explicit OverlapSearch(int rank) : rank_(rank) {}

  std::optional<std::string> run(std::span<const DistChunk*> chunks, int axis = 0, int unsplit = 0,
                                 int depth = 0) const {
    if (chunks.size() < 2) return {};
    if (unsplit == rank_ || depth == kMaxDepth) return pair_by_pair(chunks);
    std::sort(chunks.begin(), chunks.end(), [&](const DistChunk* a, const DistChunk* b) {
      return a->offset[axis] < b->offset[axis];
    });
    std::size_t begin = 0;
    std::int64_t reach = end_of(*chunks[0], axis);
    for (std::size_t i = 1; i <= chunks.size(); ++i) {
      if (i < chunks.size() && chunks[i]->offset[axis] < reach) {
        reach = std::max(reach, end_of(*chunks[i], axis));
        continue;
      }
      const bool whole = i - begin == chunks.size();
      const auto wrong = run(chunks.subspan(begin, i - begin), (axis + 1) % rank_,
                             whole ? unsplit + 1 : 0, depth + 1);
      if (wrong) return wrong;
      begin = i;
      if (i < chunks.size()) reach = end_of(*chunks[i], axis);
    }
    return {};
  }

 private:
  static constexpr int kMaxDepth = 64;
  static constexpr std::size_t kMaxUnsplit = 1 << 14;

  static std::optional<std::string> pair_by_pair(std::span<const DistChunk*> chunks) {
    if (chunks.size() > kMaxUnsplit)
      return concat(chunks.size(), " chunks in no regular order, expected at most ", kMaxUnsplit);
    for (std::size_t i = 0; i < chunks.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (overlap(*chunks[i], *chunks[j]))
          return concat("chunks at ", chunks[j]->offset, " and ", chunks[i]->offset, " overlap");
    return {};
  }

  int rank_;
};

std::optional<std::string> why_not_tiling(const Shape& shape, std::span<const DistChunk> chunks) {
  std::vector<const DistChunk*> filled;
  std::int64_t covered = 0;
  bool fits = true;
  for (const DistChunk& chunk : chunks) {
    if (chunk.offset.rank() != shape.rank() || chunk.size.rank() != shape.rank())
      return concat("a chunk of ", chunk.size, " at ", chunk.offset, " in a tensor of ", shape);
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (chunk.size[axis] > shape[axis] || chunk.offset[axis] > shape[axis] - chunk.size[axis])
        return concat("a chunk of ", chunk.size, " at ", chunk.offset, " in a tensor of ", shape);
    fits = fits && !__builtin_add_overflow(covered, chunk.size.numel(), &covered);
    if (chunk.size.numel() > 0) filled.push_back(&chunk);
  }
  if (shape.rank() == 0) {
    if (chunks.size() == 1) return {};
    return concat(chunks.size(), " chunks for one element");
  }
  if (const auto wrong = OverlapSearch(shape.rank()).run(filled)) return wrong;
  if (!fits || covered != shape.numel())
    return concat("chunks cover ", covered, " of ", shape.numel(), " elements");
  return {};
}

// --- Reading ------------------------------------------------------------------------------------

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

// Names go into error lines.
static bool is_plain(const std::string& name) {
  return std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
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

static std::map<std::pair<std::string, Offset>, ItemPlace> parse_places(const PyValue& storage_data,
                                                                        const std::string& name) {
  std::map<std::pair<std::string, Offset>, ItemPlace> places;
  const std::string where = name + ": storage_data";
  const std::vector<PyValue>& entries = storage_data.entries(where);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const std::string& key = field(entries[i], "MetadataIndex", "fqn", where).as_string(where);
    if (!is_plain(key)) fail(Exit::bad_data, where, ": a key with control characters");
    const std::string here = concat(where, ": ", key);
    Offset offset;
    if (const PyValue* given = entries[i].find("offset"); given != nullptr && !given->is_none()) {
      const Shape shape = shape_of_torch(*given, here);
      offset.assign(shape.extents().begin(), shape.extents().end());
    }
    if (!places.emplace(std::pair(key, std::move(offset)), parse_place(entries[i + 1], here))
             .second)
      fail(Exit::bad_data, here, ": the same chunk is listed twice");
  }
  return places;
}

static DistTensor parse_tensor(const std::string& key, const PyValue& value,
                               const std::string& where) {
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
    tensor.chunks.push_back({shape("offsets"), shape("sizes"), {}});
  }
  if (const auto wrong = why_not_tiling(tensor.shape, tensor.chunks))
    fail(Exit::bad_data, where, ": ", *wrong);
  return tensor;
}

DistMetadata parse_dist_metadata(Bytes stream, const std::string& name) {
  const PyValue root = read_pickle(stream, name);
  if (!root.is(Kind::object) || (root.name() != "Metadata" && root.name() != "MCoreMetadata"))
    fail(Exit::bad_data, name, ": is ", name_of(root.kind()), " ", root.name(),
         ", expected the metadata of a distributed checkpoint");
  const auto places = parse_places(root.at("storage_data", name), name);
  const auto place_of = [&](const std::string& key, const Offset& offset) {
    const auto found = places.find({key, offset});
    if (found == places.end())
      fail(Exit::bad_data, name, ": ", key, ": a chunk at ", Shape(offset), " is in no file");
    return found->second;
  };
  DistMetadata metadata;
  const std::vector<PyValue>& entries = root.at("state_dict_metadata", name).entries(name);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const std::string& key = entries[i].as_string(name + ": a key");
    if (!is_plain(key)) fail(Exit::bad_data, name, ": a key with control characters");
    const std::string where = concat(name, ": ", key);
    if (metadata.tensors.contains(key) || metadata.objects.contains(key))
      fail(Exit::bad_data, where, ": listed twice");
    if (entries[i + 1].is(Kind::object) && entries[i + 1].name() == "BytesStorageMetadata") {
      metadata.objects[key] = place_of(key, {});
      continue;
    }
    DistTensor tensor = parse_tensor(key, entries[i + 1], where);
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
    const PyValue* const original = shapes[i + 1].find(kOriginalShape);
    const auto tensor = metadata.tensors.find(key);
    if (original == nullptr || tensor == metadata.tensors.end()) continue;
    const std::string where = concat(name, ": ", key, ": ", kOriginalShape);
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

// --- Writing ------------------------------------------------------------------------------------

static PyValue make(std::string_view module, std::string_view name,
                    std::vector<std::pair<PyValue, PyValue>> fields) {
  return PyValue::make(PyValue::global(module, name), PyValue::dict(std::move(fields)));
}

static PyValue properties_of(DType dtype) {
  return PyValue::make(
      PyValue::global(kMetadata, "TensorProperties"),
      PyValue::tuple(
          {torch_dtype(dtype),
           PyValue::call(PyValue::global("torch.serialization", "_get_layout"), {"torch.strided"}),
           false, PyValue::call(PyValue::global(kMetadata, "_MEM_FORMAT_ENCODING"), {0}), false}));
}

// Items of one key, in order.
struct Gathered {
  const ItemRecord* first;
  std::vector<DistChunk> chunks;
};

static std::vector<Gathered> gather(std::span<const ItemRecord> items) {
  std::vector<Gathered> keys;
  std::map<std::string_view, std::size_t> number;
  for (const ItemRecord& item : items) {
    const auto [at, fresh] = number.emplace(item.key, keys.size());
    if (fresh) keys.push_back({&item, {}});
    Gathered& key = keys[at->second];
    if (!fresh && !(item.is_tensor && key.first->is_tensor && item.dtype == key.first->dtype &&
                    item.global_shape == key.first->global_shape))
      fail(Exit::bad_data, item.key, ": its items differ in type or shape, or an object is twice");
    key.chunks.push_back({item.offset, item.size, item.place});
  }
  for (const Gathered& key : keys) {
    if (!key.first->is_tensor) continue;
    if (const auto wrong = why_not_tiling(key.first->global_shape, key.chunks))
      fail(Exit::bad_data, key.first->key, ": ", *wrong);
  }
  return keys;
}

static PyValue tensor_metadata(const Gathered& key) {
  PyValue chunks = PyValue::list();
  for (const DistChunk& chunk : key.chunks)
    chunks.append(make(kMetadata, "ChunkStorageMetadata",
                       {{"offsets", torch_size(chunk.offset)}, {"sizes", torch_size(chunk.size)}}));
  return make(kMetadata, "TensorStorageMetadata",
              {{"properties", properties_of(key.first->dtype)},
               {"size", torch_size(key.first->global_shape)},
               {"chunks", std::move(chunks)}});
}

std::string encode_dist_metadata(std::span<const ItemRecord> items,
                                 const DistMetadataOptions& options) {
  PyValue state_dict = PyValue::dict(), storage = PyValue::dict();
  for (const Gathered& key : gather(items)) {
    const std::string& name = key.first->key;
    state_dict.set_item(name, key.first->is_tensor ? tensor_metadata(key)
                                                   : PyValue::make(PyValue::global(
                                                         kMetadata, "BytesStorageMetadata")));
    for (const DistChunk& chunk : key.chunks) {
      std::vector<std::pair<PyValue, PyValue>> index = {{"fqn", name}, {"index", PyValue()}};
      if (key.first->is_tensor) index.emplace_back("offset", torch_size(chunk.offset));
      storage.set_item(make(kMetadata, "MetadataIndex", std::move(index)),
                       make(kFilesystem, "_StorageInfo",
                            {{"relative_path", chunk.place.file},
                             {"offset", chunk.place.offset},
                             {"length", chunk.place.length}}));
    }
  }
  std::vector<std::pair<PyValue, PyValue>> fields = {
      {"state_dict_metadata", std::move(state_dict)},
      {"planner_data", PyValue::dict()},
      {"storage_data", std::move(storage)},
      {"storage_meta", make(kMetadata, "StorageMeta",
                            {{"checkpoint_id", options.checkpoint_id},
                             {"save_id", options.save_id},
                             {"load_id", PyValue()},
                             {"modules", PyValue::list()}})}};
  if (options.mcore_data) fields.emplace_back("mcore_data", *options.mcore_data);
  return write_pickle(make(kMetadata, "Metadata", std::move(fields)));
}

void set_original_shape(PyValue& mcore_data, const std::string& key, const Shape& original) {
  std::vector<PyValue> extents(original.extents().begin(), original.extents().end());
  mcore_data.set_item(
      key, PyValue::dict({{std::string(kOriginalShape), PyValue::tuple(std::move(extents))}}));
}

}  // namespace mt
