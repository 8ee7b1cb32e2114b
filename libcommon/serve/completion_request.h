// CompletionRequest: what a client asks by POST /v1/completions, as OpenAI's API and vLLM's
// extensions have it; and the fields of sampling, which chats have too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "infer/completion.h"
#include "serve/chat_reader.h"
#include "serve/request_fields.h"

namespace mt {

using PromptInput = std::variant<std::string, std::vector<std::int32_t>>;

struct StreamOptions {
  bool stream = false, include_usage = false, continuous_usage = false;
};

struct CompletionRequest {
  std::string model;  // empty: not said
  std::vector<PromptInput> prompts;
  CompletionOptions options;
  std::int64_t n = 1, best_of = 1;
  bool echo = false;
  std::optional<std::string> suffix = {};  // what stands behind the text that is made
  bool clamps = false;  // fewer tokens are made where the model has no room for all
  std::optional<std::int64_t> logprobs = {};         // alternatives
  std::optional<std::int64_t> prompt_logprobs = {};  // likewise, of each token of the prompt
  StreamOptions stream;
  bool of_task = false;  // of a task of the loop, in its last turn
  ChatForm form = {};    // of a chat: what it says is read so
  // What the answer to a POST of /v1/responses repeats (serve/response_request.h).
  std::optional<std::string> response = {};
};

// The texts or tokens of a field: one, or a list.
std::vector<PromptInput> read_prompts(RequestFields& fields, const char* name);

// Throws ApiError with status 400 for a field that is not as it should be.
CompletionRequest read_completion_request(RequestFields& fields, std::uint64_t seed);

// Reads temperature, top_p, top_k, min_p, the penalties, logit_bias, min_tokens, seed, stop, what
// ends a text, and whether the prompt gets special tokens.
void read_sampling(RequestFields& fields, CompletionOptions& options);
StreamOptions read_stream_options(RequestFields& fields);
// prompt_logprobs, which a stream does not have.
std::optional<std::int64_t> read_prompt_logprobs(RequestFields& fields, bool stream);

}  // namespace mt
