// DistillOptions: what `mt-finetune distill` can be told.
#pragma once

#include <optional>
#include <string>

#include "kernels/hidden_loss.h"
#include "model/config/model_config.h"
#include "model/families/distilled.h"
#include "post/supervised/sft_options.h"

namespace mt {

struct DistillOptions : SftOptions {
  std::string teacher;  // a path
  double temperature = 1, lm_loss_weight = 0;
  std::optional<double> jsd_beta, hidden_loss_weight;
  std::string hidden_loss = "none";

  ModelConfig teacher_model;  // once complete

  DistillOptions() {
    loss = "kl";
    takes_t5 = false;
  }
  void add_to(CommandLine& cl);
  // Takes the settings of the teacher, which are checked beside the model's.
  void take_teacher();
  // Completes the options, and the teacher's settings, as ranks share it beside the model.
  void complete();
  // Those for so many ranks that share every matrix, of a model that is complete for them.
  void complete_teacher(int tensor_ranks);
  Distilled::Rules rules() const;
};

}  // namespace mt
