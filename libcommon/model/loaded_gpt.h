// LoadedGpt: a GPT from a checkpoint, ready to be evaluated or to generate, with its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "model/gpt.h"
#include "text/tokenizer.h"

namespace mt {

struct LoadedGpt {
  std::unique_ptr<Gpt> model;  // without gradients
  std::unique_ptr<Tokenizer> tokenizer;
  std::string folder;  // of the checkpoint
  std::int64_t iteration = 0;
};

// The latest checkpoint in `save_folder`.  Exit::no_input if there is none; a tokenizer with more
// tokens than the model knows, or another than the checkpoint's, is Exit::bad_config.
LoadedGpt load_gpt(const std::string& save_folder, const TokenizerOptions& tokenizer);

}  // namespace mt
