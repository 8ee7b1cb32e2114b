// VisionOptions: what a Vision Transformer learns from images, in the words of
// pretrain_vision_classify.py, pretrain_vision_inpaint.py and pretrain_vision_dino.py.
#pragma once

#include <string>

#include "data/images/image_samples.h"
#include "model/config/vision_config.h"

namespace mt {

class CommandLine;
struct DataOptions;
struct ModelConfig;

// What changes as a run with --vision-pretraining-type dino goes on.
struct DinoOptions {
  std::int64_t steps_of_epoch = 1250, warmup_teacher_temp_epochs = 30;
  double freeze_last_layer = 1;  // epochs
  double warmup_teacher_temp = 0.04, teacher_temp = 0.07;

  double teacher_temperature(std::int64_t epoch) const;  // rises linearly, and stays
};

struct VisionOptions : VisionConfig {
  bool pretraining = true;
  std::string backbone_type = "vit", mask_type = "random";
  double mask_factor = 1;
  ImageTree::Shares shares;
  DinoOptions dino;

  void add_to(CommandLine& cl);
  // What a run has where the command line leaves it out: images come in epochs.
  void add_fallbacks(CommandLine& cl) const;
  // Exit::usage for options of text, which such a run has no use for; Exit::bad_config for lengths
  // that are others than that of an image.
  void check_given(const CommandLine& cl, const DataOptions& data, const ModelConfig& model) const;
  // What is to be painted; nothing where classes are told.
  std::optional<PatchMask> mask() const;
  // Makes the model one of images, and its samples as long as one.
  void make_vit(ModelConfig& model, DataOptions& data) const;
  // Exit::usage where one says something that a model of text has no use for.
  void check_unused(const std::string& run) const;
};

}  // namespace mt
