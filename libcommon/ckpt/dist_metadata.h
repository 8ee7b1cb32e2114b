// .metadata of a PyTorch distributed checkpoint (DCP): the index of its .distcp files, a pickle of
//   Metadata {
//     state_dict_metadata: {KEY: TensorStorageMetadata {properties, size: torch.Size,
//                                  chunks: [ChunkStorageMetadata {offsets, sizes: torch.Size}]}
//                           or BytesStorageMetadata},
//     planner_data: {},
//     storage_data: {MetadataIndex {fqn, index None, offset: torch.Size, absent for bytes}:
//                    _StorageInfo {relative_path, offset, length}},
//     storage_meta: StorageMeta {checkpoint_id, save_id, load_id None, modules []},
//     mcore_data: {KEY: {} or {'nd_reformulated_orig_global_shape': (..)}}}  (Megatron's addition)
// where properties is TensorProperties with the state (dtype, layout, requires_grad,
// _MEM_FORMAT_ENCODING(0), pin_memory).  _StorageInfo is of
// torch.distributed.checkpoint.filesystem, all others of torch.distributed.checkpoint.metadata; the
// reader takes the names from any module, which covers PyTorch 2.1 to 2.15 and Megatron's subclass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "ckpt/tensor_source.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mt {

struct DistMetadata {
  std::map<std::string, DistTensor> tensors;
  std::map<std::string, ItemPlace> objects;
};

// Checks that every chunk has a place and that chunks tile their tensors; Exit::bad_data if not.
// The allowance is of the stream and the files that it describes.
DistMetadata parse_dist_metadata(Bytes stream, const std::string& name, Allowance allowance);
DistMetadata parse_dist_metadata(Bytes stream, const std::string& name);  // the stream's own

// One item that a writer has put into a file.
struct ItemRecord {
  std::string key;
  bool is_tensor = false;
  DType dtype = DType::f32;          // of tensors, as all that follows but `place`
  Shape global_shape, offset, size;  // the whole, and this chunk of it
  ItemPlace place;
};

struct DistMetadataOptions {
  std::optional<PyValue> mcore_data = PyValue::dict();  // nothing: not written
  PyValue planner_data = PyValue::dict();  // KEY: the path in a nested state that it stands for
  std::string checkpoint_id = "mt", save_id = "mt";
};

// The stream for the items of all writers.  Keys stand in the order of first appearance.  Items
// that contradict each other or leave a tensor incomplete are Exit::bad_data.
std::string encode_dist_metadata(std::span<const ItemRecord> items,
                                 const DistMetadataOptions& options = {});

// The field of a key's mcore_data that marks a tensor as reformulated.
inline constexpr std::string_view kOriginalShapeField = "nd_reformulated_orig_global_shape";
// Sets it.
void set_original_shape(PyValue& mcore_data, const std::string& key, const Shape& original);

// Whether the chunks lie inside `shape`, cover it and do not overlap; else what is wrong.
std::optional<std::string> why_not_tiling(const Shape& shape, std::span<const DistChunk> chunks);

}  // namespace mt
