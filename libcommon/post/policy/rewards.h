// Rewards: what a text is worth, by rules, next to the answer that was wanted:
//   exact   1 where the text is the answer, but for white space around them
//   number  1 where the last number of the text is the answer's last, both rounded to six decimals;
//           1,234.5 and 3/4 are numbers, a full stop behind one is not of it
//   math    1 where the text's answer is the same as mathematics (post/policy/math_answer.h), NaN
//           where what was wanted is none: there is no reward
//   dapo-math  1 where what the text states behind its last "Answer:" is the answer, both
//           normalized (post/policy/stated_answer.h)
//   mc      1 where the letter that it states behind its first "Answer:" is the answer
//   format  1 where the text is <think>…</think>, a line's end, and <answer>…</answer>, each once
//   length  by how many characters it is longer or shorter than the rule says, below 0
//   regex   1 where its expression, one of Python's, matches somewhere in the text; NaN where that
//           takes more steps than PythonRegex has
//   cmd     what its program says of the text (post/policy/reward_program.h)
//   judge   what its server says of it (post/policy/judging_server.h)
//   rm      what its reward model says of the prompt and the text (infer/reward_pass.h)
// A reward is a weighted sum of these; each is 0 otherwise.  A sum that is infinite is none.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

class PythonRegex;

// What several say of a text, by their names; NaN: nothing.
using NamedRewards = std::vector<std::pair<std::string, double>>;

struct RewardRule {
  std::string name;
  double weight = 1;
  // The expression, the program, the URL, where the model is, or the length.
  std::string argument = {};
  std::shared_ptr<const PythonRegex> regex = nullptr;  // that expression
  double length = 0;                                   // in characters
  std::string label = {};  // its name, with a number behind that of one that others have, too

  bool is_program() const { return name == "cmd"; }
  bool is_server() const { return name == "judge"; }
  bool is_model() const { return name == "rm"; }
  // Whether others than this program say it, of texts that are drawn.
  bool asks() const { return is_program() || is_server() || is_model(); }
};

// The rules that words say, each NAME[=WEIGHT] or NAME[=WEIGHT]:ARGUMENT.  Exit::usage, beginning
// with --reward, for a word that is neither, or whose expression or URL is none.
std::vector<RewardRule> reward_rules(const std::vector<std::string>& words);
// Whether some rule looks at the answer.
bool needs_answer(const std::vector<RewardRule>& rules);
// What one says that looks at text and answer alone.  NaN: nothing.
double said_by(const RewardRule& rule, std::string_view text, std::string_view answer);
// By all such.  NaN: there is none.
double reward_of(const std::vector<RewardRule>& rules, std::string_view text,
                 std::string_view answer);

}  // namespace mt
