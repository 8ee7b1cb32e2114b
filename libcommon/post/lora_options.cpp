#include "post/lora_options.h"

#include <filesystem>

#include "base/command.h"
#include "base/json.h"
#include "formats/peft/adapted_source.h"
#include "formats/peft/linear_modules.h"
#include "model/config/model_config.h"

namespace mt {

void LoraOptions::add_to(CommandLine& cl, AdapterConfig& adapters, std::string& adapter) {
  cl.section("Adapters");
  cl.option("--lora-rank", &adapters.lora_rank, "N",
            "low-rank adapters of so many rows are learnt, and the model's own weights are frozen; "
            "0: there are none",
            between(0, 1 << 16));
  cl.option("--lora-alpha", &adapters.lora_alpha, "F",
            "what an adapter makes is multiplied by this over its rank", greater_than(0));
  cl.option("--lora-dropout", &adapters.lora_dropout, "P", "dropout of what an adapter reads",
            between(0, 0.99));
  cl.option("--lora-targets", &targets, "NAME",
            "the linear layers that have one: all-linear, but for the output layer; names of "
            "transformers, q_proj say, or of Megatron, linear_qkv");
  cl.flag("--use-rslora", &adapters.use_rslora,
          "multiply by --lora-alpha over the square root of the rank");
  cl.flag("--use-dora", &adapters.use_dora,
          "the length of each row of an adapted weight is learnt apart from its direction");
  cl.option("--quantize-base", &adapters.quantize_base, "TYPE",
            "what the frozen weights of linear layers are held in: nf4, four bits a number, as "
            "bitsandbytes has them (QLoRA); default as others",
            one_of({"nf4"}));
  cl.option("--adapter", &adapter, "DIR",
            "begin with this adapter of the model of --load: a folder of PEFT's, or a run's");
}

void LoraOptions::note(const CommandLine& cl) {
  for (const char* const name : {"--lora-alpha", "--lora-targets", "--lora-dropout", "--use-rslora",
                                 "--use-dora", "--quantize-base"})
    if (cl.given(name)) given.emplace_back(name);
}

void LoraOptions::take_stored(CommandLine& cl, const AdapterConfig& stored,
                              const std::string& from) const {
  if (!stored.has_adapters()) return;
  const auto number = [](double value) { return JsonWriter().value(value).text(); };
  cl.fallback("--lora-rank", {std::to_string(stored.lora_rank)}, from);
  cl.fallback("--lora-alpha", {number(stored.lora_alpha)}, from);
  cl.fallback("--lora-dropout", {number(stored.lora_dropout)}, from);
  if (stored.use_rslora) cl.fallback("--use-rslora", {"true"}, from);
  if (stored.use_dora) cl.fallback("--use-dora", {"true"}, from);
  if (!stored.quantize_base.empty()) cl.fallback("--quantize-base", {stored.quantize_base}, from);
  cl.fallback("--lora-targets", stored.targets(), from);
}

void LoraOptions::complete(ModelConfig& model, const std::string& base) const {
  if (!model.has_adapters()) {
    if (!given.empty())
      fail(Exit::usage, given.front(), ": of adapters, which --lora-rank asks for");
    return;
  }
  if (model.has_task_head() && model.task_head != kScoreHead)
    fail(Exit::bad_config, "--lora-rank: of a model with the head of a task, ", model.task_head,
         ", which a folder of adapters has not");
  if (model.use_dora && model.lora_dropout > 0)
    fail(Exit::bad_config, "--lora-dropout: not with --use-dora");
  if (!model.quantize_base.empty() && model.num_experts > 0)
    fail(Exit::bad_config, "--quantize-base ", model.quantize_base,
         ": not of a model with experts");
  model.lora_targets = lora_targets(model, targets, "--lora-targets");
  if (base.empty()) return;
  model.lora_base = std::filesystem::absolute(base).lexically_normal().string();
  const std::string hash = base_hash(*open_model(base));
  if (!model.lora_base_hash.empty() && model.lora_base_hash != hash)
    fail(Exit::bad_config, base, ": is another model than the one whose adapters go on");
  model.lora_base_hash = hash;
}

}  // namespace mt
