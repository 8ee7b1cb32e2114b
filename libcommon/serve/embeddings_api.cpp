// POST /v1/embeddings: OpenAI's embeddings, of what the model makes of texts (infer/text_states.h).
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "infer/text_states.h"
#include "model/config/model_config.h"
#include "serve/completion_request.h"
#include "serve/serving.h"
#include "text/bpe/base64.h"

namespace mt {
namespace {

struct TextsToEmbed {
  const Serving& serving;
  std::shared_ptr<Exchange> exchange;
  std::int64_t adapter = 0;
  std::vector<std::vector<std::int32_t>> texts;
  bool base64 = false;
  std::size_t dimensions = 0;
  std::vector<std::vector<float>> made = {};

  // Cut, and of length 1 again.
  std::vector<float> cut(std::vector<float> vector) const {
    if (dimensions >= vector.size()) return vector;
    vector.resize(dimensions);
    double square = 0;
    for (const float x : vector) square += static_cast<double>(x) * static_cast<double>(x);
    for (float& x : vector)
      if (square > 0) x = static_cast<float>(static_cast<double>(x) / std::sqrt(square));
    return vector;
  }

  void answer() const {
    std::size_t tokens = 0;
    JsonWriter json;
    json.begin_object().member("object", "list").key("data").begin_array();
    for (std::size_t i = 0; i < made.size(); ++i) {
      tokens += texts[i].size();
      json.begin_object().member("object", "embedding").member("index", i).key("embedding");
      if (base64) {
        json.value(to_base64(
            {reinterpret_cast<const char*>(made[i].data()), made[i].size() * sizeof(float)}));
      } else {
        json.begin_array();
        for (const float x : made[i]) json.value(static_cast<double>(x));
        json.end_array();
      }
      json.end_object();
    }
    json.end_array().member("model", name_of(serving, adapter)).key("usage").begin_object();
    json.member("prompt_tokens", tokens).member("total_tokens", tokens).end_object().end_object();
    exchange->answer(200, kJson, json.text());
  }
};

std::vector<std::int32_t> ids_of(const Serving& serving, const PromptInput& input) {
  std::vector<std::int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&input))
    serving.model.tokenizer.encode(*text, ids);
  else
    ids = std::get<std::vector<std::int32_t>>(input);
  if (ids.empty()) RequestFields::wrong("input", "texts of at least one token");
  for (const std::int32_t id : ids)
    if (id < 0 || id >= serving.model.vocab_size)
      RequestFields::wrong("input", concat("tokens from 0 to ", serving.model.vocab_size - 1));
  if (std::ssize(ids) > serving.loop.max_tokens())
    throw ApiError{.message = concat("the input has ", ids.size(), " tokens, and the model takes ",
                                     serving.loop.max_tokens()),
                   .param = "input",
                   .code = "context_length_exceeded"};
  return ids;
}

}  // namespace

void serve_embeddings(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  const std::int64_t adapter = adapter_of(serving, fields.text("model").value_or(""));
  if (serving.model.start_token)
    throw ApiError{.message = "the model has an encoder, and makes no embeddings"};
  if (serving.model.llava != nullptr)
    throw ApiError{.message = "the model is a LLaVA, of which no embeddings are made"};
  const auto pending = std::make_shared<TextsToEmbed>(
      TextsToEmbed{.serving = serving, .exchange = exchange, .adapter = adapter, .texts = {}});
  for (const PromptInput& input : read_prompts(fields, "input"))
    pending->texts.push_back(ids_of(serving, input));
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    RequestFields::wrong("encoding_format", "float or base64");
  pending->base64 = format == "base64";
  const std::int64_t most = serving.loop.model().config().hidden_size;
  pending->dimensions =
      static_cast<std::size_t>(fields.integer("dimensions", 1, most).value_or(most));
  fields.pass_over({"user"});
  check_unknown(serving, fields.unknown());
  // A text at a time, between which others get their tokens.
  const auto turn = [pending](EngineLoop& loop) {
    try {
      const std::size_t place = pending->made.size();
      pending->made.push_back(pending->cut(
          loop.texts().of(pending->texts[place], pending->serving.pooling, pending->adapter)));
      if (pending->made.size() < pending->texts.size()) return true;
      pending->answer();
    } catch (const std::exception& error) {
      answer_error(*pending->exchange, {.status = 500, .message = error.what()});
    }
    return false;
  };
  submit(serving, exchange, turn,
         {.failed = [exchange](const ApiError& why) { answer_error(*exchange, why); },
          .adapter = adapter});
}

}  // namespace mt
