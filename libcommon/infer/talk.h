// talk: a conversation with a trained model in a terminal, as `mt-generate chat` has it.  Each line
// that is typed is a message, which the model's chat template puts behind those before; "/clear"
// forgets them.  Where they become too long for the model, the oldest are left out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "infer/chat_prompts.h"
#include "infer/completion_flags.h"
#include "infer/engine.h"
#include "tensor/device_options.h"

namespace mt {

struct TalkOptions {
  std::string load;
  std::string system;                  // the first message; empty: none
  DeviceOptions compute{.dtype = ""};  // completed
  TokenizerOptions tokenizer;
  CompletionFlags completion{.options = {.num_tokens = 1024}};
  ChatOptions chat;
  EngineLimits limits{.max_requests = 1};
  std::function<void(const std::string&)> warn = {};  // takes what is to be told of the model

  void add_to(CommandLine& cl);
};

struct Terminal {
  std::function<std::optional<std::string>()> read;  // the next line; nothing: there is none
  std::function<void(std::string_view)> print;
  std::function<bool()> stops;  // whether the answer shall go no further
};

void talk(TalkOptions options, const Terminal& terminal);

}  // namespace mt
