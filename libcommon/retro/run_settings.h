// RetroRunSettings: what the training of a Retro is told by its project, and its neighbours depend
// on, in the words of Megatron-LM's tools/retro/preprocess_data.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "retro/project.h"

namespace mt {

class CommandLine;

struct RetroRunSettings {
  std::optional<std::int64_t> seed = {}, seq_length = {}, global_batch_size = {},
                              eval_interval = {}, eval_iters = {}, train_samples = {};
  std::string cache_path = {};
  void add_to(CommandLine& cl);
  RetroProject::Settings settings() const;  // of config.json
};

}  // namespace mt
