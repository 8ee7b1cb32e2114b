#include "serve/completion_request.h"

#include <limits>

#include "base/error.h"

namespace mt {

using simdjson::dom::element;

static constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();
static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

static void read_bias(RequestFields& fields, LogitRules& rules) {
  static constexpr const char* kExpected =
      "an object of at most 300 token numbers, each with a number from -100 to 100";
  const std::optional<element> value = fields.any("logit_bias");
  if (!value) return;
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS || object.size() > 300)
    RequestFields::wrong("logit_bias", kExpected);
  for (const auto& [key, number] : object) {
    double added = 0;
    if (!number.is_number() || number.get(added) != simdjson::SUCCESS ||
        !rules.set_bias(key, added))
      RequestFields::wrong("logit_bias", kExpected);
  }
}

void read_sampling(RequestFields& fields, CompletionOptions& o) {
  constexpr double kGreedy = 1e-5;
  o.sampling.temperature = fields.real("temperature", 0, 100).value_or(1);
  if (o.sampling.temperature < kGreedy) o.sampling.temperature = 0;
  o.sampling.top_p = fields.real("top_p", 0, 1, true).value_or(1);
  o.sampling.top_k = std::max<std::int64_t>(0, fields.integer("top_k", -1, kMostInt32).value_or(0));
  o.rules.min_p = fields.real("min_p", 0, 1).value_or(0);
  o.rules.frequency_penalty = fields.real("frequency_penalty", -2, 2).value_or(0);
  o.rules.presence_penalty = fields.real("presence_penalty", -2, 2).value_or(0);
  o.rules.repetition_penalty = fields.real("repetition_penalty", 0.01, 100).value_or(1);
  o.rules.min_tokens = fields.integer("min_tokens", 0, kMostInt32).value_or(0);
  read_bias(fields, o.rules);
  if (const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(), kMost))
    o.sampling.seed = static_cast<std::uint64_t>(*seed);
  o.stop = fields.texts("stop", 16);
  o.include_stop = fields.flag("include_stop_str_in_output").value_or(false);
  o.stop_tokens = fields.integers("stop_token_ids", 0, kMostInt32, 300);
  o.ignore_eod = fields.flag("ignore_eos").value_or(false);
  o.show_special = !fields.flag("skip_special_tokens").value_or(true);
  o.has_own_tokens = !fields.flag("add_special_tokens").value_or(!o.has_own_tokens);
  fields.pass_over({"user", "metadata", "store", "service_tier", "safety_identifier",
                    "prompt_cache_key", "prompt_cache_retention", "prediction"});
  fields.refuse("use_beam_search", "PUT /api searches with beams", {"false"});
  fields.refuse("truncate_prompt_tokens", "no prompt is cut", {"-1"});
  for (const char* const name : {"bad_words", "allowed_token_ids", "logits_processors"})
    fields.refuse(name, "is not understood; logit_bias takes tokens", {"[]"});
}

StreamOptions read_stream_options(RequestFields& fields) {
  StreamOptions options{.stream = fields.flag("stream").value_or(false)};
  const std::optional<element> value = fields.any("stream_options");
  if (!value) return options;
  if (!options.stream) RequestFields::wrong("stream_options", "nothing, without \"stream\": true");
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS) RequestFields::wrong("stream_options", "an object");
  for (const auto& [key, flag] : object) {
    bool truth = false;
    if (flag.get(truth) != simdjson::SUCCESS)
      RequestFields::wrong("stream_options", "true and false");
    if (key == "include_usage")
      options.include_usage = truth;
    else if (key == "continuous_usage_stats")
      options.continuous_usage = truth;
    else
      fields.add_unknown(concat("stream_options.", key));
  }
  return options;
}

std::optional<std::int64_t> read_prompt_logprobs(RequestFields& fields, bool stream) {
  const std::optional<std::int64_t> count = fields.integer("prompt_logprobs", 0, 20);
  if (count && stream) RequestFields::wrong("prompt_logprobs", "nothing, in a stream");
  return count;
}

// --- Prompts ------------------------------------------------------------------------------------

[[noreturn]] static void wrong_prompt(const char* name) {
  RequestFields::wrong(name,
                       "a string, a list of strings, a list of token numbers or a list of such "
                       "lists, none of them empty");
}

static std::vector<std::int32_t> tokens_of(simdjson::dom::array list, const char* name) {
  std::vector<std::int32_t> ids;
  for (const element one : list) {
    std::int64_t id = 0;
    if (one.get(id) != simdjson::SUCCESS || id < 0 || id > kMostInt32) wrong_prompt(name);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.empty()) wrong_prompt(name);
  return ids;
}

std::vector<PromptInput> read_prompts(RequestFields& fields, const char* name) {
  const std::optional<element> value = fields.any(name);
  if (!value) throw ApiError{.message = concat(name, ": is required"), .param = name};
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS) return {std::string(text)};
  simdjson::dom::array list;
  if (value->get(list) != simdjson::SUCCESS || list.size() == 0) wrong_prompt(name);
  if ((*list.begin()).is_int64()) return {tokens_of(list, name)};
  std::vector<PromptInput> prompts;
  constexpr std::size_t kMostPrompts = 128;
  if (list.size() > kMostPrompts)
    RequestFields::wrong(name, concat("at most ", kMostPrompts, " prompts"));
  for (const element one : list) {
    if (simdjson::dom::array tokens; one.get(tokens) == simdjson::SUCCESS)
      prompts.emplace_back(tokens_of(tokens, name));
    else if (one.get(text) == simdjson::SUCCESS)
      prompts.emplace_back(std::string(text));
    else
      wrong_prompt(name);
  }
  return prompts;
}

CompletionRequest read_completion_request(RequestFields& fields, std::uint64_t seed) {
  CompletionRequest request;
  request.model = fields.text("model").value_or("");
  request.prompts = read_prompts(fields, "prompt");
  CompletionOptions& o = request.options;
  o.sampling.seed = seed;
  read_sampling(fields, o);
  o.num_tokens = fields.integer("max_tokens", 0, kMostInt32).value_or(16);
  request.n = fields.integer("n", 1, 128).value_or(1);
  request.best_of = fields.integer("best_of", 1, 128).value_or(request.n);
  request.echo = fields.flag("echo").value_or(false);
  request.logprobs = fields.integer("logprobs", 0, 20);
  request.stream = read_stream_options(fields);
  request.prompt_logprobs = read_prompt_logprobs(fields, request.stream.stream);
  request.suffix = fields.text("suffix");
  if (request.suffix == "") request.suffix.reset();
  if (request.suffix && request.echo) RequestFields::wrong("suffix", "nothing, with echo");
  if (o.num_tokens == 0 && !request.echo)
    RequestFields::wrong("max_tokens", "at least 1, without \"echo\": true");
  if (request.best_of < request.n) RequestFields::wrong("best_of", "at least n");
  if (request.best_of > request.n && request.stream.stream)
    RequestFields::wrong("best_of", "n, in a stream");
  if (request.logprobs) o.logprobs = request.logprobs;
  if (request.best_of > request.n && !o.logprobs) o.logprobs = 0;
  return request;
}

}  // namespace mt
