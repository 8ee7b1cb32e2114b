// EvalOptions: what mt-eval is told of the model, of what to measure, and of the texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/tasks/task_session.h"
#include "formats/load_model.h"
#include "infer/cache_options.h"
#include "infer/chat_prompts.h"
#include "model/config/launch_flags.h"
#include "tensor/device_options.h"

namespace mt {

struct EvalOptions {
  std::string load, adapter, task = "perplexity";
  TaskOptions tasks;
  ChatOptions chat;
  std::vector<std::string> inputs, valid_data;
  bool strict_lambada = false;
  std::optional<std::int64_t> seq_length, overlapping_eval, decoder_seq_length, seed;
  std::optional<double> mask_prob, short_seq_prob;
  std::int64_t micro_batch_size = 4;
  int threads = 0;
  bool json = false;
  DeviceOptions compute{.dtype = ""};
  CacheOptions kept;  // of texts that a task has continued
  TokenizerOptions tokenizer;
  LaunchFlags launch;

  void add_to(CommandLine& cl);
  // Exit::usage, before a model is loaded, for a task that is none, an option that has no effect
  // with it, and inputs that it does not take.
  void check() const;
};

}  // namespace mt
