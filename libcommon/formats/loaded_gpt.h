// LoadedGpt: a GPT from a checkpoint, ready to be evaluated or to generate, with its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "model/families/gpt.h"
#include "tensor/device_options.h"
#include "text/tokenizer.h"

namespace mt {

// Behind the help of --dtype, for programs that let load_gpt() choose.
inline constexpr const char* kDtypeAsStored =
    "; default: what the checkpoint is in, but on the CPU fp32 for 16 bits, and on a GPU for fp64";

struct LoadedGpt {
  std::unique_ptr<Gpt> model;  // without gradients
  std::unique_ptr<Tokenizer> tokenizer;
  std::string folder;  // of the checkpoint
  std::int64_t iteration = 0;
};

// The latest checkpoint in `save_folder`, its values on the device in the type that computes.
// Exit::no_input if there is none; a tokenizer with more
// tokens than the model knows, or another than the checkpoint's, is Exit::bad_config.
LoadedGpt load_gpt(const std::string& save_folder, const TokenizerOptions& tokenizer,
                   const DeviceOptions& compute);

}  // namespace mt
