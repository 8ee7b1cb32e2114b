// What Megatron-Core's ranks know of their parameters beside the values: the order in which a
// chunk's modules register them, and where the distributed optimizer keeps their state in a flat
// buffer (megatron/core/distributed/param_and_grad_buffer.py).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/pickle.h"
#include "ckpt/torch_file.h"
#include "model/layers.h"
#include "model/stage_range.h"
#include "optim/buffer_layout.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// SpecNames: how a model's modules are called.
struct SpecNames {
  bool local_spec = false;  // as in local_spec_place()
  bool grouped = false;     // experts are TEGroupedMLP's: mlp.experts.linear_fc1.weight0, ...

  std::string module(const RowPlace& place) const;
  std::string of(const RowPlace& place) const;
};

// Returns the names under which a model's state_dict() has a row, of which some have two.
std::vector<std::string> state_dict_names(const RowPlace& place, const SpecNames& names);

// Tells whether a row is the weight of a linear module in a layer, which has an extra state.
bool is_parallel_linear(const Param& row);

// RowTensor: a tensor of a state_dict() in which a row may be found: as all of it, or, transposed,
// as part `number` of so many.
struct RowTensor {
  std::string name;
  std::size_t number = 0, parts = 1;
  bool transposed = false;
};
// Returns the tensors in which models may have a row.  An expert, of so many on its rank, may be a
// module, a parameter of TEGroupedMLP's, or a part of GroupedMLP's mlp.experts.weight1 or weight2,
// which have all experts one behind the other and transposed.
std::vector<RowTensor> tensors_of(const RowPlace& place, std::int64_t experts);
// Such a row, [out, in], as part `number` of the tensor.  What cannot be parted is left whole.
StoredTensor expert_part(const StoredTensor& whole, std::size_t number, std::size_t parts,
                         const Shape& row);

// A chunk's layers.  Where a T5's encoder has stages of its own, a stage has one of the two stacks,
// and each stack its own copy of the embeddings and of the output layer, every stage of positions.
struct ChunkLayers {
  StageRange range = {};
  std::vector<StackRun> runs = {};  // the layers of it
  bool further = false;             // the model's last chunk has layers that predict further tokens

  static ChunkLayers of(const std::vector<LayerPlan>& layers, const StageRange& range,
                        bool further = false) {
    return {range, runs_of(layers, range), further};
  }
  static ChunkLayers all(const ModelConfig& config);

  bool lacks(const Param& row) const;  // which is of a stack that the stage has no layers of
  bool has(const Param& row) const;
  // The layers of the row's stack; null: there are none.
  const StackRun* run_of(const Param& row) const;
  // Whether it ends a model that does not begin with it, and has a copy of tied embeddings.
  bool has_tied_copy() const { return range.last && !range.first; }
  // Whether it has a copy of the words for layers that predict further tokens.
  bool has_words_copy() const { return further && has_tied_copy(); }
};

// The rows of one of so many tensor-parallel ranks, cut as Megatron-Core's ranks have them.
ParamTable rank_rows(const ModelConfig& config, std::int64_t rank, std::int64_t ranks);

// Tells whether a row is of a T5's relative positions, which all layers of a stack have.
bool is_relative_position(const Param& row);
// Tells whether a row is the embedding of words, the first one of every table but a ViT's.
bool is_words(const Param& row);

// A chunk's rows in the order of their registration: an attention's linear_proj comes before its
// linear_qkv.  A copy of tied embeddings, the row of the words, stands in front of the output
// layer's bias or at the end.
std::vector<const Param*> registered_rows(const ParamTable& table, const ChunkLayers& chunk,
                                          const SpecNames& names, bool tied);

// --- Flat buffers -------------------------------------------------------------------------------

// A parameter of a rank, by the rows that it holds.
struct ParamRows {
  std::vector<const Param*> rows;
  bool transposed = false;

  const Param& first() const { return *rows.front(); }
  std::int64_t elements() const {
    return std::ssize(rows) * first().local.numel();  // they are alike
  }
};

struct BufferParam {
  std::int64_t elements = 0;
  bool shared = false;  // embeddings that a pipeline's ends share: they have a bucket of their own
};

// The sizes of a chunk's parameters in its buffer, in a pipeline of so many ranks.
std::vector<BufferParam> buffer_params(std::span<const ParamRows> params, const ModelConfig& config,
                                       const ChunkLayers& chunk, std::int64_t stages);

struct BufferRules {
  int ranks = 1;                            // that share a bucket
  std::optional<std::int64_t> bucket = {};  // elements that fill one; else there is no limit
  bool pads_for_nccl = false;
};

// The rules of the buffer of chunk `chunk` of stage `stage`, in a run with these settings.
// Exit::bad_data for settings that cannot be.
BufferRules buffer_rules(const PyValue& args, std::int64_t stage, std::int64_t chunk,
                         const std::string& where);

BufferLayout rank_buckets(std::span<const BufferParam> params, const BufferRules& rules);
UnpaddedLayout rank_buffer(std::span<const BufferParam> params, const BufferRules& rules);

}  // namespace mt
