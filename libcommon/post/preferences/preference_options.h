// PreferenceOptions: what `mt-finetune dpo` and `mt-finetune reward` can be told.
#pragma once

#include <optional>
#include <string>

#include "kernels/preference_loss.h"
#include "post/data/example_maker.h"
#include "post/finetune_options.h"

namespace mt {

struct PreferenceOptions : FinetuneOptions {
  bool rewards;  // the verb is reward
  ExampleOptions examples;
  std::string packing = "none", overlong = "drop";
  std::string loss = "dpo", divergence = "reverse_kl";
  std::optional<double> beta;
  PreferenceRules rules;

  explicit PreferenceOptions(bool of_rewards);
  void add_to(CommandLine& cl);
  // Completes the rules, and what the data is to be.  After parse().
  void take_losses();
  // Exit::usage where an option was given that no loss goes by.  After take_losses().
  void check_unused(const CommandLine& cl) const;
  void complete();
  // Whether a loss goes by what the model said that the run began with.
  bool needs_reference() const;

 private:
  void add_losses_to(CommandLine& cl);
};

}  // namespace mt
