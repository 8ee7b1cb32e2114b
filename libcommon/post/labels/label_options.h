// LabelOptions: what mt-finetune's race, mnli, qqp and classify can be told, and how they differ.
// All but classify have the options and defaults of Megatron-LM's tasks/main.py.
#pragma once

#include <memory>

#include "post/finetune_options.h"
#include "post/labels/label_task.h"

namespace mt {

class Log;

// LabelVerb: one of these tasks.
struct LabelVerb {
  const char* name;     // "race"
  const char* summary;  // for --help
  const char* files;    // what --train-data and --valid-data name
  bool is_classify = false;
};

struct LabelOptions : FinetuneOptions {
  explicit LabelOptions(const LabelVerb& verb);

  void add_to(CommandLine& cl);
  void parse(CommandLine& cl);
  // Reads all data, completes what depends on it, and makes the task.
  std::unique_ptr<LabelTask> open(const Log& log);
  // The same to be planned: reads data only where the labels are to be known by it.
  std::unique_ptr<LabelTask> planned();

  LabelVerb verb;
  std::vector<std::string> train_data, valid_data;
  std::string columns, predictions;
  std::optional<std::int64_t> epochs;
  bool keep_last = false;
  double valid_split = 0;  // of the training data, where there is no valid_data
  double head_lr_mult = 1;

 private:
  void check() const;
  void choose_predictions();
  void check_predictions() const;
  void choose_head(const std::vector<std::string>& names, LabelKind kind, std::int64_t numbers);
  void choose_head_of_files();
  void choose_head_of_verb();
  LabelledSet read(const std::string& path, const Log& log) const;
  std::string name_of(const std::string& path) const;
  LabelTask::Options task_options() const;
  void complete_for(std::int64_t samples);
  std::int64_t choices() const;

  LabelKind kind_ = LabelKind::one;
};

// Runs it, or what is asked for instead.
void finetune_labels(CommandLine& cl, const LabelVerb& verb);

}  // namespace mt
