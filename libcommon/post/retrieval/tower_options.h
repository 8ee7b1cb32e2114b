// TowerOptions: what mt-finetune's verbs that train models of two towers can be told alike, in
// Megatron-LM's words.
#pragma once

#include <string>
#include <vector>

#include "post/finetune_options.h"
#include "post/retrieval/retrieval_objective.h"

namespace mt {

struct TowerOptions : FinetuneOptions {
  explicit TowerOptions(const char* verb);

  // Declares what is of towers.
  void add_towers_to(CommandLine& cl);
  // Takes what was not given from what is loaded, finds the ranks, and checks what such a run can
  // be told.
  void parse(CommandLine& cl);
  RetrievalObjective::Options objective(std::int64_t contexts) const;

  std::string bert_load, ict_load;
  std::int64_t ict_head_size = 0;
  bool score_scaling = false;
  std::vector<std::int64_t> tops;

 private:
  void check() const;
  std::string verb_;
};

}  // namespace mt
