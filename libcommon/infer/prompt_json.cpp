#include <simdjson.h>

#include "base/json_parse.h"
#include "base/json_place.h"
#include "base/option.h"
#include "infer/chat_prompts.h"
#include "infer/grammar_cache.h"
#include "infer/prompt_reader.h"

namespace mt {
namespace {

using simdjson::dom::element;

[[noreturn]] void fail_member(const Prompt& prompt, std::string_view key, const char* expected) {
  fail(Exit::bad_data, prompt.place, ": \"", key, "\": expected ", expected);
}

double number(const Prompt& prompt, std::string_view key, element value, double low, double high,
              const char* expected) {
  double x = 0;
  if (value.is_bool() || value.get(x) != simdjson::SUCCESS || !(low <= x && x <= high))
    fail_member(prompt, key, expected);
  return x;
}

std::int64_t integer(const Prompt& prompt, std::string_view key, element value, std::int64_t low) {
  std::int64_t x = 0;
  if (value.get(x) != simdjson::SUCCESS || x < low)
    fail_member(prompt, key, low == 0 ? "an integer, at least 0" : "an integer, at least 1");
  return x;
}

std::string text(const Prompt& prompt, std::string_view key, element value) {
  std::string_view x;
  if (value.get(x) != simdjson::SUCCESS) fail_member(prompt, key, "a string");
  return std::string(x);
}

std::vector<std::int64_t> integers(const Prompt& prompt, std::string_view key, element value) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) fail_member(prompt, key, "a list of integers");
  std::vector<std::int64_t> result;
  for (const element x : array) result.push_back(integer(prompt, key, x, 0));
  return result;
}

std::vector<std::string> texts(const Prompt& prompt, std::string_view key, element value) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) fail_member(prompt, key, "a list of strings");
  std::vector<std::string> result;
  for (const element x : array) result.push_back(text(prompt, key, x));
  return result;
}

bool truth(const Prompt& prompt, std::string_view key, element value) {
  bool x = false;
  if (value.get(x) != simdjson::SUCCESS) fail_member(prompt, key, "true or false");
  return x;
}

void set_bias(Prompt& prompt, std::string_view key, element value) {
  constexpr const char* kExpected =
      "an object of tokens' numbers, each with a number from -100 to 100";
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) fail_member(prompt, key, kExpected);
  prompt.options.rules.bias.clear();
  for (const auto& [id, added] : object)
    if (!prompt.options.rules.set_bias(id, number(prompt, key, added, -100, 100, kExpected)))
      fail_member(prompt, key, kExpected);
}

std::shared_ptr<const TokenGrammar> schema(const Prompt& prompt, std::string_view key,
                                           element value, GrammarCache& grammars) {
  try {
    return grammars.of_schema(simdjson::minify(value));
  } catch (const Error& error) {
    fail(Exit::bad_data, prompt.place, ": \"", key, "\": ", error.what());
  }
}

// False if the key is none of an option.
bool set_option(Prompt& prompt, std::string_view key, element value, GrammarCache& grammars) {
  CompletionOptions& o = prompt.options;
  if (key == "num_tokens")
    o.num_tokens = integer(prompt, key, value, 0);
  else if (key == "num_samples")
    prompt.num_samples = integer(prompt, key, value, 1);
  else if (key == "stop")
    o.stop = value.is_array() ? texts(prompt, key, value) : std::vector{text(prompt, key, value)};
  else if (key == "stop_tokens")
    o.stop_tokens = integers(prompt, key, value);
  else if (key == "ignore_eod")
    o.ignore_eod = truth(prompt, key, value);
  else if (key == "min_tokens")
    o.rules.min_tokens = integer(prompt, key, value, 0);
  else if (key == "json_schema")
    o.grammar = schema(prompt, key, value, grammars);
  else if (key == "logprobs")
    o.logprobs = integer(prompt, key, value, 0);
  else if (key == "temperature")
    o.sampling.temperature = number(prompt, key, value, 0, 1e308, "a number, at least 0");
  else if (key == "top_k")
    o.sampling.top_k = integer(prompt, key, value, 0);
  else if (key == "top_p")
    o.sampling.top_p = number(prompt, key, value, 0, 1, "a number, from 0 to 1");
  else if (key == "min_p")
    o.rules.min_p = number(prompt, key, value, 0, 1, "a number, from 0 to 1");
  else if (key == "repetition_penalty")
    o.rules.repetition_penalty =
        number(prompt, key, value, 0.01, 100, "a number, from 0.01 to 100");
  else if (key == "frequency_penalty")
    o.rules.frequency_penalty = number(prompt, key, value, -2, 2, "a number, from -2 to 2");
  else if (key == "presence_penalty")
    o.rules.presence_penalty = number(prompt, key, value, -2, 2, "a number, from -2 to 2");
  else if (key == "logit_bias")
    set_bias(prompt, key, value);
  else if (key == "seed")
    o.sampling.seed = static_cast<std::uint64_t>(integer(prompt, key, value, 0));
  else
    return false;
  return true;
}

// What a conversation's prompt is made of.
bool is_chat(std::string_view key) {
  return key == "messages" || key == "tools" || key == "documents" || key == "chat_template_kwargs";
}

// What the output has of its own.
bool is_result(std::string_view key) {
  for (const char* const name :
       {"schema", "sample", "text", "tokens", "token_ids", "finish_reason"})
    if (key == name) return true;
  return false;
}

}  // namespace

std::string meant_member(std::string_view key) {
  constexpr std::pair<const char*, const char*> kElsewhere[] = {
      {"max_tokens", "num_tokens"},
      {"max_new_tokens", "num_tokens"},
      {"max_completion_tokens", "num_tokens"},
      {"min_new_tokens", "min_tokens"},
      {"n", "num_samples"},
      {"stop_token_ids", "stop_tokens"},
      {"ignore_eos", "ignore_eod"},
      {"guided_json", "json_schema"}};
  for (const auto& [name, own] : kElsewhere)
    if (key == name) return own;
  return nearest(key, {"num_tokens", "num_samples", "stop", "stop_tokens", "ignore_eod",
                       "min_tokens", "json_schema", "logprobs", "temperature", "top_k", "top_p",
                       "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
                       "logit_bias", "seed", "images"});
}

Prompt prompt_of_json(std::string_view line, const Prompt& defaults, const ChatPrompts& chat,
                      GrammarCache& grammars) {
  Prompt prompt = defaults;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  check_begins_object(line, prompt.place);
  if (parse_json(parser, line).get(object) != simdjson::SUCCESS)
    fail(Exit::bad_data, prompt.place, ": malformed JSON");
  const bool has_prompt = object["prompt"].error() == simdjson::SUCCESS,
             has_messages = object["messages"].error() == simdjson::SUCCESS;
  if (!has_prompt && !has_messages)
    fail(Exit::bad_data, prompt.place, ": no key \"prompt\" or \"messages\"");
  if (has_prompt && has_messages)
    fail(Exit::bad_data, prompt.place, ": both \"prompt\" and \"messages\"");
  for (const auto& [key, value] : object) {
    if (key == "prompt") {
      prompt.text = text(prompt, key, value);
    } else if (has_messages && is_chat(key)) {
      continue;
    } else if (is_result(key)) {
      fail(Exit::bad_data, prompt.place, ": \"", key,
           "\" is a member of the result; expected another name");
    } else if (!set_option(prompt, key, value, grammars)) {
      if (key == "images") prompt.images = texts(prompt, key, value);
      if (!prompt.images.empty() && !chat.reads_images())
        fail(Exit::bad_data, prompt.place, ": \"images\": the model reads none");
      prompt.others.emplace_back(key, simdjson::minify(value));
    }
  }
  if (has_messages) {
    prompt.text = chat.text(chat_value_of_json(line, prompt.place), prompt.place);
    prompt.options.has_own_tokens = true;
  }
  return prompt;
}

}  // namespace mt
