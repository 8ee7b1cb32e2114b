#include "post/policy/reward_program.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/fits_float.h"
#include "base/json.h"
#include "base/json_parse.h"

namespace mt {
namespace {

std::vector<std::string> lines_of(std::span<const Response> responses) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < responses.size(); ++i) {
    JsonWriter json;
    json.begin_object()
        .member("id", i)
        .member("prompt", responses[i].prompt)
        .member("response", responses[i].text)
        .key("answer");
    responses[i].answer == nullptr ? json.null() : json.value(*responses[i].answer);
    json.member("truncated", responses[i].truncated);
    json.key("messages").raw(responses[i].messages).key("metadata").raw(responses[i].metadata);
    json.end_object();
    lines.push_back(json.text() + "\n");
  }
  return lines;
}

// A number, or null, which is NaN.
bool is_reward(simdjson::dom::element said, double& reward) {
  reward = NAN;
  return said.is_null() || (!said.get(reward) && fits_float(reward));
}

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Those of which a reward is the sum.  What is wrong with them; empty: nothing.
std::string take_named(simdjson::dom::object said, double& reward, NamedRewards& named) {
  reward = 0;
  for (const auto& [name, value] : said) {
    double number = 0;
    if (!is_reward(value, number)) return "has a named reward that is no number";
    if (!is_name(name)) return "has a reward's name of other characters than letters, digits, _-./";
    if (std::ranges::count(named, name, &NamedRewards::value_type::first) > 0)
      return "has two rewards of one name";
    named.emplace_back(name, number);
    reward += number;
  }
  return named.empty() ? "has no reward" : "";
}

// What is wrong with the line; empty: nothing.
std::string take_line(std::string_view line, simdjson::dom::parser& parser,
                      RewardProgram::Verdict& verdict, std::set<std::int64_t>& told) {
  std::vector<double>& rewards = verdict.rewards;
  simdjson::dom::object object, several;
  std::int64_t id = 0;
  double reward = 0;
  simdjson::dom::element said;
  if (parse_json(parser, line).get(object)) return "is no JSON object";
  if (object["id"].get(id) || id < 0 || id >= std::ssize(rewards)) return "has the id of no text";
  if (object["reward"].get(said)) return "has no reward that is a number or null";
  NamedRewards named;
  if (!said.get(several)) {
    if (std::string wrong = take_named(several, reward, named); !wrong.empty()) return wrong;
  } else if (!is_reward(said, reward)) {
    return "has no reward that is a number or null";
  }
  rewards[static_cast<std::size_t>(id)] = reward;
  verdict.named[static_cast<std::size_t>(id)] = std::move(named);
  told.insert(id);
  return {};
}

}  // namespace

RewardProgram::Verdict RewardProgram::judge(std::span<const Response> responses,
                                            const std::function<bool()>& ends) const {
  Verdict verdict{.rewards = std::vector<double>(responses.size(), NAN),
                  .named = std::vector<NamedRewards>(responses.size())};
  std::set<std::int64_t> told;
  simdjson::dom::parser parser;
  verdict.wrong = program_.ask(
      lines_of(responses),
      [&](std::string_view line) { return take_line(line, parser, verdict, told); }, ends);
  const std::int64_t silent = std::ssize(responses) - std::ssize(told);
  if (silent > 0 && verdict.wrong.empty())
    verdict.wrong = concat("said nothing of ", silent, " texts");
  return verdict;
}

}  // namespace mt
