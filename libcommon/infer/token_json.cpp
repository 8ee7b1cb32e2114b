#include "infer/token_json.h"

namespace mt {

static void write_token(JsonWriter& json, const Tokenizer& tokenizer, std::int32_t id,
                        double log_prob) {
  const std::string bytes = tokenizer.decode({&id, 1});
  json.member("token", bytes).member("id", id).member("logprob", log_prob).key("bytes");
  json.begin_array();
  for (const char byte : bytes) json.value(static_cast<int>(static_cast<unsigned char>(byte)));
  json.end_array();
}

void write_log_probs(JsonWriter& json, const Tokenizer& tokenizer,
                     std::span<const std::int32_t> ids, std::span<const LogProbs> log_probs) {
  json.begin_array();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    json.begin_object();
    write_token(json, tokenizer, ids[i], log_probs[i].chosen);
    json.key("top_logprobs").begin_array();
    for (const auto& [id, log_prob] : log_probs[i].top) {
      json.begin_object();
      write_token(json, tokenizer, id, log_prob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

}  // namespace mt
