#include "post/policy/environment.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/json_parse.h"
#include "post/policy/policy_prompts.h"
#include "post/policy/said_reward.h"

namespace mt {

static std::string line_of(std::size_t id, const EnvironmentProgram::Dialogue& of) {
  JsonWriter json;
  json.begin_object().member("id", id).member("turn", of.turn).member("prompt", of.prompt->text);
  json.key("messages").begin_array();
  for (const EnvironmentProgram::Said& said : of.messages)
    json.begin_object().member("role", said.role).member("content", said.content).end_object();
  json.end_array().member("response", of.response).key("answer");
  of.prompt->answer ? json.value(*of.prompt->answer) : json.null();
  json.member("truncated", of.truncated).key("metadata").raw(of.metadata);
  return json.end_object().text() + "\n";
}

namespace {

struct Reply {
  bool is_there = false, goes_on = false;
  double reward = 0;
  NamedRewards named = {};
  EnvironmentProgram::Said observation = {.role = "user", .content = {}};
  std::string metadata = "null";
  std::optional<std::vector<std::string>> stop = {};
};

// What is wrong with them; empty: nothing.
std::string take_stop(simdjson::dom::element said, Reply& reply) {
  constexpr const char* kWrong = "has a stop that is no list of texts";
  simdjson::dom::array texts;
  std::string_view text;
  if (said.is_null()) return {};
  if (said.get(texts)) return kWrong;
  reply.stop.emplace();
  for (const simdjson::dom::element one : texts) {
    if (one.get(text) || text.empty()) return kWrong;
    reply.stop->emplace_back(text);
  }
  return {};
}

// What is wrong with it; empty: nothing.
std::string take_observation(simdjson::dom::element said, Reply& reply) {
  std::string_view role, content;
  if (said.is_null()) return {};
  reply.goes_on = true;
  if (said.get(content)) {
    simdjson::dom::object message;
    if (said.get(message) || message["role"].get(role) || message["content"].get(content))
      return "has an observation that is neither a text nor one with a role and a content";
    reply.observation.role = role;
  }
  reply.observation.content = content;
  return {};
}

std::string take_line(std::string_view line, simdjson::dom::parser& parser,
                      std::span<Reply> replies) {
  simdjson::dom::object object;
  simdjson::dom::element member;
  std::int64_t id = 0;
  if (parse_json(parser, line).get(object)) return "is no JSON object";
  if (object["id"].get(id) || id < 0 || id >= std::ssize(replies)) return "has the id of no text";
  const auto has = [&](const char* name) { return !object[name].get(member); };
  if (!has("reward") && !has("observation") && !has("done"))
    return "has neither a reward nor an observation nor done";
  Reply reply{.is_there = true};
  if (has("reward") && !member.is_null())
    if (std::string wrong = take_reward(member, reply.reward, reply.named); !wrong.empty())
      return wrong;
  if (has("observation"))
    if (const std::string wrong = take_observation(member, reply); !wrong.empty()) return wrong;
  if (has("stop"))
    if (std::string wrong = take_stop(member, reply); !wrong.empty()) return wrong;
  bool done = false;
  if (has("done") && !member.is_null() && member.get(done))
    return "says no true or false under done";
  if (done) reply.goes_on = false;
  if (has("metadata")) reply.metadata = simdjson::minify(member);
  replies[static_cast<std::size_t>(id)] = reply;
  return {};
}

}  // namespace

EnvironmentProgram::Answers EnvironmentProgram::answer(std::span<Dialogue* const> dialogues,
                                                       const std::function<bool()>& ends) const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < dialogues.size(); ++i) lines.push_back(line_of(i, *dialogues[i]));
  std::vector<Reply> replies(dialogues.size());
  simdjson::dom::parser parser;
  Answers answers;
  answers.wrong = program_.ask(
      lines, [&](std::string_view line) { return take_line(line, parser, replies); }, ends);
  std::int64_t silent = 0;
  for (std::size_t i = 0; i < dialogues.size(); ++i) {
    Dialogue& of = *dialogues[i];
    Reply& reply = replies[i];
    of.reward = reply.is_there ? of.reward + reply.reward : NAN;
    for (const auto& [name, reward] : reply.named) {
      auto found = std::ranges::find(of.named, name, &NamedRewards::value_type::first);
      if (found == of.named.end()) found = of.named.insert(found, {name, 0});
      found->second += reward;
    }
    silent += reply.is_there ? 0 : 1;
    answers.go_on.push_back(reply.goes_on);
    if (!reply.goes_on) continue;
    of.messages.push_back({"assistant", of.response});
    of.messages.push_back(std::move(reply.observation));
    of.metadata = std::move(reply.metadata);
    of.stop = std::move(reply.stop);
    ++of.turn;
  }
  if (silent > 0 && answers.wrong.empty())
    answers.wrong = concat("said nothing of ", silent, " texts");
  return answers;
}

}  // namespace mt
