// GET /v1/models and /tokenizer_info, POST /tokenize and /detokenize: what the server tells of its
// model.
#include "base/error.h"
#include "base/json.h"
#include "infer/chat_prompts.h"
#include "infer/token_json.h"
#include "serve/request_fields.h"
#include "serve/serving.h"
#include "text/put_in_front.h"

namespace mt {

void serve_models(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  const std::string prefix = "/v1/models/";
  const std::string& path = exchange->request().path;
  const bool one = path.starts_with(prefix);
  JsonWriter json;
  const auto write = [&](std::int64_t adapter) {
    const std::string& name = name_of(serving, adapter);
    json.begin_object().member("id", name).member("object", "model");
    json.member("created", serving.created).member("owned_by", "mt");
    json.member("max_model_len", serving.loop.max_tokens()).member("root", name).key("parent");
    if (adapter == 0)
      json.null();
    else
      json.value(serving.name);
    json.end_object();
  };
  if (one) {
    write(adapter_of(serving, path.substr(prefix.size())));
  } else {
    json.begin_object().member("object", "list").key("data").begin_array();
    write(0);
    for (const std::int64_t adapter : serving.adapters.all()) write(adapter);
    json.end_array().end_object();
  }
  exchange->answer(200, kJson, json.text());
}

void serve_tokenize(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  adapter_of(serving, fields.text("model").value_or(""));
  const bool chat = fields.any("messages").has_value();  // whose template has the special tokens
  std::optional<std::string> text =
      chat ? chat_text(serving, chat_values(exchange->request().body), fields)
           : fields.text("prompt");
  if (!text) text = fields.text("content");
  if (!text) throw ApiError{.message = "prompt: is required", .param = "prompt"};
  fields.pass_over({"content"});
  const bool special = fields.flag("add_special_tokens").value_or(!chat);
  const bool pieces = fields.flag("with_pieces").value_or(false);
  check_unknown(serving, fields.unknown());
  const Tokenizer& tokenizer = serving.model.tokenizer;
  std::vector<std::int32_t> ids;
  if (special)
    tokenizer.encode(*text, ids);
  else
    encode_alone(tokenizer, *text, ids);
  JsonWriter json;
  json.begin_object().key("tokens").begin_array();
  for (const std::int32_t id : ids)
    if (pieces)
      json.begin_object().member("id", id).member("piece", token_bytes(tokenizer, id)).end_object();
    else
      json.value(id);
  json.end_array().member("count", ids.size()).member("max_model_len", serving.loop.max_tokens());
  exchange->answer(200, kJson, json.end_object().text());
}

void serve_detokenize(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  adapter_of(serving, fields.text("model").value_or(""));
  const Tokenizer& tokenizer = serving.model.tokenizer;
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : fields.integers("tokens", 0, tokenizer.vocab_size() - 1))
    ids.push_back(static_cast<std::int32_t>(id));
  check_unknown(serving, fields.unknown());
  const std::string text = tokenizer.decode_text(ids);
  JsonWriter json;
  json.begin_object().member("prompt", text).member("content", text).end_object();
  exchange->answer(200, kJson, json.text());
}

void serve_tokenizer_info(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  const Tokenizer& tokenizer = serving.model.tokenizer;
  const SpecialTokens special = tokenizer.special_ids();
  JsonWriter json;
  json.begin_object().member("tokenizer_class", tokenizer.type());
  const auto token = [&](const char* key, std::int32_t id) {
    json.key(key);
    if (id >= 0)
      json.value(tokenizer.decode_text({&id, 1}));
    else
      json.null();
  };
  token("bos_token", special.bos);
  token("eos_token", special.eos >= 0 ? special.eos : tokenizer.eod());
  token("pad_token", special.pad);
  json.key("chat_template");
  try {
    json.value(serving.chat.source(false));
  } catch (const Error&) {  // there is none
    json.null();
  }
  exchange->answer(200, kJson, json.end_object().text());
}

}  // namespace mt
