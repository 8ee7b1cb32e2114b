#include "train/options/qk_clip_options.h"

#include "base/command.h"
#include "model/config/model_config.h"

namespace mt {

void QkClipOptions::add_to(CommandLine& cl) {
  cl.section("Scores of attention");
  cl.flag("--qk-clip", &clips,
          "after a step, the projections to queries and keys of heads that had a score "
          "above --qk-clip-threshold become as much smaller as it was too large");
  cl.option("--qk-clip-alpha", &alpha, "F",
            "the part of it that queries take, in the exponent; keys take the rest", between(0, 1));
  cl.option("--qk-clip-threshold", &threshold, "F", "the largest score, once it is scaled",
            greater_than(0));
  cl.flag("--log-max-attention-logit", &logs, "log the largest score of a step, as --qk-clip does");
}

void QkClipOptions::check(const ModelConfig& model, int context_ranks, bool shards_values) const {
  const QkClipOptions usual;
  if (!clips && (alpha != usual.alpha || threshold != usual.threshold))
    fail(Exit::usage, "--qk-clip-alpha, --qk-clip-threshold: need --qk-clip");
  if (!is_on()) return;
  const char* const flag = clips ? "--qk-clip" : "--log-max-attention-logit";
  if (alpha <= 0 || alpha >= 1)
    fail(Exit::bad_config, "--qk-clip-alpha ", alpha, ": expected between 0 and 1");
  const bool attends =
      model.family == ModelFamily::gpt || model.family == ModelFamily::mixtral ||
      (model.family == ModelFamily::mamba && (model.has_layer('*') || model.has_layer('+')));
  if (!attends)
    fail(Exit::bad_config, flag,
         ": of a GPT, with or without experts, or of a hybrid with attention");
  if (model.has_adapters())
    fail(Exit::bad_config, flag, ": not with adapters, which leave weights as they are");
  if (const char* const other = model.delta_setting())
    fail(Exit::bad_config, flag, ": not with ", other);
  if (context_ranks > 1) fail(Exit::bad_config, flag, ": not with --context-parallel-size");
  if (!clips) return;
  if (model.clip_qkv != 0)
    fail(Exit::bad_config, flag, ": not with --clip-qkv, behind which weights are not scores'");
  if (model.qk_layernorm && !model.multi_latent_attention)
    fail(Exit::bad_config, flag, ": not with --qk-layernorm, whose norms undo it");
  if (shards_values)
    fail(Exit::bad_config, flag, ": not with --data-parallel-sharding-strategy optim_grads_params");
}

}  // namespace mt
