#include "serve/megatron_request.h"

#include <set>

#include "base/json_parse.h"
#include "serve/request_json.h"

namespace mt {
namespace {

using simdjson::dom::element;

// As Python sees them: true is the integer 1.
std::optional<std::int64_t> integer(element value) {
  std::int64_t number = 0;
  bool truth = false;
  if (value.get(number) == simdjson::SUCCESS) return number;
  if (value.get(truth) == simdjson::SUCCESS) return truth ? 1 : 0;
  return {};
}
std::optional<double> real(element value) {
  if (value.type() != simdjson::dom::element_type::DOUBLE) return {};  // 1 is none
  return double(value);
}

// The members in the order in which Megatron's server looks at them.
class Reader {
 public:
  explicit Reader(simdjson::dom::object body) : body_(body) {}

  MegatronRequest read() {
    if (!has("prompts")) bad("prompts argument required");
    if (has("max_len")) bad("max_len is no longer used.  Replace with tokens_to_generate");
    if (has("sentences")) bad("sentences is no longer used.  Replace with prompts");
    read_prompts();
    read_length();
    read_sampling();
    read_flags();
    read_beams();
    for (const auto& [key, value] : body_)
      if (!asked_.contains(key)) request_.unknown.emplace_back(key);
    return request_;
  }

 private:
  [[noreturn]] static void bad(const char* text) { throw MegatronRefusal{text, true}; }
  [[noreturn]] static void refuse(const char* text) { throw MegatronRefusal{text, false}; }

  bool has(std::string_view name) {
    asked_.insert(name);
    return body_[name].error() == simdjson::SUCCESS;
  }
  element member(std::string_view name) const { return body_[name].value(); }

  std::int64_t integer_of(std::string_view name, const char* otherwise) const {
    const std::optional<std::int64_t> value = integer(member(name));
    if (!value) refuse(otherwise);
    return *value;
  }
  double real_of(std::string_view name, const char* otherwise) const {
    const std::optional<double> value = real(member(name));
    if (!value) refuse(otherwise);
    return *value;
  }
  void read_flag(std::string_view name, bool& into, const char* otherwise) {
    if (has(name) && member(name).get(into) != simdjson::SUCCESS) refuse(otherwise);
  }

  void read_prompts() {
    simdjson::dom::array prompts;
    if (member("prompts").get(prompts) != simdjson::SUCCESS)
      bad("prompts is not a list of strings");
    if (prompts.size() == 0) bad("prompts is empty");
    constexpr std::size_t kMost = 128;
    std::size_t count = 0;
    for (const element prompt : prompts) {
      std::string_view text;
      if (++count > kMost) bad("Maximum number of prompts is 128");
      if (prompt.get(text) != simdjson::SUCCESS) bad("prompts is not a list of strings");
      request_.prompts.emplace_back(text);
    }
  }

  void read_length() {
    if (has("tokens_to_generate")) {
      request_.tokens_to_generate =
          integer_of("tokens_to_generate", "tokens_to_generate must be an integer greater than 0");
      if (request_.tokens_to_generate < 0)
        refuse("tokens_to_generate must be an integer greater than or equal to 0");
    }
    read_flag("logprobs", request_.logprobs, "logprobs must be a boolean value");
    if (request_.tokens_to_generate == 0 && !request_.logprobs)
      refuse("tokens_to_generate=0 implies logprobs should be True");
  }

  void read_sampling() {
    if (has("temperature")) {
      const element value = member("temperature");
      const std::optional<std::int64_t> whole = integer(value);
      const std::optional<double> number = whole ? static_cast<double>(*whole) : real(value);
      if (!number) refuse("temperature must be a positive number less than or equal to 1000.0");
      request_.temperature = *number;
      if (!(0 < *number && *number <= 100))
        refuse("temperature must be a positive number less than or equal to 100.0");
    }
    if (has("top_k")) {
      request_.top_k = integer_of(
          "top_k",
          "top_k must be an integer equal to or greater than 0 and less than or equal to "
          "1000");
      if (request_.top_k < 0 || request_.top_k > 1000)
        refuse("top_k must be equal to or greater than 0 and less than or equal to 1000");
    }
    if (has("top_p")) {
      request_.top_p = real_of("top_p", "top_p must be a positive float less than or equal to 1.0");
      if (request_.top_p > 0 && request_.top_k > 0)
        refuse("cannot set both top-k and top-p samplings.");
      if (!(0 <= request_.top_p && request_.top_p <= 1))
        refuse("top_p must be less than or equal to 1.0");
    }
    if (has("top_p_decay")) {
      request_.top_p_decay =
          real_of("top_p_decay", "top_p_decay must be a positive float less than or equal to 1.0");
      if (request_.top_p == 0) refuse("top_p_decay cannot be set without top_p");
      if (!(0 <= request_.top_p_decay && request_.top_p_decay <= 1))
        refuse("top_p_decay must be less than or equal to 1.0");
    }
    if (has("top_p_bound")) {
      request_.top_p_bound = real_of(
          "top_p_bound", "top_p_bound must be a positive float less than or equal to top_p");
      if (request_.top_p == 0) refuse("top_p_bound cannot be set without top_p");
      if (!(0 < request_.top_p_bound && request_.top_p_bound <= request_.top_p))
        refuse("top_p_bound must be greater than 0 and less than top_p");
    }
  }

  void read_flags() {
    read_flag("add_BOS", request_.add_bos, "add_BOS must be a boolean value");
    for (const std::string& prompt : request_.prompts)
      if (prompt.empty() && !request_.add_bos) refuse("Empty prompts require add_BOS=true");
    read_flag("stop_on_double_eol", request_.stop_on_double_eol,
              "stop_on_double_eol must be a boolean value");
    read_flag("stop_on_eol", request_.stop_on_eol, "stop_on_eol must be a boolean value");
    read_flag("prevent_newline_after_colon", request_.prevent_newline_after_colon,
              "prevent_newline_after_colon must be a boolean value");
    if (has("random_seed")) {
      const std::int64_t seed = integer_of("random_seed", "random_seed must be integer");
      if (seed < 0) refuse("random_seed must be a positive integer");
      request_.random_seed = seed;
    }
    bool unused =
        false;  // Megatron's server then writes no line of the request; this one never does
    read_flag("no_log", unused, "no_log must be a boolean value");
  }

  void read_beams() {
    if (has("beam_width") && !member("beam_width").is_null()) {
      request_.beam_width = integer_of("beam_width", "beam_width must be integer");
      if (*request_.beam_width < 1) refuse("beam_width must be an integer > 1");
      if (request_.prompts.size() > 1) refuse("When doing beam_search, batch size must be 1");
    }
    if (has("stop_token"))
      request_.stop_token = integer_of("stop_token", "stop_token must be an integer");
    if (has("length_penalty"))
      request_.length_penalty = real_of("length_penalty", "length_penalty must be a float");
  }

  simdjson::dom::object body_;
  std::set<std::string_view> asked_;
  MegatronRequest request_;
};

// The token that is all of this text, if there is one.
std::optional<std::int32_t> token_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  if (ids.empty() || tokenizer.decode({&ids.back(), 1}) != text) return {};
  return ids.back();
}

}  // namespace

MegatronRequest parse_megatron_request(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::object body;
  if (parse_request(parser, json).get(body) != simdjson::SUCCESS)
    throw MegatronRefusal{"the body is no JSON object", true};
  return Reader(body).read();
}

CompletionOptions MegatronRequest::completion(const Tokenizer& tokenizer,
                                              std::uint64_t seed) const {
  CompletionOptions options;
  options.num_tokens = tokens_to_generate;
  options.sampling.temperature = temperature;
  options.sampling.top_k = top_k;
  options.sampling.top_p = top_p;
  options.sampling.seed = seed;
  options.top_p_decay = {top_p_decay, top_p_bound};
  options.begin_document = add_bos;
  if (logprobs) options.logprobs = 0;
  const std::optional<std::int32_t> newline = token_of(tokenizer, "\n"),
                                    blank_line = token_of(tokenizer, "\n\n"),
                                    colon = token_of(tokenizer, ":");
  if (stop_on_double_eol || stop_on_eol) {
    options.ignore_eod = true;
    if (blank_line) options.last_tokens.push_back(*blank_line);
    if (stop_on_double_eol)
      options.last_pair = newline;
    else if (newline)
      options.last_tokens.push_back(*newline);
  }
  if (prevent_newline_after_colon && newline && colon)
    options.rules.never_behind = {*colon, *newline};
  return options;
}

}  // namespace mt
