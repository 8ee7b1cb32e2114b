#include "post/supervised/sft_options.h"

#include "base/command.h"
#include "train/options/pretrain_options.h"

namespace mt {

void SftOptions::add_data_to(CommandLine& cl) {
  cl.section("Data");
  examples.add_to(cl);
  cl.option(
      "--packing", &packing, "HOW",
      "which texts share a sample; none: each has one of its own; line: the conversations of a "
      "line, as Megatron-LM's --sft has it, each of which a system's turn begins, and what is "
      "too much is cut; no text sees another, but of wrapped, which cuts one text of all; a T5 "
      "has none",
      one_of(packing_names()));
  cl.option("--overlong", &overlong, "WHAT",
            "a text of more tokens than a sample has: drop it, cut it, or split it",
            one_of({"drop", "cut", "split"}));
  data.add_to(cl);
}

void SftOptions::add_to(CommandLine& cl) {
  add_data_to(cl);
  cl.option("--decoder-seq-length", &decoder_seq_length, "N",
            "t5: tokens of a target; default --seq-length, which is the source's", at_least(1));
  examples.add_pairs_to(cl);
  cl.option("--retro-attention-gate", &retro_attention_gate, "0|1",
            "a Retro: 1: each line brings the \"neighbors\" of its text; 0: it learns without, as "
            "Megatron-LM's tools/retro/sft, and keeps what attends to them as it is; default: 1",
            between(0, 1));
  cl.section("Images and text (LLaVA)");
  cl.flag("--freeze-LM", &freeze_lm, "multimodal: the language model stays as it is");
  cl.flag("--freeze-ViT", &freeze_vit,
          "multimodal: the tower of images stays as it is; the projector learns in any case");
  tiles.add_to(cl);
  cl.section("Objective");
  cl.option("--loss", &loss, "KIND",
            "what becomes less: nll, or dft, in which what the model holds for unlikely counts for "
            "less",
            one_of({"nll", "dft"}));
  cl.option(
      "--neftune", &model.neftune_alpha, "F",
      "training adds noise to the embeddings of each text, of a T5 of source and target, uniform "
      "up to this over the square root of its tokens times --hidden-size (arXiv:2310.05914); 0: "
      "none",
      at_least(0.0));
  offers_adapters = takes_pairs = takes_mamba = takes_llava = learns_retro = true;
  add_run_to(cl);
}

// A T5 takes one pair a sample: nothing parts several for its encoder.
static void check_pairs(const SftOptions& o) {
  const auto refuse = [](const auto&... parts) {
    fail(Exit::bad_config, parts..., " with --model-type t5");
  };
  if (o.packing != "none") refuse("--packing ", o.packing, ": not");
  if (o.overlong == "split") refuse("--overlong split: not");
}

// Images stand in whole texts.
static void check_images(const SftOptions& o) {
  const auto refuse = [](const auto&... parts) {
    fail(Exit::bad_config, parts..., " with --model-type multimodal");
  };
  if (!o.stored || o.stored->model.family != ModelFamily::llava)
    fail(Exit::bad_config, "--model-type multimodal: --load names a LLaVA");
  if (o.cuts_texts()) refuse("--packing ", o.packing, ": not");
  if (o.overlong != "drop") refuse("--overlong ", o.overlong, ": not");
  if (o.model.has_adapters()) refuse("--lora-rank: not");
  if (o.run.checkpoint.format == "torch") refuse("--ckpt-format torch: not");
}

// A Retro takes one text a sample, whose chunks have its neighbours.
static void check_retro(const SftOptions& o) {
  const auto refuse = [](const auto&... parts) {
    fail(Exit::bad_config, parts..., " with a Retro");
  };
  if (o.packing != "none") refuse("--packing ", o.packing, ": not");
  if (o.model.has_adapters()) refuse("--lora-rank: not");
  if (o.run.ranks.parallel.context_parallel_size > 1) refuse("--context-parallel-size: not");
}

void SftOptions::choose_packing() {
  if (cuts_texts() && overlong != "drop")
    fail(Exit::usage, "--overlong ", overlong, ": has no effect with --packing ", packing);
  examples.splits_at_system = packing == "line";
}

void SftOptions::choose_type() {
  choose_packing();
  examples.paired = is_paired();
  if (model_type == "t5") {
    check_pairs(*this);
    if (!decoder_seq_length) decoder_seq_length = seq_length;
    mamba.check_unused("--model-type t5");
    return encoder.make_t5(model);
  }
  const std::string type = "--model-type " + model_type;
  if (model_type == "bert")
    fail(Exit::bad_config, type, ": sft trains models of type gpt, t5, mamba or multimodal");
  if (reads_images()) {
    check_images(*this);
    model.family = ModelFamily::llava;
    tiles.apply(model);
    examples.llava = &model;
    examples.longest_with_images = longest_text();
  } else {
    if (freeze_lm || freeze_vit)
      fail(Exit::usage, freeze_lm ? "--freeze-LM" : "--freeze-ViT", ": has no effect with ", type);
    tiles.check_unused(type);
  }
  if (model_type == "mamba")
    mamba.make_mamba(model, run.ranks.pipeline);
  else
    mamba.check_unused(type);
  if (is_retro()) {
    check_retro(*this);
    model.family = ModelFamily::retro;
    if (retrieves()) examples.retro = &model;
  } else if (retro_attention_gate) {
    fail(Exit::usage, "--retro-attention-gate: has no effect but with a Retro that is loaded");
  }
  encoder.check_unused(type);
  examples.check_unpaired(type);
  if (decoder_seq_length) fail(Exit::usage, "--decoder-seq-length: has no effect with ", type);
}

void SftOptions::complete() {
  if (loss == "dft" && model.label_smoothing > 0)
    fail(Exit::bad_config, "--label-smoothing ", model.label_smoothing, ": not with --loss dft");
  if (model.mtp_num_layers + 2 > kMostLosses)
    fail(Exit::bad_config, "--mtp-num-layers ", model.mtp_num_layers, ": sft takes at most ",
         kMostLosses - 2);
  check_whole_sequences(run, model);
  if (is_paired()) check_t5(run, *decoder_seq_length);
  FinetuneOptions::complete(!is_paired() && !is_retro());
  if (decoder_seq_length.value_or(0) > model.max_position_embeddings)
    fail(Exit::bad_config, "--decoder-seq-length ", *decoder_seq_length,
         ": larger than --max-position-embeddings ", model.max_position_embeddings);
}

}  // namespace mt
