#include "post/supervised/multimodal_pretraining.h"

#include "base/error.h"
#include "data/energon/metadataset.h"
#include "post/supervised/supervised_finetuning.h"
#include "train/options/pretrain_options.h"

namespace mt {
namespace {

// Where a run learns from and is validated: --train-data-path and --valid-data-path, or
// --data-path, of which folders and Metadatasets with a part for validation have it.
void take_sources(const DataSourceOptions& sources, TaskData& data) {
  const auto& [train, valid, test] = sources.split_paths;
  if (!sources.data_path.empty() && !train.empty())
    fail(Exit::usage, "--data-path, --train-data-path: expected a single source of data");
  data.train = sources.data_path.empty() ? train : sources.data_path;
  data.valid = valid;
  if (data.train.empty())
    fail(Exit::usage, "--data-path: required: Energon folders, or lines of JSON with images");
  if (!sources.data_path.empty() && valid.empty())
    for (const std::string& path : sources.data_path)
      if (names_energon(path) && has_energon_part(path, "val")) data.valid.push_back(path);
}

// The run as a finetune has it; `sft` stays where it is.
void take_run(const PretrainOptions& options, SftOptions& sft) {
  const MultimodalOptions& own = options.multimodal;
  static_cast<ModelOptions&>(sft) = options;
  sft.run = options.run;
  sft.plan = options.plan;
  sft.check_layout = options.check_layout;
  sft.seq_length = options.data.seq_length;
  sft.tokenizer = options.data.tokenizer;
  sft.has_full_validation = options.data.full_validation;
  sft.data.valid_split = 0;
  sft.data.shuffle = options.data.dataloader_type == "cyclic";
  sft.data.on_error = own.on_error;
  sft.freeze_lm = own.freeze_lm;
  sft.freeze_vit = own.freeze_vit;
  sft.tiles = own.tiles;
  sft.packing = own.packing;
  sft.examples.chat_template = own.chat_template;
  sft.examples.trains_after_image = own.train_after_image;
  sft.examples.lines.caption_prompts = own.caption_prompts();
  sft.choose_type();
  if (own.train_after_image && sft.model.image_tag_type != "none")
    fail(Exit::usage, "--train-after-image: has no effect with --image-tag-type ",
         sft.model.image_tag_type, ": what is behind an image is a tag");
}

}  // namespace

std::unique_ptr<Task> open_multimodal(PretrainOptions& options, const Log& log) {
  SftOptions sft;
  take_run(options, sft);
  take_sources(options.data.sources, sft.data);
  std::unique_ptr<Task> task = open_sft(sft, log);
  options.run = sft.run;
  return task;
}

std::unique_ptr<Task> plan_multimodal(PretrainOptions& options) {
  SftOptions sft;
  take_run(options, sft);
  options.plan.search ? sft.complete_adapters() : sft.complete();
  options.run = sft.run;
  return std::make_unique<SupervisedFinetuning>(sft);
}

}  // namespace mt
