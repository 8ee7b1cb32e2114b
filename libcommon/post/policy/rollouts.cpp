#include "post/policy/rollouts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "base/fits_float.h"
#include "base/json.h"
#include "post/labels/object_lines.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

simdjson::dom::array items_of(const JsonObject& line, const char* name) {
  simdjson::dom::array items;
  if (line.member(name).get(items)) line.refuse("\"", name, "\": expected a list");
  return items;
}

void add_ids(const JsonObject& line, const char* name, std::int64_t vocab_size,
             std::vector<std::int32_t>& ids) {
  const std::size_t before = ids.size();
  for (const simdjson::dom::element item : items_of(line, name)) {
    std::int64_t id = -1;
    if (item.get(id) || id < 0 || id >= vocab_size)
      line.refuse("\"", name, "\": expected tokens from 0 to ", vocab_size - 1);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.size() == before) line.refuse("\"", name, "\": has no token");
}

std::vector<float> log_probs(const JsonObject& line, const char* name, std::int64_t tokens) {
  std::vector<float> all;
  if (!line.has(name)) return all;
  for (const simdjson::dom::element item : items_of(line, name)) {
    double number = 1;
    if (item.get(number) || !(number <= 0) || !fits_float(number))
      line.refuse("\"", name, "\": expected log-probabilities, none above 0");
    all.push_back(static_cast<float>(number));
  }
  if (std::ssize(all) != tokens)
    line.refuse("\"", name, "\": ", all.size(), " numbers of ", tokens, " tokens");
  return all;
}

std::vector<float> real_numbers(const JsonObject& line, const char* name, std::int64_t tokens) {
  std::vector<float> all;
  if (!line.has(name)) return all;
  for (const simdjson::dom::element item : items_of(line, name)) {
    double number = 0;
    if (item.get(number) || !fits_float(number))
      line.refuse("\"", name, "\": expected numbers that float32 has");
    all.push_back(static_cast<float>(number));
  }
  if (std::ssize(all) != tokens)
    line.refuse("\"", name, "\": ", all.size(), " numbers of ", tokens, " tokens");
  return all;
}

// What the policy did not write of the completion is not learnt.
void mask(const JsonObject& line, Example& text) {
  if (!line.has("completion_mask")) return;
  auto at = std::ranges::find(text.learnt, true);
  for (const simdjson::dom::element item : items_of(line, "completion_mask")) {
    std::int64_t one = -1;
    if (at == text.learnt.end()) line.refuse("\"completion_mask\": more numbers than tokens");
    if (item.get(one) || (one != 0 && one != 1))
      line.refuse("\"completion_mask\": expected numbers 0 and 1");
    *at++ = one == 1;
  }
  if (at != text.learnt.end()) line.refuse("\"completion_mask\": fewer numbers than tokens");
  if (text.targets() == 0) line.refuse("\"completion_mask\": has no token that is learnt");
}

bool ends_texts(std::int32_t token, const Tokenizer& tokenizer) {
  return token == tokenizer.special_ids().eos || token == tokenizer.eod();
}

// The tokens that the policy wrote last, behind which it was answered no more.
std::span<const std::int32_t> last_turn(const Example& text) {
  const auto behind = std::find(text.learnt.rbegin(), text.learnt.rend(), true),
             before = std::find(behind, text.learnt.rend(), false);
  return std::span(text.ids).subspan(static_cast<std::size_t>(text.learnt.rend() - before),
                                     static_cast<std::size_t>(before - behind));
}

// What the policy said last, without the token that ends it.
std::string text_of(const Rollout& rollout, const Tokenizer& tokenizer) {
  const std::span<const std::int32_t> ids = last_turn(rollout.text);
  const bool has_end = !rollout.truncated || ends_texts(ids.back(), tokenizer);
  return tokenizer.decode_text(ids.first(ids.size() - (has_end ? 1 : 0)));
}

bool is_truncated(const JsonObject& line, std::int32_t last, const Tokenizer& tokenizer) {
  bool truncated = !ends_texts(last, tokenizer);
  if (line.has("truncated") && line.member("truncated").get(truncated))
    line.refuse("\"truncated\": expected true or false");
  return truncated;
}

// Whether they are experts of a token in one layer, or say that it has none.
bool are_of_layer(std::span<const std::int32_t> experts) {
  return experts[0] < 0
             ? std::ranges::all_of(experts, [](std::int32_t e) { return e < 0; })
             : std::ranges::adjacent_find(experts, std::greater_equal()) == experts.end();
}

std::vector<std::int32_t> experts_of(const JsonObject& line, const RolloutOptions& options,
                                     std::int64_t tokens) {
  std::vector<std::int32_t> all;
  if (options.choices == 0) return all;
  for (const simdjson::dom::element item : items_of(line, "experts")) {
    std::int64_t expert = -2;
    if (item.get(expert) || expert < -1 || expert >= options.experts)
      line.refuse("\"experts\": expected numbers from -1 to ", options.experts - 1);
    all.push_back(static_cast<std::int32_t>(expert));
  }
  if (std::ssize(all) % options.choices != 0 || std::ssize(all) > tokens * options.choices)
    line.refuse("\"experts\": ", all.size(), " numbers, expected ", options.choices,
                " of each of at most ", tokens, " tokens");
  const auto of_layer = static_cast<std::size_t>(options.of_layer);
  for (std::size_t i = 0; i < all.size(); i += of_layer)
    if (!are_of_layer(std::span(all).subspan(i, of_layer)))
      line.refuse("\"experts\": expected in each layer ", of_layer,
                  " ascending numbers, or as many -1");
  return all;
}

// What a reward was made of, which is told alone: others may write something else there.
NamedRewards named_rewards(const JsonObject& line) {
  NamedRewards named;
  simdjson::dom::object said;
  if (!line.has("rewards") || line.member("rewards").get(said)) return named;
  for (const auto& [name, value] : said) {
    double reward = NAN;
    if (!value.is_null() && value.get(reward)) return {};
    named.emplace_back(name, reward);
  }
  return named;
}

Rollout rollout_of(const JsonObject& line, const RolloutOptions& options,
                   const Tokenizer& tokenizer) {
  Rollout one;
  const std::int64_t words = tokenizer.vocab_size();
  add_ids(line, "prompt_ids", words, one.text.ids);
  one.text.learnt.assign(one.text.ids.size(), false);
  add_ids(line, "completion_ids", words, one.text.ids);
  one.text.learnt.resize(one.text.ids.size(), true);
  if (one.text.size() > options.seq_length)
    line.refuse(one.text.size(), " tokens, longer than --seq-length ", options.seq_length);
  mask(line, one.text);
  one.truncated = is_truncated(line, last_turn(one.text).back(), tokenizer);
  std::string_view said;
  if (line.has("text") && !line.member("text").get(said)) one.said = said;
  if (line.has("stopped") && line.member("stopped").get(one.stopped))
    line.refuse("\"stopped\": expected true or false");
  if (one.stopped && !line.has("text")) line.refuse("\"stopped\": needs \"text\"");
  if (!options.rewards.empty())
    one.reward = reward_of(options.rewards, one.stopped ? one.said : text_of(one, tokenizer),
                           needs_answer(options.rewards) ? line.text("answer") : "");
  else
    one.reward = line.member("reward").is_null() ? NAN : line.real("reward");
  if (!std::isnan(one.reward) && !fits_float(one.reward))
    line.refuse("\"reward\": ", one.reward, ", expected a number that float32 has");
  one.rewards = named_rewards(line);
  const std::int64_t tokens = one.text.targets();
  one.generated = log_probs(line, "log_probs", tokens);
  one.old = log_probs(line, "old_log_probs", tokens);
  if (one.old.empty()) one.old = one.generated;
  if (one.generated.empty()) one.generated = one.old;
  one.reference = log_probs(line, "reference_log_probs", tokens);
  one.values = real_numbers(line, "values", tokens);
  one.experts = experts_of(line, options, one.text.size());
  if (std::int64_t version = 0; line.has("version") && !line.member("version").get(version))
    one.version = version;
  return one;
}

// Whether both have the same prompt.
bool are_of_a_group(const Rollout& a, const Rollout& b) {
  const std::int64_t tokens = a.prompt_tokens();
  return tokens == b.prompt_tokens() &&
         std::equal(a.text.ids.begin(), a.text.ids.begin() + tokens, b.text.ids.begin());
}

}  // namespace

static double penalty(const Rollout& one, std::size_t token, const AdvantageRules& rules) {
  return rules.beta * kl_of(one.old[token], one.reference[token], rules.kl);
}

static bool counts(const Rollout& one, const AdvantageRules& rules) {
  return !std::isnan(one.reward) && !(rules.masks_truncated && one.truncated);
}

// Gives the tokens of all texts, one behind the other, their advantages.
static void put_advantages(std::span<Rollout> step, std::span<const double> of_tokens) {
  auto next = of_tokens.begin();
  for (Rollout& one : step) {
    one.advantages.clear();
    const std::int64_t targets = one.text.targets();
    for (std::int64_t t = 0; t < targets; ++t, ++next)
      one.advantages.push_back(std::isnan(one.reward) ? 0 : static_cast<float>(*next));
  }
}

// Of what a value head said of each token.
static void take_gae(std::span<Rollout> step, const AdvantageRules& rules) {
  std::vector<double> of_tokens, weights;
  for (Rollout& one : step) {
    const std::vector<double> values(one.values.begin(), one.values.end());
    std::vector<double> rewards(values.size());
    for (std::size_t t = 0; rules.beta > 0 && t < rewards.size(); ++t)
      rewards[t] = -penalty(one, t, rules);
    rewards.back() += one.reward;
    const std::vector<double> all = gae_advantages(rewards, values, *rules.gae);
    one.returns.clear();
    for (std::size_t t = 0; t < all.size(); ++t) {
      one.returns.push_back(
          static_cast<float>(std::isnan(one.reward) ? values[t] : all[t] + values[t]));
      of_tokens.push_back(std::isnan(one.reward) ? 0 : all[t]);
      weights.push_back(counts(one, rules) ? 1 : 0);
    }
  }
  if (rules.scale == RewardScale::tokens) whiten(of_tokens, weights);
  put_advantages(step, of_tokens);
}

void take_advantages(std::span<Rollout> step, std::int64_t group, const AdvantageRules& rules) {
  if (rules.gae) return take_gae(step, rules);
  std::vector<double> rewards;
  for (const Rollout& one : step) {
    double reward = one.reward;
    for (std::size_t t = 0; rules.kl_place == KlPlace::reward && t < one.old.size(); ++t)
      reward -= penalty(one, t, rules);
    rewards.push_back(reward);
  }
  const std::vector<double> of_texts = advantages(rewards, group, rules);
  std::vector<double> of_tokens, weights;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const Rollout& one = step[i];
    const std::int64_t targets = one.text.targets();
    for (std::int64_t t = 0; t < targets; ++t) {
      of_tokens.push_back(of_texts[i]);
      if (rules.kl_place == KlPlace::advantage)
        of_tokens.back() -= penalty(one, static_cast<std::size_t>(t), rules);
      weights.push_back(counts(one, rules) ? 1 : 0);
    }
  }
  if (rules.scale == RewardScale::tokens) whiten(of_tokens, weights);
  put_advantages(step, of_tokens);
}

std::string line_of(const Rollout& rollout, const std::string& text) {
  const auto ids = std::span(rollout.text.ids);
  const auto before = static_cast<std::size_t>(rollout.prompt_tokens());
  JsonWriter json;
  const auto list = [&](const char* name, const auto& items) {
    if (items.empty()) return;
    json.key(name).begin_array();
    for (const auto& item : items) json.value(item);
    json.end_array();
  };
  json.begin_object();
  list("prompt_ids", ids.first(before));
  list("completion_ids", ids.subspan(before));
  std::vector<int> learnt;
  for (std::size_t t = before; t < rollout.text.learnt.size(); ++t)
    learnt.push_back(rollout.text.learnt[t] ? 1 : 0);
  if (std::ranges::count(learnt, 0) > 0) list("completion_mask", learnt);
  json.member("text", text).member("truncated", rollout.truncated).member("reward", rollout.reward);
  if (rollout.stopped) json.member("stopped", true);
  if (!rollout.rewards.empty()) {
    json.key("rewards").begin_object();
    for (const auto& [name, reward] : rollout.rewards) json.member(name, reward);
    json.end_object();
  }
  if (rollout.version) json.member("version", *rollout.version);
  list("versions", rollout.versions);
  if (rollout.generated != rollout.old) list("log_probs", rollout.generated);
  list("old_log_probs", rollout.old);
  list("experts", rollout.experts);
  list("values", rollout.values);
  list("reference_log_probs", rollout.reference);
  return json.end_object().text() + "\n";
}

RewardCount count_rewards(std::span<const double> rewards) {
  RewardCount count;
  double sum = 0;
  for (const double one : rewards) {
    count.without += std::isnan(one) ? 1 : 0;
    sum += std::isnan(one) ? 0 : one;
  }
  const auto rewarded = static_cast<double>(std::ssize(rewards) - count.without);
  count.mean = rewarded > 0 ? std::round(sum / rewarded * 1e6) / 1e6 : NAN;
  return count;
}

void NamedMeans::add(const NamedRewards& rewards) {
  for (const auto& [name, reward] : rewards) {
    auto found = std::ranges::find(sums_, name, &Sum::name);
    if (found == sums_.end()) found = sums_.insert(sums_.end(), {.name = name});
    if (std::isnan(reward)) continue;
    found->sum += reward;
    ++found->count;
  }
}

NamedRewards NamedMeans::means() const {
  NamedRewards means;
  for (const Sum& one : sums_)
    means.emplace_back(one.name, std::round(one.sum / static_cast<double>(one.count) * 1e6) / 1e6);
  return means;
}

std::vector<Rollout> read_rollouts(const std::vector<std::string>& files,
                                   const RolloutOptions& options, const Tokenizer& tokenizer) {
  std::vector<Rollout> all;
  for_each_object(files, [&](const JsonObject& line, std::int64_t number) {
    all.push_back(rollout_of(line, options, tokenizer));
    all.back().text.file = line.where().substr(0, line.where().rfind(':'));
    all.back().text.line = number;
    const std::size_t first = (all.size() - 1) / static_cast<std::size_t>(options.group) *
                              static_cast<std::size_t>(options.group);
    if (!are_of_a_group(all[first], all.back()))
      line.refuse("\"prompt_ids\": is another prompt than line ", all[first].text.line,
                  "'s, the first of its --num-generations ", options.group);
  });
  if (all.empty()) fail(Exit::bad_data, files.front(), ": no rollouts");
  if (std::ssize(all) % options.group != 0)
    fail(Exit::bad_data, files.back(), ": ", all.size(),
         " rollouts, no multiple of --num-generations ", options.group);
  return all;
}

}  // namespace mt
