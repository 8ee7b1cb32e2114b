// Runs that are validated by texts that they draw for other prompts.
#include <cmath>
#include <map>

#include "post/policy/validation.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/policy/drawing_run.h"

namespace mt {
namespace {

// Texts of other prompts are drawn between steps, which learn nothing of them: how many are right,
// and of how many prompts one is among two of them, or four.
TEST_F(SameDrawing, ValidatesByTextsOfOtherPrompts) {
  write_file_atomically(path("valid.jsonl"),
                        "{\"prompt\":\"x\"}\n{\"prompt\":\"yz\"}\n{\"prompt\":\"e\"}\n", false);
  const auto run = [&](const std::string& name, const FinetuneLayout& layout, bool validates) {
    PolicyOptions o = exact(name);
    o.rewards = {"regex=2:[a-f]"};
    o.max_completion_length = 3;
    if (validates) o.valid_prompts = {path("valid.jsonl")};
    o.valid_generations = 4;
    o.pass_reward = 2;
    o.run.evaluation.eval_interval = 2;
    layout.divide(o.run);
    o.take_losses();
    train_with(o);
  };
  run("alone", {}, true);
  run("divided", {.tensor = 2}, true);
  run("without", {}, false);
  expect_same_run("alone", "without");
  const std::string lines = read_file(path("alone-rollouts/valid-0000002.jsonl"));
  EXPECT_EQ(lines, read_file(path("divided-rollouts/valid-0000002.jsonl")));
  std::vector<bool> right;
  for (std::size_t at = 0; (at = lines.find("\"reward\":", at)) != lines.npos; ++at)
    right.push_back(std::stod(lines.substr(at + 9)) == 2);
  ASSERT_EQ(right.size(), 12U);
  double one = 0, of_two = 0, of_four = 0;
  for (std::size_t i = 0; i < 12; i += 4) {
    bool any = false;
    for (std::size_t a = i; a < i + 4; ++a) {
      any |= right[a];
      one += right[a] / 12.0;
      for (std::size_t b = i; b < a; ++b) of_two += (right[a] || right[b]) / 18.0;
    }
    of_four += any / 3.0;
  }
  EXPECT_GT(of_four, one);
  const std::string log = read_file(path("alone/run.jsonl"));
  const std::string told = log.substr(log.find("\"event\":\"eval\""));
  const auto number = [&](const std::string& member) {
    return std::stod(told.substr(told.find("\"" + member + "\":") + member.size() + 3));
  };
  EXPECT_EQ(number("iteration"), 2);
  int told_times = 0;  // the last at the end, which is one of the intervals', too
  for (std::size_t at = 0; (at = log.find("\"event\":\"eval\"", at)) != log.npos; ++at)
    ++told_times;
  EXPECT_EQ(told_times, 2);
  EXPECT_NEAR(number("reward"), 2 * one, 1e-6);  // of six decimals
  EXPECT_NEAR(number("pass@1"), one, 1e-12);
  EXPECT_NEAR(number("pass@2"), of_two, 1e-12);
  EXPECT_NEAR(number("pass@4"), of_four, 1e-12);
  const std::string results = read_file(path("alone/results.json"));
  EXPECT_NE(results.find("\"val_pass@4\":"), results.npos) << results;
}

// Texts without a reward are neither right nor wrong, and what nothing is known of is not told.
TEST(Validation, CountsTextsThatAreJudged) {
  const auto told = [](const std::vector<double>& rewards, std::int64_t group) {
    std::vector<DrawnText> drawn(rewards.size());
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      drawn[i].rollout.text.ids = {1, 2};
      drawn[i].rollout.reward = rewards[i];
    }
    std::map<std::string, double> numbers;
    for (const auto& [name, number] : numbers_of(drawn, group, 1)) numbers[name] = number;
    numbers.erase("completion_tokens");
    numbers.erase("truncated");
    return numbers;
  };
  using Numbers = std::map<std::string, double>;
  EXPECT_EQ(told({1, 0, NAN, NAN, 0, NAN, 0, 0, NAN, NAN, NAN, NAN}, 4),
            (Numbers{{"reward", 0.2}, {"without_reward", 7}, {"pass@1", 0.25}, {"pass@2", 0.5}}));
  EXPECT_EQ(told({NAN, NAN}, 2), (Numbers{{"without_reward", 2}}));
}

}  // namespace
}  // namespace mt
