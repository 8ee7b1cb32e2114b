#include "post/policy/judging_server.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/command.h"
#include "base/file.h"
#include "base/fits_float.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "base/utf8.h"

namespace mt {

constexpr const char* kJudgingPrompt =
    "How good is this response to the prompt? Say a number from 0 to 10 and nothing else.\n\n"
    "Prompt:\n{prompt}\n\nResponse:\n{response}\n";

constexpr std::string_view kAnswer = "{answer}";

void JudgingOptions::add_to(CommandLine& cl) {
  cl.option("--judge-prompt", &prompt_file, "FILE",
            "of --reward judge: what is asked of a text, with {response}, {prompt} and {answer} in "
            "the places of these: for a number and nothing else; default: how good it is, from 0 "
            "to 10");
  cl.option("--judge-model", &model, "NAME", "likewise: the model, where a server has several");
  cl.option("--judge-max-tokens", &max_tokens, "N", "likewise: of what it says of a text, at most",
            at_least(1));
  cl.option("--judge-requests", &requests, "N", "likewise: how many texts are asked of at a time",
            between(1, 1024));
  cl.option("--judge-api-key-file", &api_key_file, "FILE", "likewise: its first line is the key");
}

std::pair<HttpPlace, std::string> judging_place(const std::string& url) {
  constexpr std::string_view kScheme = "http://", kAsked = "/chat/completions";
  if (!url.starts_with(kScheme) || url.find_first_of("?#@ \t\r\n\v\f") != url.npos)
    fail(Exit::usage, "--reward judge:", url, ": expected http://HOST[:PORT][/PATH]");
  const std::string place = url.substr(kScheme.size());
  const std::size_t slash = std::min(place.find('/'), place.size());
  std::string host = place.substr(0, slash), path = place.substr(slash);
  if (host.find(':', host.starts_with('[') ? host.find(']') : 0) == host.npos) host += ":80";
  HttpPlace server;
  try {
    std::tie(server.host, server.port) = host_and_port(host);
  } catch (const Error& error) {
    fail(error.code(), "--reward judge:", url, ": ", error.what());
  }
  while (path.ends_with('/')) path.pop_back();
  if (path.ends_with(kAsked)) return {server, path};
  return {server, concat(path.empty() ? "/v1" : path, kAsked)};
}

JudgingServer::JudgingServer(const std::string& url, const JudgingOptions& options, double seconds)
    : options_(options),
      seconds_(seconds),
      template_(options.prompt_file.empty() ? kJudgingPrompt : read_file(options.prompt_file)) {
  std::tie(server_, path_) = judging_place(url);
  if (template_.find("{response}") == template_.npos)
    fail(Exit::bad_data, options.prompt_file, ": no {response}, of which a judge is asked");
  server_.api_key = read_api_key(options.api_key_file);
}

bool JudgingServer::needs_answers() const { return template_.find(kAnswer) != template_.npos; }

// The template, of which what stands in the places is read no more.
std::string JudgingServer::request_of(const Response& response) const {
  static const std::string kNone;
  const std::pair<std::string_view, const std::string*> places[] = {
      {"{prompt}", &response.asked},
      {"{response}", &response.text},
      {kAnswer, response.answer != nullptr ? response.answer : &kNone}};
  std::string content;
  for (std::string_view left = template_; !left.empty();) {
    const auto* const place =
        std::ranges::find_if(places, [&](const auto& one) { return left.starts_with(one.first); });
    const bool is_text = place == std::end(places);
    content += is_text ? left.substr(0, 1) : std::string_view(*place->second);
    left.remove_prefix(is_text ? 1 : place->first.size());
  }
  JsonWriter json;
  json.begin_object();
  if (!options_.model.empty()) json.member("model", options_.model);
  json.key("messages").begin_array().begin_object();
  json.member("role", "user").member("content", replace_invalid_utf8(content));
  json.end_object().end_array();
  json.member("max_tokens", options_.max_tokens).member("temperature", 0);
  return json.end_object().text();
}

// Takes that from the front, and white space and * before it.
static bool take(std::string_view& left, std::string_view word) {
  left.remove_prefix(std::min(left.find_first_not_of(" \t\r\n\v\f*"), left.size()));
  if (!left.starts_with(word)) return false;
  left.remove_prefix(word.size());
  return true;
}

static std::optional<double> take_number(std::string_view& left) {
  const bool is_negative = take(left, "-") || take(left, "\u2212");
  if (!is_negative) take(left, "+");
  double number = 0;
  const bool begins = !left.empty() && (left[0] == '.' || (left[0] >= '0' && left[0] <= '9'));
  const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), number);
  if (!begins || error != std::errc() || !fits_float(number)) return std::nullopt;
  left.remove_prefix(static_cast<std::size_t>(end - left.data()));
  return is_negative ? -number : number;
}

static void take_label(std::string_view& left) {
  const auto take_word = [&](std::string_view& from) {
    take(from, "");
    const auto* const end = std::ranges::find_if(
        from, [](char c) { return !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'); });
    const bool is_word = end != from.begin();
    from.remove_prefix(static_cast<std::size_t>(end - from.begin()));
    return is_word;
  };
  std::string_view behind = left;
  if (!take_word(behind)) return;
  take_word(behind);
  if (take(behind, ":")) left = behind;
}

std::optional<double> judged_number(std::string_view text) {
  take_label(text);
  const std::optional<double> number = take_number(text);
  if (!number) return std::nullopt;
  if ((take(text, "/") || take(text, "out of")) && !take_number(text)) return std::nullopt;
  take(text, ".");
  take(text, "");
  return text.empty() ? number : std::nullopt;
}

// What is wrong with the answer; empty: nothing.
static std::string take_answer(const HttpAnswer& answer, double& reward) {
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view text;
  if (answer.status == 0) return answer.body;
  const bool is_json = !parse_json(parser, answer.body).get(body);
  if (answer.status != 200) {
    const bool says_why = is_json && !body.at_pointer("/error/message").get(text);
    return concat("answered with status ", answer.status, says_why ? ": " : "", text);
  }
  if (is_json && !body.at_pointer("/choices/0/finish_reason").get(text) && text == "length")
    return "was cut at --judge-max-tokens";
  if (!is_json || body.at_pointer("/choices/0/message/content").get(text))
    return "answered with no chat completion";
  const std::optional<double> number = judged_number(text);
  if (!number) return "answered with something else than a number";
  reward = *number;
  return {};
}

Judge::Verdict JudgingServer::judge(std::span<const Response> responses,
                                    const std::function<bool()>& ends) const {
  std::vector<HttpQuestion> requests;
  for (const Response& one : responses) requests.push_back({"POST", path_, request_of(one)});
  const std::vector<HttpAnswer> answers =
      ask_http(server_, requests,
               {.at_once = static_cast<int>(options_.requests), .seconds = seconds_, .ends = ends});
  Verdict verdict{.rewards = std::vector<double>(responses.size(), NAN)};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string wrong = take_answer(answers[i], verdict.rewards[i]);
    if (verdict.wrong.empty()) verdict.wrong = wrong;
  }
  return verdict;
}

}  // namespace mt
