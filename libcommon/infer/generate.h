// generate: continues prompts with a trained model, as mt-generate does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command.h"
#include "formats/load_model.h"
#include "infer/chat_prompts.h"
#include "infer/session.h"
#include "tensor/device_options.h"

namespace mt {

struct GenerateOptions {
  std::string load, adapter;
  std::vector<std::string> prompts;
  std::optional<std::int64_t> num_samples;
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  CompletionOptions completion;
  std::optional<std::string> stop;  // the completion's
  SessionOptions session;
  ChatOptions chat;

  void add_to(CommandLine& cl);
};

// The model at a path, which continues texts: a GPT, or a T5, which answers them; and what its
// completions know of it.
LoadedModel load_to_continue(const std::string& path, const TokenizerOptions& tokenizer,
                             const DeviceOptions& compute, const std::string& adapter = {});
CompletionModel completion_model(const LoadedModel& loaded);

// Prints all completions of all prompts.
void generate(GenerateOptions options, const Session::Print& print);

}  // namespace mt
