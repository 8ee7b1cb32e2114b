// PretrainOptions: everything that mt-pretrain can be told.
#pragma once

#include <optional>

#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "train/options/encoder_options.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/run/to_load.h"

namespace mt {

struct PretrainOptions {
  std::string model_type = "gpt";  // or bert, t5
  ModelConfig model;
  EncoderOptions encoder;
  DataOptions data;
  RunOptions run;
  PlanOptions plan;
  bool check_layout = false;  // with two steps, instead of the run
  bool selftest = false;
  std::optional<StoredSettings> stored;  // of what is to be loaded; set by take_stored()

  void add_to(CommandLine& cl);
  // Makes model and data those of the model type.  After parsing.
  void choose_type();
  // Takes the settings that the command line left out from what is to be loaded, or, with
  // --use-checkpoint-args, all that it has.  Before the command line is printed or used.
  void take_stored(CommandLine& cl);
  // Whether the vocabulary comes from the data or the tokenizer, and not from --vocab-size alone.
  bool names_a_vocabulary() const;
  // The model's vocabulary is the tokenizer's unless --vocab-size says otherwise, which must not be
  // less.  Rows that what is to be loaded has beside those keep their number.
  void take_vocabulary(const Tokenizer& tokenizer);
  // Takes the vocabulary of the checkpoint that is loaded, where there is no tokenizer.
  void take_stored_vocabulary();
  // Refuses what models of this type have no use for, or cannot do; complete() does so first.
  void check_type() const;
  // Checks what must fit together and derives what was not given.
  void complete();
};

// Completes a model of which so many ranks share every matrix, and which reads this data.
void complete_model(ModelConfig& model, const DataOptions& data, int tensor_ranks);

}  // namespace mt
