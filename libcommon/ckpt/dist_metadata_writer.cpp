#include "base/error.h"
#include "ckpt/dist_metadata.h"
#include "ckpt/torch_types.h"

namespace mt {

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kFilesystem = "torch.distributed.checkpoint.filesystem";

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
      {"planner_data", options.planner_data},
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
      key, PyValue::dict({{std::string(kOriginalShapeField), PyValue::tuple(std::move(extents))}}));
}

}  // namespace mt
