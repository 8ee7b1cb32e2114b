// What completions say of tokens and how likely they were: LogProbLists, OpenAI's four lists, and
// vLLM's prompt_logprobs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "infer/sampling.h"
#include "text/tokenizer.h"

namespace mt {

class LogProbLists {
 public:
  explicit LogProbLists(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The next token; without `probs` nothing stands before it.  Its alternatives are named by their
  // texts, and the token itself is one; of those that look alike the likeliest counts.
  void add(std::int32_t id, const LogProbs* probs);

  // {"tokens":[...],"token_logprobs":[...],"top_logprobs":[...],"text_offset":[...]} of what was
  // added since the last time; offsets are in code points and go on.
  std::string take();

 private:
  static JsonWriter list();

  const Tokenizer& tokenizer_;
  JsonWriter tokens_ = list(), chosen_ = list(), top_ = list(), offsets_ = list();
  std::int64_t offset_ = 0;
};

// vLLM's prompt_logprobs of a prompt of which all tokens but the first were scored: for each null,
// or
//   {"257":{"logprob":-1.5,"rank":2,"decoded_token":" a"},...}
// of the token itself and of `count` alternatives at most.
std::string prompt_log_probs_json(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                                  std::span<const LogProbs> scores, std::size_t count);

}  // namespace mt
