// generate: continues prompts with a trained model, as mt-generate does.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/command.h"
#include "formats/load_model.h"
#include "infer/chat_prompts.h"
#include "infer/completion_flags.h"
#include "infer/session.h"
#include "tensor/device_options.h"

namespace mt {

struct GenerateOptions {
  std::string load, adapter, draft_load;
  std::vector<std::string> prompts, images;
  std::optional<std::int64_t> num_samples;
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  CompletionFlags completion;
  SessionOptions session;
  ChatOptions chat;
  std::function<void(const std::string&)> warn = {};  // takes what is to be told of the model
  // Where a Retro's neighbours are looked up, if they are.
  std::function<std::unique_ptr<NeighborSource>(const LoadedModel&)> open_neighbors = {};

  void add_to(CommandLine& cl);
};

// The model at a path, which continues texts: a GPT, or a T5, which answers them, or, where texts
// have neighbours, a Retro; and what its completions know of it.
struct ContinuedWith {
  std::string adapter = {};  // a folder; empty: none
  bool neighbors = false;    // whether texts have some
  // EngineLimits'; Exit::bad_config if the model has others, or none.
  std::int64_t further_layers = 0;
};
LoadedModel load_to_continue(const std::string& path, const TokenizerOptions& tokenizer,
                             const DeviceOptions& compute, const ContinuedWith& with = {});
CompletionModel completion_model(const LoadedModel& loaded);

// --draft-load: the model that guesses what `loaded` says; none where the path is empty.
// Exit::bad_config for a LLaVA, and if it has other tokens.
inline constexpr const char* kLoadedDraft =
    "smaller GPT of the same tokens, which guesses for --draft-tokens; without it, and without "
    "--draft-layers, a completion's own n-grams do";
std::optional<LoadedModel> load_draft(const std::string& path, const LoadedModel& loaded,
                                      TokenizerOptions tokenizer, const DeviceOptions& compute);

// Prints all completions of all prompts.
void generate(GenerateOptions options, const Session::Print& print);

}  // namespace mt
