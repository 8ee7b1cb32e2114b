#include "train/options/mamba_options.h"

#include <algorithm>
#include <utility>

#include "base/command.h"
#include "model/config/model_config.h"
#include "model/pipeline_options.h"

namespace mt {

void MambaOptions::add_to(CommandLine& cl) {
  cl.section("Mamba and hybrids");
  cl.option("--hybrid-override-pattern", &hybrid_override_pattern, "LETTERS",
            "mamba: a letter for each layer: M is a Mamba-2's, * attention, + latent attention, - "
            "an MLP, "
            "E experts; default all M");
  cl.option(
      "--hybrid-layer-pattern", &hybrid_layer_pattern, "LETTERS",
      "the same, of whatever number of layers, which makes it a hybrid; a | begins a stage of "
      "the pipeline, and behind the layers each / and letters predict a further token: "
      "MM|*E/*E");
  cl.option("--hybrid-attention-ratio", &hybrid_attention_ratio, "F",
            "mamba: part of the layers that is attention, evenly spread, where no pattern says so",
            between(0, 1));
  cl.option("--hybrid-mlp-ratio", &hybrid_mlp_ratio, "F",
            "mamba: part of the layers that are MLPs, spread among the others", between(0, 1));
  cl.option("--mamba-state-dim", &mamba_state_dim, "N",
            "mamba: numbers that a head keeps for each of its channels", at_least(1));
  cl.option("--mamba-head-dim", &mamba_head_dim, "N", "mamba: channels of a head", at_least(1));
  cl.option("--mamba-num-groups", &mamba_num_groups, "N",
            "mamba: groups of heads that have what maps to states and back in common", at_least(1));
  cl.option("--mamba-num-heads", &mamba_num_heads, "N",
            "mamba: heads; default twice the hidden size over --mamba-head-dim", at_least(1));
  cl.flag("--is-hybrid-model", &is_hybrid_model, "mamba: accepted; it is one");
  cl.option("--spec", &spec, "MODULE NAME",
            "mamba: accepted where it is "
            "\"megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec\" or "
            "\"megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\"; bert: "
            "accepted where it is \"local\", which computes the same");
}

// Megatron's pattern must have as many of a letter as the ratios say.
static void check_ratio(const char* option, const std::string& pattern, char letter,
                        const std::string& automatic) {
  const auto has = std::ranges::count(pattern, letter),
             wanted = std::ranges::count(automatic, letter);
  if (has != wanted)
    fail(Exit::usage, "--hybrid-override-pattern ", pattern, ": has ", has, " layers ", letter,
         ", and ", option, " says ", wanted);
}

static void take_layer_pattern(const std::string& pattern, ModelConfig& model,
                               PipelineOptions& pipeline) {
  const HybridPattern all = parse_hybrid_pattern(pattern);
  model.hybrid_pattern = all.layers;
  model.num_layers = std::ssize(all.layers);
  model.mtp_hybrid_pattern = all.further;
  if (model.mtp_num_layers != 0 && model.mtp_num_layers != all.further_tokens)
    fail(Exit::bad_config, "--mtp-num-layers ", model.mtp_num_layers, ": --hybrid-layer-pattern ",
         pattern, " predicts ", all.further_tokens, " further tokens");
  model.mtp_num_layers = all.further_tokens;
  pipeline.segments = all.segments;
}

using Spec = std::vector<std::string>;

void MambaOptions::make_mamba(ModelConfig& model, PipelineOptions& pipeline) const {
  if (!spec.empty() &&
      spec != Spec{"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"} &&
      spec != Spec{"megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"})
    fail(Exit::usage,
         "--spec: not supported: a layer is described by options, not by other Python code than "
         "Megatron-LM's mamba_stack_spec and hybrid_stack_spec");
  model.family = ModelFamily::mamba;
  if (hybrid_attention_ratio + hybrid_mlp_ratio > 1)
    fail(Exit::usage, "--hybrid-attention-ratio, --hybrid-mlp-ratio: more than all layers");
  if (hybrid_override_pattern) {
    model.hybrid_pattern = *hybrid_override_pattern;
    if (model.num_layers == 0) model.num_layers = std::ssize(model.hybrid_pattern);
  }
  if (hybrid_layer_pattern) {
    if (hybrid_override_pattern)
      fail(Exit::usage, "--hybrid-layer-pattern: not with --hybrid-override-pattern");
    take_layer_pattern(*hybrid_layer_pattern, model, pipeline);
  }
  if (hybrid_attention_ratio + hybrid_mlp_ratio > 0) {
    const std::string automatic =
        hybrid_pattern_of(model.num_layers, hybrid_attention_ratio, hybrid_mlp_ratio);
    if (model.hybrid_pattern.empty()) model.hybrid_pattern = automatic;
    check_ratio("--hybrid-attention-ratio", model.hybrid_pattern, '*', automatic);
    check_ratio("--hybrid-mlp-ratio", model.hybrid_pattern, '-', automatic);
  }
  model.mamba_state_dim = mamba_state_dim;
  model.mamba_head_dim = mamba_head_dim;
  model.mamba_num_groups = mamba_num_groups;
  model.mamba_num_heads = mamba_num_heads.value_or(0);
}

void MambaOptions::check_unused(const std::string& type_option) const {
  const MambaOptions defaults;
  for (const auto& [says, name] :
       {std::pair{hybrid_override_pattern.has_value(), "--hybrid-override-pattern"},
        std::pair{hybrid_layer_pattern.has_value(), "--hybrid-layer-pattern"},
        std::pair{hybrid_attention_ratio != 0, "--hybrid-attention-ratio"},
        std::pair{hybrid_mlp_ratio != 0, "--hybrid-mlp-ratio"},
        std::pair{mamba_state_dim != defaults.mamba_state_dim, "--mamba-state-dim"},
        std::pair{mamba_head_dim != defaults.mamba_head_dim, "--mamba-head-dim"},
        std::pair{mamba_num_groups != defaults.mamba_num_groups, "--mamba-num-groups"},
        std::pair{mamba_num_heads.has_value(), "--mamba-num-heads"},
        std::pair{is_hybrid_model, "--is-hybrid-model"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", type_option);
  const bool is_local_bert = spec == Spec{"local"} && type_option == "--model-type bert";
  if (!spec.empty() && !is_local_bert)
    fail(Exit::usage, "--spec: not supported: a layer is described by options, not by Python code");
}

}  // namespace mt
