// How JSON says which tokens were made and how likely they were, as OpenAI's chats do: a list of
//   {"token":" a","id":257,"logprob":-1.5,"bytes":[32,97],"top_logprobs":[{...}]}
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "infer/sampling.h"
#include "text/tokenizer.h"

namespace mt {

// The bytes that a token adds to a text that it does not begin: " the", though alone it would be
// "the".
std::string token_bytes(const Tokenizer& tokenizer, std::int32_t id);
// These, or "bytes:\\xe2\\x82" where they are only a part of a character.
std::string token_name(const Tokenizer& tokenizer, std::int32_t id);

// `log_probs` may have more than there are ids.
void write_log_probs(JsonWriter& json, const Tokenizer& tokenizer,
                     std::span<const std::int32_t> ids, std::span<const LogProbs> log_probs);

}  // namespace mt
