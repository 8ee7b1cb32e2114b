#include "train/options/fp8_options.h"

#include <map>

#include "base/command.h"
#include "model/config/model_config.h"
#include "model/layers.h"
#include "tensor/device.h"

namespace mt {

void Fp8Options::add_to(CommandLine& cl) {
  cl.section("Products of eight bits");
  cl.option("--fp8-format", &format, "FORMAT",
            "linear layers multiply codes of eight bits, with sums in fp32: e4m3, or hybrid, whose "
            "gradients are e5m2",
            one_of({"e4m3", "hybrid"}));
  cl.option("--fp8-recipe", &recipe, "RECIPE",
            "where scales come from: tensorwise, each tensor's own largest number; delayed, the "
            "largest that it had in steps before; blockwise, that of 128 numbers, or of squares of "
            "weights, in e4m3, which GPUs other than Hopper multiply in 16 bits; mxfp8 is for "
            "Blackwell",
            one_of({"delayed", "tensorwise", "blockwise", "mxfp8"}));
  cl.option("--fp8-margin", &margin, "N", "delayed: scales are smaller by 2^N", between(-64, 64));
  cl.option("--fp8-amax-history-len", &history, "N", "delayed: how many steps are remembered",
            between(1, 65536));
  cl.option("--fp8-amax-compute-algo", &algorithm, "WHICH",
            "delayed: which of them counts, most_recent, or max, the one with the largest number",
            one_of({"most_recent", "max"}));
  cl.off_switch("--no-fp8-wgrad,--disable-fp8-wgrad", &weight_gradients,
                "weights' gradients are products of numbers as they are");
  cl.flag("--fp8-param-gather", &param_gather,
          "with --use-distributed-optimizer, ranks gather weights' codes, half the bytes, where "
          "layers multiply these; all results are the same");
  cl.flag("--first-last-layers-bf16", &first_last_bf16,
          "the first and the last layers of a stack multiply numbers as they are");
  cl.option("--num-layers-at-start-in-bf16", &layers_at_start, "N",
            "how many are the first with --first-last-layers-bf16", at_least(0));
  cl.option("--num-layers-at-end-in-bf16", &layers_at_end, "N",
            "how many are the last with --first-last-layers-bf16", at_least(0));
}

void Fp8Options::complete(Device device, DType dtype, bool supposed) const {
  const Fp8Options defaults;
  if (!first_last_bf16)
    for (const auto& [given, name] :
         {std::pair{layers_at_start != defaults.layers_at_start, "--num-layers-at-start-in-bf16"},
          std::pair{layers_at_end != defaults.layers_at_end, "--num-layers-at-end-in-bf16"}})
      if (given) fail(Exit::usage, name, ": needs --first-last-layers-bf16");
  if (recipe != "delayed" || format.empty())
    for (const auto& [given, name] :
         {std::pair{margin != defaults.margin, "--fp8-margin"},
          std::pair{history != defaults.history, "--fp8-amax-history-len"},
          std::pair{algorithm != defaults.algorithm, "--fp8-amax-compute-algo"}})
      if (given)
        fail(Exit::usage, name, ": needs ",
             format.empty() ? "--fp8-format" : "--fp8-recipe delayed");
  if (format.empty()) {
    for (const auto& [given, name] : {std::pair{recipe != defaults.recipe, "--fp8-recipe"},
                                      std::pair{!weight_gradients, "--no-fp8-wgrad"},
                                      std::pair{param_gather, "--fp8-param-gather"},
                                      std::pair{first_last_bf16, "--first-last-layers-bf16"}})
      if (given) fail(Exit::usage, name, ": needs --fp8-format");
    return;
  }
  if (recipe == "mxfp8")
    fail(Exit::bad_config, "--fp8-recipe mxfp8: needs compute capability 10.0");
  if (recipe == "delayed" && first_last_bf16)
    fail(Exit::usage,
         "--first-last-layers-bf16: Delayed scaling does not support first / last layer in BF16.");
  if (recipe == "blockwise" && format != "e4m3")
    fail(Exit::bad_config, "--fp8-recipe blockwise: is of --fp8-format e4m3, not ", format);
  if (device != Device::cuda) return;
  if (recipe == "blockwise") {
    if (dtype != DType::bf16)
      fail(Exit::bad_config, "--fp8-recipe blockwise: on a GPU needs --bf16");
    return;
  }
  if (size_of(dtype) != 2)
    fail(Exit::bad_config, "--fp8-format ", format, ": on a GPU needs --bf16 or --fp16");
  if (supposed) return;
  if (const std::string why = device::without_fp8(); !why.empty())
    fail(Exit::bad_config, "--fp8-format ", format, ": ", why);
}

void Fp8Options::check(const ModelConfig& model, int stages) const {
  if (format.empty()) return;
  if (model.num_experts > 0)
    fail(Exit::bad_config, "--fp8-format ", format, ": not of a model of experts");
  if (model.has_adapters())
    fail(Exit::bad_config, "--fp8-format ", format,
         ": not with adapters, whose weights are frozen");
  if (!first_last_bf16) return;
  for (const auto& [layers, name] : {std::pair{layers_at_start, "--num-layers-at-start-in-bf16"},
                                     std::pair{layers_at_end, "--num-layers-at-end-in-bf16"}})
    if (layers > model.num_layers / stages)
      fail(Exit::bad_config, name, ' ', layers, ": a stage has ", model.num_layers / stages,
           " layers");
}

// Megatron-Core's names of the modules that Transformer Engine makes for it.
static bool is_linear(std::string_view module) {
  const std::string_view name = module.substr(module.rfind('.') + 1);
  return name.starts_with("linear_") || name == "in_proj" || name == "out_proj" ||
         name == "eh_proj";
}

std::optional<Fp8Rules> Fp8Options::rules(const ModelConfig& model, bool keeps_weights) const {
  if (format.empty()) return std::nullopt;
  std::map<std::string, std::int64_t, std::less<>> layers;  // of each stack
  for (const LayerPlan& layer : layers_of(model)) ++layers[std::string(layer.stack)];
  const std::int64_t first = first_last_bf16 ? layers_at_start : 0,
                     last = first_last_bf16 ? layers_at_end : 0;
  const auto multiplies = [layers, first, last](const RowPlace& place) {
    if (!place.layer || place.expert || !is_linear(place.module)) return false;
    const auto stack = layers.find(place.stack);
    if (stack == layers.end()) return place.stack == kFurtherStack;  // else it is a teacher's
    return *place.layer >= first && *place.layer < stack->second - last;
  };
  std::optional<Fp8Rules::Delayed> delayed;
  if (is_delayed())
    delayed = {.length = history,
               .most_recent = algorithm == "most_recent",
               .margin = static_cast<int>(margin)};
  return Fp8Rules{.multiplies = multiplies,
                  .hybrid = format == "hybrid",
                  .weight_gradients = weight_gradients,
                  .keeps_weights = keeps_weights,
                  .gathers_codes = param_gather,
                  .delayed = delayed,
                  .blockwise = recipe == "blockwise"};
}

}  // namespace mt
