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

}  // namespace mt
