#include "infer/token_json.h"

#include "base/utf8.h"

namespace mt {

std::string token_bytes(const Tokenizer& tokenizer, std::int32_t id) {
  const std::int32_t twice[] = {id, id};
  const std::string alone = tokenizer.decode({&id, 1}), both = tokenizer.decode(twice);
  return both.starts_with(alone) ? both.substr(alone.size()) : alone;
}

std::string token_name(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string bytes = token_bytes(tokenizer, id);
  if (is_valid_utf8(bytes)) return bytes;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    name += {'\\', 'x', kDigits[value / 16], kDigits[value % 16]};
  }
  return name;
}

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
