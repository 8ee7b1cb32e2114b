#include "post/distillation/distill_options.h"

#include "base/command.h"
#include "formats/model_source.h"

namespace mt {

void DistillOptions::add_to(CommandLine& cl) {
  add_data_to(cl);
  cl.section("Objective");
  cl.option("--teacher", &teacher, "PATH",
            "the model that is learnt from, of the same vocabulary: what --load may be");
  cl.option("--loss", &loss, "KIND",
            "how far the model is from its teacher at each token: kl, of the teacher's "
            "probabilities; reverse_kl, of its own; or jsd, Jensen and Shannon's between the two",
            one_of({"kl", "reverse_kl", "jsd"}));
  cl.option("--jsd-beta", &jsd_beta, "F",
            "with --loss jsd, the teacher's share of what both are compared with; default 0.5",
            between(0.001, 0.999));
  cl.option("--kd-temperature", &temperature, "F", "what both models' logits are divided by",
            greater_than(0));
  cl.option("--lm-loss-weight", &lm_loss_weight, "F",
            "add so many times the cross-entropy of the tokens themselves", at_least(0.0));
  cl.option("--hidden-loss", &hidden_loss, "KIND",
            "add how far what the model's head reads is from what the teacher's does: none, "
            "cosine, or mse",
            one_of({"none", "cosine", "mse"}));
  cl.option("--hidden-loss-weight", &hidden_loss_weight, "F", "so many times; default 1",
            greater_than(0));
  offers_adapters = true;
  add_run_to(cl);
}

Distilled::Rules DistillOptions::rules() const {
  return {.distance = {.temperature = temperature,
                       .beta = loss == "kl"           ? 0.0
                               : loss == "reverse_kl" ? 1.0
                                                      : jsd_beta.value_or(0.5)},
          .of_hidden = hidden_loss == "none"     ? HiddenLoss::none
                       : hidden_loss == "cosine" ? HiddenLoss::cosine
                                                 : HiddenLoss::squared};
}

void DistillOptions::complete_teacher(int tensor_ranks) {
  try {
    complete_model(teacher_model, seq_length, tensor_ranks);
  } catch (const Error& error) {
    fail(error.code(), "--teacher ", teacher, ": ", error.what());
  }
  teacher_model.padded_vocab_size = model.padded_vocab_size;
}

void DistillOptions::take_teacher() {
  if (teacher.empty()) fail(Exit::usage, "--teacher: required");
  if (jsd_beta && loss != "jsd") fail(Exit::usage, "--jsd-beta: has no effect with --loss ", loss);
  if (hidden_loss_weight && hidden_loss == "none")
    fail(Exit::usage, "--hidden-loss-weight: has no effect without --hidden-loss");
  if (model_type != "gpt")
    fail(Exit::bad_config, "--model-type ", model_type, ": distill trains models of type gpt");
  if (model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing, ": not with distill");
  teacher_model = open_model(teacher)->config();
  const auto refuse = [&](const auto&... why) {
    fail(Exit::bad_config, "--teacher ", teacher, ": ", why...);
  };
  if (teacher_model.family != ModelFamily::gpt)
    refuse("is of another family than models of type gpt");
  if (teacher_model.has_task_head())
    refuse("has the head of a task, ", teacher_model.task_head, ", and says no words");
  if (teacher_model.vocab_size != model.vocab_size)
    refuse("has ", teacher_model.vocab_size, " words, and the model ", model.vocab_size);
  if (hidden_loss != "none" && teacher_model.hidden_size != model.hidden_size)
    refuse("has a hidden size of ", teacher_model.hidden_size, ", and the model ",
           model.hidden_size, ": --hidden-loss compares equal ones");
}

void DistillOptions::complete() {
  encoder.check_unused("--model-type gpt");
  take_teacher();
  FinetuneOptions::complete(true);
  if (const char* const flag = teacher_model.setting_of_cpus();
      flag != nullptr && run.device() == Device::cuda)
    fail(Exit::unavailable, "--teacher ", teacher, ": has ", flag,
         ", for which GPUs have no kernels; see --device cpu");
  complete_teacher(run.ranks.parallel.tensor_model_parallel_size);
}

}  // namespace mt
