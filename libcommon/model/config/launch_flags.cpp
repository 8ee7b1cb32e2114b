#include "model/config/launch_flags.h"

#include <variant>
#include <vector>

#include "base/flag_list.h"

namespace mt {
namespace {

// An implied option has a type and no variable.
OptionTarget type_of(const OptionTarget& target) {
  return std::visit([]<class T>(T*) { return OptionTarget(static_cast<T*>(nullptr)); }, target);
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

}  // namespace

void imply_numerics(CommandLine& cl) {
  imply(cl, "there is only one kind of model", {{"--use-mcore-models"}});
  imply(cl, "both name the one implementation that there is",
        {{"--transformer-impl", each({"local", "transformer_engine"})},
         {"--cross-entropy-fusion-impl", each({"native", "te"})}});
  imply(cl, "there is one attention kernel, which stores no scores",
        {{"--attention-backend", each({"flash", "fused", "unfused", "local", "auto"})},
         {"--no-masked-softmax-fusion"},
         {"--use-flash-attn"}});
  imply(cl, "softmax and loss are one kernel", {{"--cross-entropy-loss-fusion"}});
  imply(cl, "fused or not, the same numbers",
        {{"--no-bias-dropout-fusion"},
         {"--no-bias-swiglu-fusion"},
         {"--no-gradient-accumulation-fusion"},
         {"--no-persist-layer-norm"},
         {"--no-rope-fusion"}});
  imply(cl, "sums and softmax are at least fp32",
        {{"--apply-query-key-layer-scaling"},
         {"--attention-softmax-in-fp32"},
         {"--disable-bf16-reduced-precision-matmul"}});
  imply(cl, "two runs of one command give the same bits", {{"--deterministic-mode"}});
  imply(cl, "random numbers are functions of seed and place, with no state to keep",
        {{"--inference-rng-tracker"}, {"--no-load-rng"}, {"--no-save-rng"}, {"--te-rng-tracker"}});
  imply(cl, "initial weights are the same for any number of ranks", {{"--use-cpu-initialization"}});
}

void imply_checkpoint_checks(CommandLine& cl) {
  imply(cl, "what the model needs of a checkpoint is there, or its lack is an error that names it",
        {{"--dist-ckpt-strictness", each({"assume_ok_unexpected", "log_unexpected", "log_all",
                                          "raise_unexpected", "ignore_all"})}});
}

void LaunchFlags::add_to(CommandLine& cl) {
  cl_ = &cl;
  cl.flags_page("mt-flags(7)");
  cl.section("A launch script of Megatron-LM's");
  cl.flag("--use-checkpoint-args", &use_checkpoint_args_,
          "settings of the model that differ from the checkpoint's are no error");
  ModelConfig config;
  CommandLine settings("", {});
  config.add_to(settings);
  for (const Option& option : settings.table().options)
    if (std::ranges::none_of(option.names,
                             [&](const std::string& name) { return declares(cl, name); }))
      cl.implied(joined(option.names), "a checkpoint says what its model is",
                 type_of(option.target), option.check);
  imply_numerics(cl);
  imply_others(cl, "a model that is only read has no optimizer",
               {{"--finetune"}, {"--no-load-optim"}});
  imply_others(cl, "a checkpoint's format is seen from its content",
               {{"--auto-detect-ckpt-format"},
                {"--ckpt-format", each({"torch", "torch_dist", "zarr", "torch_dcp"})},
                {"--use-dist-ckpt"}});
  imply_checkpoint_checks(cl);
  imply_others(cl, "a path where no checkpoint is ends the program",
               {{"--exit-on-missing-checkpoint"}});
  imply_others(cl, "one process has all of the model",
               {{"--tensor-model-parallel-size", only(1)},
                {"--pipeline-model-parallel-size", only(1)},
                {"--context-parallel-size", only(1)},
                {"--expert-model-parallel-size", only(1)},
                {"--expert-tensor-parallel-size", only(1)},
                {"--sequence-parallel"},
                {"--distributed-backend", each({"nccl", "gloo"})},
                {"--distributed-timeout-minutes", any(kInteger)}});
}

void LaunchFlags::check(const ModelConfig& stored, const std::string& path) const {
  if (cl_ == nullptr || use_checkpoint_args_) return;
  ModelConfig said = stored;
  CommandLine settings("", {});
  said.add_to(settings);
  bool says = false;
  for (const Option& option : cl_->table().options) {
    if (option.kind != Option::Kind::implied || !option.given()) continue;
    if (option.source == Option::Source::environment) continue;  // which may be another program's
    if (!declares(settings, option.name())) continue;
    settings.fallback(option.name(), option.texts(), "command line");
    says = true;
  }
  if (!says) return;
  said.complete();
  check_same_model(said, stored, path);
}

}  // namespace mt
