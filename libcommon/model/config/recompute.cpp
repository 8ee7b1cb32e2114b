#include "model/config/recompute.h"

#include <algorithm>

#include "base/command.h"
#include "nn/layer_run.h"

namespace mt {

void RecomputeOptions::add_to(CommandLine& cl) {
  cl.section("Recomputation");
  cl.option("--recompute-granularity", &granularity, "WHAT",
            "what is made again in the backward instead of kept: selective (the parts of a block "
            "in --recompute-modules) or full (blocks); default nothing",
            one_of({"selective", "full"}));
  cl.flag("--recompute-activations", &activations, "the same as --recompute-granularity selective");
  cl.option("--recompute-method", &method, "METHOD",
            "of full: uniform (runs of --recompute-num-layers blocks) or block (the first of them)",
            one_of({"uniform", "block"}));
  cl.option("--recompute-num-layers", &num_layers, "N", "see --recompute-method", at_least(1));
  cl.option(
      "--recompute-modules", &modules, "PART",
      "of selective: core_attn, mlp, layernorm, mla_up_proj, moe_act (what experts' activations "
      "make); default core_attn",
      one_of({"core_attn", "mlp", "layernorm", "mla_up_proj", "moe_act"}));
}

void RecomputeOptions::complete(std::int64_t layers) {
  const bool full = granularity == "full";
  if (activations && full)
    fail(Exit::usage,
         "--recompute-activations and --recompute-granularity full exclude each other");
  if (activations) granularity = "selective";
  const bool selective = granularity == "selective";
  if (!full && !method.empty())
    fail(Exit::usage, "--recompute-method: needs --recompute-granularity full");
  if (!full && num_layers)
    fail(Exit::usage, "--recompute-num-layers: needs --recompute-granularity full");
  if (!selective && !modules.empty())
    fail(Exit::usage, "--recompute-modules: needs --recompute-granularity selective");
  if (full && method.empty())
    fail(Exit::usage, "--recompute-granularity full: needs --recompute-method");
  if (full && !num_layers)
    fail(Exit::usage, "--recompute-granularity full: needs --recompute-num-layers");
  if (selective && modules.empty()) modules = {"core_attn"};
  runs(layers);
}

bool RecomputeOptions::part(std::string_view module) const {
  return std::ranges::find(modules, module) != modules.end();
}

std::vector<LayerRun> RecomputeOptions::runs(std::int64_t layers) const {
  const bool uniform = method == "uniform";
  const std::int64_t n = num_layers.value_or(0);
  if (uniform && layers % n != 0)
    fail(Exit::bad_config, "--recompute-num-layers ", n, ": does not divide the ", layers,
         " layers of a stage");
  const std::int64_t length = uniform ? n : 1;
  std::vector<LayerRun> runs;
  for (std::int64_t begin = 0; begin < layers; begin += length)
    runs.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(begin + length),
                    uniform || begin < n});
  return runs;
}

}  // namespace mt
