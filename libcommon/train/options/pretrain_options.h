// PretrainOptions: everything that mt-pretrain can be told.
#pragma once

#include "data/samples/train_data.h"
#include "train/options/model_options.h"
#include "train/options/multimodal_options.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/options/vision_options.h"

namespace mt {

struct PretrainOptions : ModelOptions {
  DataOptions data;
  VisionOptions vision;
  MultimodalOptions multimodal;
  RunOptions run;
  PlanOptions plan;
  bool check_layout = false;  // with two steps, instead of the run
  bool selftest = false;

  // `packings`: ways in which texts with images may share samples.
  void add_to(CommandLine& cl, std::vector<std::string> packings);
  // Makes model and data those of the model type.  After parsing.
  void choose_type();
  // Whether the vocabulary comes from the data or the tokenizer, and not from --vocab-size alone.
  bool names_a_vocabulary() const;
  // Refuses what models of this type have no use for, or cannot do; complete() does so first.
  void check_type() const;
  // Checks what must fit together and derives what was not given.
  void complete();
  bool is_vit() const { return model_type == "vit"; }
  bool is_multimodal() const { return model_type == "multimodal"; }
};

// Refuses ranks that share sequences of a model that has them whole.
void check_whole_sequences(const RunOptions& run, const ModelConfig& model);
// A T5's decoder has a length of its own.
void check_t5(const RunOptions& run, std::int64_t decoder_seq_length);

// Completes a model of which so many ranks share every matrix, and which reads this data.
void complete_model(ModelConfig& model, const DataOptions& data, int tensor_ranks);

}  // namespace mt
