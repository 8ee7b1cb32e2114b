// draw_texts: texts that a model writes for prompts, several for each, as a policy learns from
// them.  Text m of prompt n of a run is a function of the weights, the prompt, the seed, n and m
// alone (kernels/sample.h), whatever is drawn beside it.  Where a prompt is asked more often than
// once in a step, m goes on.  A text may have several turns, between which an environment answers
// (post/policy/environment.h): what it says follows the token that ended the turn, by the model's
// chat template where the prompt is one of messages, and is not learnt; tokens that were drawn stay
// as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/completion.h"
#include "model/model.h"
#include "model/pass_ranks.h"
#include "post/policy/policy_prompts.h"
#include "post/policy/rollouts.h"

namespace mt {

class ChatPrompts;
class EnvironmentProgram;
class Group;

// A text has its own random numbers by its place in its group and by its turn, of which there are
// no more.
inline constexpr std::int64_t kMostTexts = 1 << 20, kMostTurns = (1 << 12) - 1;

// A text that is to be drawn: the member of a group, by its number in the run.
struct AskedText {
  const PolicyPrompt* prompt = nullptr;
  std::int64_t group = 0, member = 0;
};

struct DrawOptions {
  std::int64_t seq_length = 0;   // tokens of a prompt and what follows, at most
  std::int64_t most_tokens = 0;  // of what follows, at most; 0: as many as there is room for
  Sampling sampling = {};
  std::vector<std::string> stop = {};  // texts behind which one ends
  // Whether the rollouts say how likely their tokens were, as training finds it in numbers of this
  // type (CompletionOptions::scored).
  std::optional<DType> scored = {};
  const EnvironmentProgram* environment = nullptr;  // null: a text is one turn
  const ChatPrompts* chat = nullptr;                // with it
  std::int64_t turns = 1;                           // at most
  int threads = 0;                                  // of the CPU; 0: one a core
  // Asked now and then, at least before each turn: whether it is to end with nothing, which it
  // does where some of the ranks that draw together are told so.
  std::function<bool()> ends = {};
  PassRanks ranks = {};  // which are asked for the same texts, and each get all of them
};

struct DrawnText {
  Rollout rollout = {};   // without reward and file; the token that ends the text is of it
  std::string text = {};  // what was written, in the last turn, without that
  std::vector<double> judged = {};  // by each reward model
  std::int64_t turns = 1;
  double environment = 0;   // what the environment says that it is worth; NaN: nothing
  NamedRewards named = {};  // what that is the sum of, where it is said
  std::string wrong = {};   // with the environment, when it was asked of this text and others
};

// AgreedEnd: whether all ranks that draw together are to end: they ask one another now and then, at
// the same steps.
class AgreedEnd {
 public:
  // The options must outlive this.
  explicit AgreedEnd(const DrawOptions& options) : options_(options) {}

  bool behind_step();
  bool now() const;

 private:
  const DrawOptions& options_;
  int steps_ = 0;
};

// What is asked for what follows a text, and what is made of that.
CompletionOptions completion_of(const Example& text, const DrawOptions& options);
void take_completion(DrawnText& drawn, const Completion& completion);

// In their order.  The model's values must not change meanwhile.
std::optional<std::vector<DrawnText>> draw_texts(const Model& model, const CompletionModel& about,
                                                 std::span<const AskedText> asked,
                                                 const DrawOptions& options);

// The texts of all ranks, one rank's behind the other's; nothing where some rank has ended with
// nothing.  Called by each.
std::optional<std::vector<DrawnText>> all_texts(Group& ranks,
                                                std::optional<std::vector<DrawnText>> own);
// Gives all ranks the texts that one of them has.  Called by each.
std::vector<DrawnText> texts_of(Group& ranks, int root, const std::vector<DrawnText>& own);

}  // namespace mt
