// The config.json of a checkpoint of TensorRT-LLM's.
#pragma once

#include <string>

#include "formats/model_sink.h"

namespace mt {

// Exit::bad_config for a model that is no Llama, Mistral, Qwen 2 or GPT-2, or whose weights so many
// ranks do not share.
void check_trtllm(const ModelTarget& target);

std::string trtllm_config(const ModelTarget& target);

}  // namespace mt
