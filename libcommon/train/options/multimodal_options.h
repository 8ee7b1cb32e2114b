// MultimodalOptions: how a LLaVA is pretrained, in the words of Megatron-LM's pretrain_vlm.py and
// examples/multimodal.
#pragma once

#include <string>
#include <vector>

#include "train/options/tile_options.h"

namespace mt {

class CommandLine;
struct DataOptions;

struct MultimodalOptions {
  bool freeze_lm = false, freeze_vit = false;
  TileOptions tiles;
  bool train_after_image = false;
  std::string prompt_path, chat_template;
  std::string packing = "none", on_error = "stop";

  // `packings`: names that --packing may have.
  void add_to(CommandLine& cl, std::vector<std::string> packings);
  // What a run has where the command line leaves it out: samples come in epochs.
  void add_fallbacks(CommandLine& cl) const;
  // Exit::usage for options of token files, which such a run has no use for.
  void check_given(const CommandLine& cl) const;
  // Takes the length of the language model's samples where upstream's option says it.
  void take_length(DataOptions& data) const;
  // Exit::usage where one says something that other models have no use for.
  void check_unused(const std::string& run) const;
  // The prompts of captions in --prompt-path, CaptioningPretraining.raw.
  std::vector<std::string> caption_prompts() const;
};

}  // namespace mt
