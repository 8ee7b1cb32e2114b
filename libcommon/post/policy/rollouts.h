// Rollouts: texts that a policy wrote for prompts, as a run stores them and as others may, one JSON
// object a line:
//   {"prompt_ids":[…],"completion_ids":[…],"reward":number or null,
//    "rewards"?:{name:number or null,…}  what the reward was made of, where that is several
//    "answer"?:text              that rules compare with what the policy wrote last, instead of a
//                                reward
//    "completion_mask"?:[…]      1 of its tokens that the policy wrote, 0 of an answer's in
//                                between; default: it wrote all
//    "truncated"?:bool           whether it was cut by its length; else its last token ends it.
//                                Default: that token does, where it is one that ends texts
//    "stopped"?:bool             whether it ended behind a text that was to end it; "text" is all
//                                before that
//    "log_probs"?:[…]            of the tokens that it wrote, by who generated them; default:
//                                old_log_probs
//    "old_log_probs"?:[…]        by the policy as it was then; default: log_probs
//    "version"?:number           how many steps the weights had learnt that wrote it
//    "versions"?:[…]             of each of these tokens, where they were not the same
//    "experts"?:[…]              of each token, from the first on, in each layer of the model that
//                                wrote it, the experts that it went to, ascending, or as many -1
//    "values"?:[…]               what a value head said of these tokens then
//    "reference_log_probs"?:[…]} by the model that the policy is to stay near
// Log-probabilities are natural logarithms, none above 0.  Lines of one prompt, which is their
// group, stand one behind the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "post/data/example.h"
#include "post/policy/advantages.h"
#include "post/policy/rewards.h"

namespace mt {

class Tokenizer;

struct Rollout {
  Example text;               // of its completion what the policy wrote is learnt
  double reward = 0;          // NaN: there is none
  NamedRewards rewards = {};  // what it is made of, unweighed, where that is several
  bool truncated = false;     // it was cut by its length
  bool stopped = false;  // it ends with what is to end it, and not with a token that ends texts
  std::optional<std::int64_t> version = {};  // steps that the weights had learnt that wrote it
  std::vector<std::int64_t> versions = {};   // of each token that is learnt; empty: of all that
  std::string said = {};                     // what a line says that it says
  // These have a number for each token that is learnt; empty: they are not known.
  std::vector<float> old, reference, generated, values = {};
  std::vector<float> advantages = {}, returns = {};  // likewise: take_advantages()
  std::vector<std::int32_t> experts = {};            // CachedPass::choices()

  std::int64_t prompt_tokens() const {
    return std::find(text.learnt.begin(), text.learnt.end(), true) - text.learnt.begin();
  }
  // Calls body(n, t) for the n-th token that is learnt, which is token t of the text: the label of
  // that before.
  template <class Body>
  void for_each_learnt(const Body& body) const {
    std::size_t n = 0;
    for (std::size_t t = 0; t < text.learnt.size(); ++t)
      if (text.learnt[t]) body(n++, t);
  }
};

struct RolloutOptions {
  std::int64_t group = 0;                // lines of one prompt
  std::int64_t seq_length = 0;           // tokens of a text, at most
  std::vector<RewardRule> rewards = {};  // by these; empty: each line has its reward
  // Each line has the experts of its tokens, so many of each, in each layer so many of as many; 0:
  // not asked.
  std::int64_t choices = 0, of_layer = 0, experts = 0;
};

// RolloutPasses: how the texts of a run become its samples: so many of them, which were drawn at
// once, are learnt so often before the next; 0 texts: all there are.
struct RolloutPasses {
  std::int64_t texts = 0, times = 1;

  // Which text sample k of the run is.
  std::int64_t text(std::int64_t k) const {
    return times == 1 ? k : k / (texts * times) * texts + k % texts;
  }
};

// Gives the tokens of a step's texts, group by group, their advantages.  Where the divergence is a
// part of these, `old` and `reference` are known, and where they are of values, these, of which
// returns are made, too; those of a text without a reward are its values.
void take_advantages(std::span<Rollout> step, std::int64_t group, const AdvantageRules& rules);

// A line of a file, with the text that its completion is.
std::string line_of(const Rollout& rollout, const std::string& text);

struct RewardCount {
  double mean = 0;  // of the rewards that there are; NaN: there is none
  std::int64_t without = 0;
};
RewardCount count_rewards(std::span<const double> rewards);
// The means of those of one name, which count where they are numbers; NaN: none is.
class NamedMeans {
 public:
  void add(const NamedRewards& rewards);
  NamedRewards means() const;  // by names, in the order in which they came first

 private:
  struct Sum {
    std::string name;
    double sum = 0;
    std::int64_t count = 0;
  };
  std::vector<Sum> sums_;
};

// Exit::bad_data names the line that cannot be used, or whose prompt is not its group's.
std::vector<Rollout> read_rollouts(const std::vector<std::string>& files,
                                   const RolloutOptions& options, const Tokenizer& tokenizer);

}  // namespace mt
