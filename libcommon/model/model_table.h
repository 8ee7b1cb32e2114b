// A model of any family, and its rows.
#pragma once

#include <cstdint>
#include <memory>

#include "model/stage_range.h"
#include "model/tensor_part.h"
#include "tensor/param.h"

namespace mt {

class Model;
struct ModelConfig;

// Some stages of a model, as one of so many tensor-parallel ranks has them.
std::unique_ptr<Model> make_model(const ModelConfig& config, const StageRanges& stages,
                                  const TensorPart& part = {});

// All rows of the model, as one of so many tensor-parallel ranks has them.
ParamTable model_rows(const ModelConfig& config, const TensorPart& part = {});

// Returns how many elements the matrices of its layers have: nearly all of its weights.
double layer_weights(const ModelConfig& config);

// Returns why context-parallel ranks cannot share the sequences of such a model; null where they
// can.
const char* keeps_sequences_whole(const ModelConfig& config);

// SampleLengths: tokens of a sample: those that a model's one stack reads, or its decoder, and
// those that its encoder does where it has both, or a LLaVA's tower, of all images.
struct SampleLengths {
  std::int64_t tokens = 0, encoder = 0;
};

// Model FLOPs of a step over so many samples, by the formula of Megatron-LM core_v0.12
// (num_floating_point_operations()).  It counts the LM head for each token, a BERT's too, and the
// embedding for none, nor a task's head; of experts those that a token chooses; and half of all
// pairs in self-attention, whether it is causal or not.  What `rows` has frozen counts without a
// gradient of its own, and what no row that learns stands in front of without one of what it reads.
// That formula has no second stack: of a T5 each stack is counted so over its own tokens, the LM
// head over the decoder's, and cross-attention over all pairs of theirs.  So is each tower of a
// model of two, which has no head, and a LLaVA's, of which the layers that run count, with the
// projector.
double model_flops(const ModelConfig& config, const ParamTable& rows, std::int64_t samples,
                   const SampleLengths& lengths);
// Model FLOPs of a step that trains all of the model's rows but those that model_rows() freezes.
double model_flops(const ModelConfig& config, std::int64_t samples, const SampleLengths& lengths);

}  // namespace mt
