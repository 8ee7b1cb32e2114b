// What it costs that a model's weights are rounded: how two models that are one but for that read a
// text, and how far what each layer makes of the same inputs is off.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "formats/text_reader.h"

namespace mt {

struct QuantizationCost {
  struct Layer {
    std::string name;  // of the weight W
    double error = 0;  // |X (W - W')^T| / |X W^T|, of some of what it reads of the text
  };

  std::int64_t tokens = 0;         // that are guessed by those before them
  double perplexity_before = 0;    // of the weights as they were
  double perplexity = 0;           // and as they are
  double divergence = 0;           // Kullback-Leibler's of the latter from the former, nats a token
  double same_likeliest = 0;       // the share of tokens that both have the same guess of
  std::vector<Layer> layers = {};  // in the model's order

  void write(JsonWriter& json) const;
  std::string text() const;  // lines for a reader
};

// Sequences of the text whose tokens guess what follows.  Exit::bad_config for a model that is no
// GPT, and for sequences of one token.
TextSequences read_cost_text(const ModelSource& before, const TextOptions& options);

// Both models are read where the options say.
QuantizationCost quantization_cost(const ModelSource& before, const ModelSource& after,
                                   const TextSequences& text, const TextOptions& options,
                                   const Log& log);

}  // namespace mt
