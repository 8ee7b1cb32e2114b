// Layers: what each layer of a model consists of, in the order in which they run: an encoder's come
// before a decoder's.  Modules are made and stages of a pipeline are counted by this list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct CacheRoom;
struct CacheShape;
struct ModelConfig;
struct StageRange;

struct BranchKind;  // what a residual branch does: model/layers/layer_rows.h

struct LayerPlan {
  std::string_view stack;   // "decoder" or "encoder": names of its rows begin so
  std::int64_t number = 0;  // in its stack, from 0
  std::vector<const BranchKind*> branches;
  bool stacked = true;  // whether its stack's layers are all alike, and a checkpoint stacks them
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};
std::vector<LayerPlan> layers_of(const ModelConfig& config);
// What predicts one further token: a layer like the last one, or a hybrid's own pattern.
std::vector<LayerPlan> further_layers_of(const ModelConfig& config);

// What a generation keeps of the tokens that each layer of the decoder has seen (nn/kv_cache.h),
// and behind these, if it keeps them, the layers that predict further tokens.
std::vector<CacheShape> cache_of(const ModelConfig& config, const CacheRoom& room);

// The letters of the kinds of branches of which each layer of a hybrid is one.
std::string pattern_letters();

// StackRun: layers of one stack that follow each other.
struct StackRun {
  std::string_view stack;
  std::int64_t begin = 0, end = 0;  // of their numbers
  friend bool operator==(const StackRun&, const StackRun&) = default;
};
// The runs that a stage's layers are, as far as the list has them.
std::vector<StackRun> runs_of(const std::vector<LayerPlan>& layers, const StageRange& range);

}  // namespace mt
