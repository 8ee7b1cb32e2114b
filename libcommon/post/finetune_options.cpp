#include "post/finetune_options.h"

#include <algorithm>

#include "base/command.h"
#include "base/flag_list.h"
#include "formats/chat_files.h"
#include "formats/load_model.h"
#include "formats/model_source.h"
#include "train/options/megatron_flags.h"
#include "train/options/pretrain_options.h"
#include "train/run/training_command.h"

namespace mt {

void TaskData::add_to(CommandLine& cl) {
  cl.option(
      "--train-data", &train, "FILE",
      "what is learnt: files of a JSON object a line; plain, gzip, bzip2, zstd or Parquet; - is "
      "stdin; a LLaVA "
      "learns the train part of Energon folders, too");
  cl.option("--valid-data", &valid, "FILE",
            "what the model is evaluated on: files, likewise, and the val part of such folders");
  cl.option("--valid-split", &valid_split, "F",
            "without --valid-data: the share of the training lines that it is evaluated on instead "
            "of learning them, chosen by their hash",
            between(0, 0.99));
  cl.option("--epochs", &epochs, "N",
            "how often all is learnt, where neither --train-iters nor --train-samples is given",
            at_least(1));
  cl.off_switch("--no-shuffle", &shuffle, "samples in their order, in every epoch");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip it, or quarantine=FILE, which collects such");
}

void check_stdin(std::initializer_list<NamedInputs> inputs, bool processes) {
  std::int64_t named = 0;
  for (const auto& [option, files] : inputs) {
    const std::int64_t here = std::ranges::count(files, "-");
    if (processes && here > 0)
      fail(Exit::usage, option,
           " -: is of one process, and every rank reads all lines; give a file");
    if ((named += here) > 1)
      fail(Exit::usage, option, " -: named twice, but stdin can be read once");
  }
}

void TaskData::check(bool processes) const {
  if (train.empty()) fail(Exit::usage, "--train-data: required");
  check_stdin({{"--train-data", train}, {"--valid-data", valid}}, processes);
}

// What says nothing beside other options.
static void check_no_effect(const CommandLine& cl) {
  const auto refuse = [&](const char* name, std::initializer_list<const char*> beside) {
    for (const char* const other : beside)
      if (cl.given(name) && cl.given(other))
        fail(Exit::usage, name, ": has no effect with ", other);
  };
  refuse("--valid-split", {"--valid-data"});
  refuse("--epochs", {"--train-iters", "--train-samples"});
}

FinetuneOptions::FinetuneOptions() {
  takes_bert = takes_t5 = false;
  run.batch.micro_batch_size = 1;
  run.batch.calculate_per_token_loss = true;
  run.schedule.lr = 2e-5;
  run.schedule.decay_style = "cosine";
  run.schedule.weight_decay = 0.1;
  run.optimizer.adam.beta2 = 0.95;
  run.report.log_interval = 10;
}

void FinetuneOptions::add_to(CommandLine& cl) {
  data.add_to(cl);
  add_run_to(cl);
}

void FinetuneOptions::add_run_to(CommandLine& cl) {
  if (!declares(cl, "--seq-length"))
    cl.option("--seq-length", &seq_length, "N", "tokens of a sample; default: the checkpoint's",
              at_least(1));
  if (offers_adapters) lora.add_to(cl, model, run.checkpoint.adapter);
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  cl.section("Model");
  std::vector<std::string> types = {"gpt", "bert", "t5"};
  if (takes_mamba)
    for (const char* const type : {"mamba", "hybrid"}) types.emplace_back(type);
  if (takes_llava) types.emplace_back("multimodal");
  cl.option("--model-type", &model_type, "TYPE",
            concat("what is trained: gpt, bert",
                   takes_mamba ? ", t5 or mamba; hybrid is mamba" : " or t5",
                   takes_llava ? "; multimodal, a LLaVA that is loaded" : ""),
            one_of(types));
  add_padding_to(cl);
  model.add_to(cl);
  encoder.add_to(cl);
  if (takes_mamba) mamba.add_to(cl);
  add_yarn_to(cl);
  add_experts_to(cl);
  model.recompute.add_to(cl);
  run.add_to(cl);
  cl.flag("--check-layout", &check_layout,
          "run the first steps, two in fp64, in this layout and by one rank, compare losses and "
          "gradients, and stop");
  plan.add_to(cl);
  run.add_reports_to(cl);
  if (!takes_mamba)
    refuse(cl, "mt-pretrain and mt-finetune sft alone train models with Mamba layers",
           {{"--is-hybrid-model"},
            {"--hybrid-attention-ratio", only(0.)},
            {"--hybrid-mlp-ratio", only(0.)},
            {"--hybrid-override-pattern"},
            {"--hybrid-layer-pattern"},
            {"--mamba-state-dim", only(128)},
            {"--mamba-head-dim", only(64)},
            {"--mamba-num-groups", only(8)},
            {"--mamba-num-heads"},
            {"--spec"}});
  add_megatron_flags(cl);
}

void FinetuneOptions::parse(CommandLine& cl, bool trains) {
  cl.before_print([&] {
    take_stored(cl, run.checkpoint, plan);
    if (offers_adapters && stored)
      lora.take_stored(cl, stored->model, "adapter of " + stored->where);
    const auto by_default = [&](const char* name, const char* value) {
      if (!cl.given(name)) cl.fallback(name, {value}, "default of mt-finetune for adapters");
    };
    if (model.has_adapters()) {
      by_default("--lr", lr_of_adapters);
      by_default("--weight-decay", "0");
    }
    const auto any = [&](std::initializer_list<const char*> names) {
      return std::ranges::any_of(names, [&](const char* name) { return cl.given(name); });
    };
    if (!any({"--lr-warmup-iters", "--lr-warmup-samples", "--lr-warmup-fraction"}))
      cl.fallback("--lr-warmup-fraction", {"0.03"}, "default of mt-finetune");
    if (takes_pairs && model_type == "t5") cl.fallback("--packing", {"none"}, "default of a T5");
    if (learns_retro && stored && stored->model.family == ModelFamily::retro)
      cl.fallback("--packing", {"none"}, "default of a Retro");
    if (without_dropout)
      for (const char* const option : {"--attention-dropout", "--hidden-dropout"})
        cl.fallback(option, {"0"}, "default of this verb");
    if (!cl.given("--min-lr"))
      cl.fallback("--min-lr", {JsonWriter().value(run.schedule.lr / 10).text()}, "a tenth of --lr");
  });
  cl.parse();
  if (!data.train.empty()) check_no_effect(cl);
  take_yarn(cl, run.checkpoint.use_args);
  if (takes_mamba) take_pattern();
  make_experts();
  if (offers_adapters) lora.note(cl);
  has_full_validation = !cl.given("--eval-iters");
  find_ranks(cl, run, trains && !is_planned());
  tokenizer.vocab_size = model.vocab_size;
}

FinetuneOptions::Words FinetuneOptions::open_tokenizer() const {
  check_no_files_without_type(tokenizer);
  Words words{.options = tokenizer, .tokenizer = nullptr};
  if (!tokenizer.type.empty()) {
    words.place = tokenizer_folder(tokenizer);
    words.chat_files = chat_files_of({}, tokenizer);
    if (words.place.empty()) words.place = tokenizer.type;
  } else if (stored) {
    const auto source = open_model(stored->where, {.check_while_reading = true});
    words.options = source->tokenizer_options(tokenizer);
    words.place = stored->where;
    words.chat_files = chat_files_of(source->companions());
  } else if (!run.checkpoint.load.empty()) {
    fail_without_model(run.checkpoint.load);
  } else {
    fail(Exit::usage, "--tokenizer-type: required, because nothing is loaded that brings one");
  }
  words.tokenizer = make_tokenizer(words.options);
  if (stored && stored->model.family == ModelFamily::t5)
    words.start_token =
        start_token_of(*open_model(stored->where, {.check_while_reading = true}), *words.tokenizer);
  return words;
}

void FinetuneOptions::take_vocabulary_to_plan() {
  if (model.vocab_size == 0 && !stored && !tokenizer.type.empty())
    take_vocabulary(*make_tokenizer(tokenizer));
  else
    take_stored_vocabulary();
}

void FinetuneOptions::complete(bool documents) {
  if (seq_length == 0) fail(Exit::usage, "--seq-length: required");
  const RunOptions::Instead instead{plan, check_layout};
  run.complete(instead);
  complete_model(model, seq_length, run.ranks.parallel.tensor_model_parallel_size);
  if (model.mtp_num_layers > 0 && !takes_further)
    fail(
        Exit::bad_config,
        "--mtp-num-layers: mt-pretrain and mt-finetune sft alone train layers that predict further "
        "tokens; mt-convert --mtp-num-layers 0 leaves those of a checkpoint behind");
  complete_adapters();
  run.complete_for(model, seq_length, documents, instead);
  if (!run.checkpoint.save.empty()) run.report.results = run.checkpoint.save + "/results.json";
}

void change(ModelConfig& model, std::int64_t& seq_length, const Task::Change& change) {
  if (change.seq_length) seq_length = *change.seq_length;
  change.put_into(model, [&](int ranks) { complete_model(model, seq_length, ranks); });
}

void FinetuneOptions::complete_adapters() {
  ModelConfig whole = model;
  complete_model(whole, seq_length, 1);
  if (!run.checkpoint.adapter.empty() && !stored && !is_planned())
    fail(Exit::usage, "--adapter: --load names its model");
  std::string base = stored ? stored->where : model.lora_base;
  if (stored && stored->model.has_adapters()) {
    const CheckpointOptions& o = run.checkpoint;
    const bool goes_on =
        !o.load.empty() && (stored->where == o.load || stored->where.starts_with(o.load + "/"));
    base = goes_on && !o.pretrained_checkpoint.empty() ? o.pretrained_checkpoint
                                                       : stored->model.lora_base;
    whole.lora_base_hash = stored->model.lora_base_hash;
  }
  lora.complete(whole, is_planned() ? "" : base);
  if (whole.has_adapters() && base.empty() && !run.checkpoint.save.empty() && !is_planned())
    fail(Exit::usage, "--lora-rank: --load names the model whose adapters are saved");
  if (whole.has_adapters() && run.checkpoint.format == "torch")
    fail(Exit::usage, "--ckpt-format torch: adapters are saved as torch_dist and as PEFT's folder");
  if (whole.use_dora && base.empty() && !is_planned() && !check_layout)
    fail(Exit::usage, "--use-dora: --load names the model whose rows' lengths are learnt");
  if (!whole.quantize_base.empty() && run.report.log_params_norm)
    fail(Exit::usage, "--log-params-norm: not with --quantize-base");
  static_cast<AdapterConfig&>(model) = whole;
}

void complete_model(ModelConfig& model, std::int64_t seq_length, int tensor_ranks) {
  DataOptions data;
  data.seq_length = seq_length;
  complete_model(model, data, tensor_ranks);
}

}  // namespace mt
