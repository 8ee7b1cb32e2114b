#include "post/policy/reward_program.h"

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/fits_float.h"
#include "base/json.h"
#include "base/json_parse.h"

namespace mt {
namespace {

std::string lines_of(std::span<const Response> responses) {
  std::string lines;
  for (std::size_t i = 0; i < responses.size(); ++i) {
    JsonWriter json;
    json.begin_object()
        .member("id", i)
        .member("prompt", responses[i].prompt)
        .member("response", responses[i].text)
        .key("answer");
    responses[i].answer == nullptr ? json.null() : json.value(*responses[i].answer);
    lines += json.member("truncated", responses[i].truncated).end_object().text() + "\n";
  }
  return lines;
}

// What is wrong with the line; empty: nothing.
std::string take_line(std::string_view line, simdjson::dom::parser& parser,
                      std::vector<double>& rewards, std::set<std::int64_t>& told) {
  simdjson::dom::object object;
  std::int64_t id = 0;
  double reward = std::numeric_limits<double>::quiet_NaN();
  simdjson::dom::element said;
  if (parse_json(parser, line).get(object)) return "is no JSON object";
  if (object["id"].get(id) || id < 0 || id >= std::ssize(rewards)) return "has the id of no text";
  if (object["reward"].get(said) || (!said.is_null() && (said.get(reward) || !fits_float(reward))))
    return "has no reward that is a number or null";
  rewards[static_cast<std::size_t>(id)] = reward;
  told.insert(id);
  return {};
}

}  // namespace

RewardProgram::Verdict RewardProgram::judge(std::span<const Response> responses,
                                            const std::function<bool()>& ends) const {
  Verdict verdict{.rewards = std::vector<double>(responses.size(), NAN)};
  std::set<std::int64_t> told;
  simdjson::dom::parser parser;
  verdict.wrong = program_.ask(
      lines_of(responses),
      [&](std::string_view line) { return take_line(line, parser, verdict.rewards, told); }, ends);
  const std::int64_t silent = std::ssize(responses) - std::ssize(told);
  if (silent > 0 && verdict.wrong.empty())
    verdict.wrong = concat("said nothing of ", silent, " texts");
  return verdict;
}

}  // namespace mt
