// The tables of families that have files of their own, and what all such tables are made of.
// Others see model/model_rows.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "model/model_rows.h"

namespace mt {

ParamTable mamba_rows(const ModelConfig& config, const TensorPart& part);
ParamTable t5_rows(const ModelConfig& config, const TensorPart& part);

inline ForeignName foreign(std::string name, Transform transform = {}) {
  return {kHuggingFaceFormat, std::move(name), std::move(transform)};
}

// A row as it is before a table has cut it.
inline Param described(const Param& row) {
  Param copy = row;
  copy.local = {};
  copy.dimension = 0;
  copy.cuts.clear();
  return copy;
}

inline void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos)
    text.replace(at, from.size(), to);
}

// All layers of a GPT with these settings, from which other families take rows.
inline Gpt gpt_of(const ModelConfig& config, const TensorPart& part) {
  ModelConfig like = config;
  like.family = ModelFamily::gpt;
  return Gpt(like, {{.begin = 0, .end = config.num_layers}}, part);
}

}  // namespace mt
