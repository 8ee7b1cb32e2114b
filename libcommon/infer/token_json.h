// How JSON says which tokens were made and how likely they were, as OpenAI's chats do: a list of
//   {"token":" a","id":257,"logprob":-1.5,"bytes":[32,97],"top_logprobs":[{...}]}
#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "infer/sampling.h"
#include "text/tokenizer.h"

namespace mt {

// `log_probs` may have more than there are ids.
void write_log_probs(JsonWriter& json, const Tokenizer& tokenizer,
                     std::span<const std::int32_t> ids, std::span<const LogProbs> log_probs);

}  // namespace mt
