#include "serve/log_prob_lists.h"

#include <algorithm>
#include <vector>

#include "infer/token_json.h"

namespace mt {

JsonWriter LogProbLists::list() {
  JsonWriter json;
  json.begin_array();
  return json;
}

void LogProbLists::add(std::int32_t id, const LogProbs* probs) {
  const auto text = [&](std::int32_t token) { return token_name(tokenizer_, token); };
  const std::string token = text(id);
  tokens_.value(token);
  offsets_.value(offset_);
  for (const char byte : token_bytes(tokenizer_, id)) offset_ += (byte & 0xC0) != 0x80 ? 1 : 0;
  if (probs == nullptr) {
    chosen_.null();
    top_.null();
    return;
  }
  chosen_.value(probs->chosen);
  top_.begin_object().member(token, probs->chosen);
  std::vector<std::string> named = {token};
  for (const auto& [other, log_prob] : probs->top) {
    std::string name = text(other);
    if (std::ranges::count(named, name) > 0) continue;
    top_.member(name, log_prob);
    named.push_back(std::move(name));
  }
  top_.end_object();
}

std::string LogProbLists::take() {
  JsonWriter json;
  json.begin_object();
  const auto put = [&](const char* name, JsonWriter& values) {
    json.key(name).raw(values.end_array().text());
    values = list();
  };
  put("tokens", tokens_);
  put("token_logprobs", chosen_);
  put("top_logprobs", top_);
  put("text_offset", offsets_);
  return json.end_object().text();
}

std::string prompt_log_probs_json(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                                  std::span<const LogProbs> scores, std::size_t count) {
  JsonWriter json;
  json.begin_array();
  for (std::size_t k = 0; k < prompt.size(); ++k) {
    if (k == 0) {
      json.null();
      continue;
    }
    json.begin_object();
    const auto write = [&](std::int32_t id, double log_prob, std::int64_t rank) {
      json.key(std::to_string(id)).begin_object().member("logprob", log_prob).member("rank", rank);
      json.member("decoded_token", token_name(tokenizer, id)).end_object();
    };
    const LogProbs& probs = scores[k - 1];
    write(prompt[k], probs.chosen, probs.rank);
    for (std::size_t i = 0; i < std::min(count, probs.top.size()); ++i)
      if (const auto& [id, log_prob] = probs.top[i]; id != prompt[k])
        write(id, log_prob, static_cast<std::int64_t>(i + 1));
    json.end_object();
  }
  return json.end_array().text();
}

}  // namespace mt
