// CompletionFlags: the options of a command line that say how prompts are continued.
#pragma once

#include <string>
#include <vector>

#include "base/command.h"
#include "infer/completion.h"

namespace mt {

class GrammarCache;

struct CompletionFlags {
  CompletionOptions options = {};               // but for what the texts below say
  std::vector<std::string> logit_bias = {};     // ID=F
  std::optional<std::string> json_schema = {};  // or its file

  void add_to(CommandLine& cl);
  // The options for a model.  Exit::usage for texts that are not as they should be, bad_config for
  // what the model does not have, and bad_data for a schema that is not understood.
  CompletionOptions of_model(const CompletionModel& model, GrammarCache& grammars) const;
};

}  // namespace mt
