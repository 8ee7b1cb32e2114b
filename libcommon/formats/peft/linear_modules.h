// The linear layers of a model that can have adapters (nn/adapter.h), as transformers has them: one
// for each of queries, keys and values, say.
#pragma once

#include <string>
#include <vector>

#include "formats/names/foreign_name.h"

namespace mt {

// LinearModule: one of theirs.
struct LinearModule {
  RowPlace weight;            // the row of ours that it is, or is part of
  std::string part = {};      // which rows of that one (Adapter::Options::parts)
  std::string path = {};      // "model.layers.0.self_attn.q_proj"
  Transform of_outputs = {};  // how the rows of a B of ours become those of theirs

  std::string target() const;  // as in AdapterConfig::lora_targets
};
std::vector<LinearModule> linear_modules(const ModelConfig& config);

// Returns AdapterConfig::lora_targets for what a user or a PEFT folder wants: "all-linear"; names
// of theirs, "q_proj" or the whole path, as PEFT matches them; or of ours, "linear_qkv".  What
// matches nothing, or a module of one layer and not that of another, is Exit::bad_config; `from`
// begins that line.
std::string lora_targets(const ModelConfig& config, const std::vector<std::string>& wanted,
                         const std::string& from);

// Returns AdapterConfig::lora_targets for what a PEFT folder says as one regular expression, which
// whole paths match; those of a model that reads images, too, of which ours is the part for texts,
// are tried as well.
std::string lora_targets_by(const ModelConfig& config, const std::string& expression,
                            const std::string& from);

// The reverse: the shortest names by which PEFT finds just what the model's adapters are of.
std::vector<std::string> peft_targets(const ModelConfig& config);

// What a module of a model, or a tensor, is called in one that reads images, too, and of which the
// model is the part for texts: as transformers has it now, and had it; none for other paths.
std::vector<std::string> paths_in_whole(const std::string& path);

}  // namespace mt
