// LayerRows: the rows of a layer as it adds them to a model's table, and the branches that are made
// of them: pre-norm attention and MLP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config/model_config.h"
#include "nn/branch.h"
#include "tensor/param.h"

namespace mt {

// Which of the ranks that share every matrix, and whether they share the rows between too
// (--sequence-parallel).
struct TensorPart {
  int rank = 0, ranks = 1;
  bool sequence_parallel = false;
};

// The standard deviation, or the range, from which a matrix that does not end a residual branch is
// drawn.
Initializer matrix_init(const ModelConfig& config, const Shape& shape);

// A layer's names in Hugging Face's GPT-2, whose matrices are stored [in, out], and Llama.
struct HfNames {
  bool gpt2;
  std::string layer;
  ForeignName matrix(const char* in_gpt2, const char* in_llama, Transform transform = {}) const;
  ForeignName vector(const char* in_gpt2, const char* in_llama) const;
};
// Which of the two the names follow.
bool is_gpt2(const ModelConfig& config);

struct LayerRows {
  ParamTable& table;
  const ModelConfig& config;
  TensorPart part;
  std::int64_t layer;

  // A row of this layer: its name carries the layer's number, its key does not.
  Param row(const std::string& name, Shape shape, Initializer init, std::vector<Segment> segments,
            std::vector<ForeignName> foreign) const;
  // The norm in front of a branch, whose scale is a row of this name.
  Norm norm(const char* name, std::vector<ForeignName> foreign) const;
  // What a matrix that ends a residual branch is drawn from.
  Initializer output_init() const;
  HfNames hf() const;
};

// Add their rows to the table.  inv_freq: SelfAttention::Options's.
Branch make_attention(const LayerRows& layer, ConstTensor inv_freq);
Branch make_mlp(const LayerRows& layer);

}  // namespace mt
