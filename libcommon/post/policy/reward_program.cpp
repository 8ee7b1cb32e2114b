#include "post/policy/reward_program.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "post/policy/said_reward.h"

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

// What is wrong with the line; empty: nothing.
std::string take_line(std::string_view line, simdjson::dom::parser& parser,
                      RewardProgram::Verdict& verdict, std::set<std::int64_t>& told) {
  std::vector<double>& rewards = verdict.rewards;
  simdjson::dom::object object;
  std::int64_t id = 0;
  double reward = 0;
  simdjson::dom::element said;
  if (parse_json(parser, line).get(object)) return "is no JSON object";
  if (object["id"].get(id) || id < 0 || id >= std::ssize(rewards)) return "has the id of no text";
  NamedRewards named;
  if (object["reward"].get(said)) return "has no reward that is a number or null";
  if (std::string wrong = take_reward(said, reward, named); !wrong.empty()) return wrong;
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
