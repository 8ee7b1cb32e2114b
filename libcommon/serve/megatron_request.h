// MegatronRequest: what Megatron-LM's text generation server takes by PUT /api, checked in its
// order and refused in its words (megatron/inference/text_generation_server.py of core_v0.12).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/completion.h"

namespace mt {

struct MegatronRequest {
  std::vector<std::string> prompts;
  std::int64_t tokens_to_generate = 64;
  bool logprobs = false;
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 0, top_p_decay = 0, top_p_bound = 0;
  bool add_bos = false, stop_on_double_eol = false, stop_on_eol = false,
       prevent_newline_after_colon = false;
  std::optional<std::int64_t> random_seed = {};
  std::optional<std::int64_t> beam_width = {};
  std::optional<std::int64_t> stop_token = {};  // of beams, as is the next
  double length_penalty = 1;
  std::vector<std::string> unknown = {};  // fields that such a server does not look at

  // What it asks of the completion of one prompt.
  CompletionOptions completion(const Tokenizer& tokenizer, std::uint64_t seed) const;
};

// What such a server says instead; Megatron's gives it status 200 but where it is a `bad_request`.
struct MegatronRefusal {
  std::string text;
  bool bad_request = false;
};

// Throws MegatronRefusal.
MegatronRequest parse_megatron_request(std::string_view json);

}  // namespace mt
