// ModelOptions: which model a run trains, as options say and as what is loaded does.
#pragma once

#include <optional>
#include <string>

#include "model/config/model_config.h"
#include "model/config/yarn.h"
#include "train/options/encoder_options.h"
#include "train/options/mamba_options.h"
#include "train/options/retro_options.h"
#include "train/run/to_load.h"

namespace mt {

class CommandLine;
class Tokenizer;
struct CheckpointOptions;
struct PlanOptions;

struct ModelOptions {
  std::string model_type = "gpt";  // or bert, t5, mamba, vit; until take_pattern() hybrid
  ModelConfig model;
  EncoderOptions encoder;
  MambaOptions mamba;
  RetroOptions retro;
  bool takes_mamba = false, takes_retro = false;  // whether the program has their options
  bool takes_towers = false;                      // likewise: it trains two BERTs as one model
  bool takes_llava = false;                       // likewise: it trains LLaVAs
  bool learns_retro = false;                      // likewise: Retros that are loaded
  bool takes_bert = true, takes_t5 = true;        // likewise
  std::optional<std::int64_t> num_experts;        // of a layer, in the place of its MLP
  bool pads_to_capacity = false;                  // it changes no number here
  bool use_legacy_models = false;
  PlainYarn yarn;
  std::string rope_type;                 // of latent attention; "": as --rotary-scaling-factor says
  std::optional<StoredSettings> stored;  // of what is to be loaded; set by take_stored()

  // Declares how many rows the vocabulary has, which else follows from other settings.
  void add_padding_to(CommandLine& cl);
  // Declares the options of experts.
  void add_experts_to(CommandLine& cl);
  // Declares those of YaRN that no setting of the model is for.
  void add_yarn_to(CommandLine& cl);
  // Declares --use-legacy-models, of programs that have no other word for it.
  void add_legacy_to(CommandLine& cl);
  // Exit::usage where Megatron-LM's legacy models have not what the model has, or compute it
  // otherwise than its others do.  Once the model is known.
  void check_legacy() const;
  // Makes YaRN's positions rotary ones, which its options stretch.  stored_first: what `stored` has
  // is above flags.
  void take_yarn(const CommandLine& cl, bool stored_first);
  // Takes another word for a Mamba, and the pattern that makes a GPT one.
  void take_pattern();
  // Makes a GPT one of experts, if there are to be any, or says how many a hybrid has.
  void make_experts();
  // Takes the settings that the command line left out from what is to be loaded, or, with
  // --use-checkpoint-args, all that it has.  Before the command line is printed or used.
  void take_stored(CommandLine& cl, const CheckpointOptions& checkpoint, const PlanOptions& plan);
  // The model's vocabulary is the tokenizer's unless --vocab-size says otherwise, which must not be
  // less.  What is to be loaded keeps the number of its rows where that is larger; and where it is
  // smaller with its own tokenizer, of whose further words samples then may have none.
  void take_vocabulary(const Tokenizer& tokenizer);
  // Takes the vocabulary of the checkpoint that is loaded, where there is no tokenizer.
  void take_stored_vocabulary();
};

}  // namespace mt
