// FinetuneOptions: what every verb of mt-finetune that trains can be told, beside what is its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "post/lora_options.h"
#include "text/chat/chat_sources.h"
#include "text/tokenizer.h"
#include "train/options/model_options.h"
#include "train/options/plan_options.h"
#include "train/options/run_options.h"
#include "train/run/task.h"

namespace mt {

class CommandLine;

// An option and the files that it was given.
struct NamedInputs {
  const char* option;
  const std::vector<std::string>& files;
};
// Exit::usage where what options name is stdin twice, or where ranks that are processes would share
// it.
void check_stdin(std::initializer_list<NamedInputs> inputs, bool processes);

// Which files a task learns from, and how often.
struct TaskData {
  std::vector<std::string> train, valid;
  double valid_split = 0.02;  // of the training lines, where no `valid` is given
  std::int64_t epochs = 1;
  bool shuffle = true;
  std::string on_error = "stop";

  void add_to(CommandLine& cl);
  // Exit::usage where there is nothing to train on, and as check_stdin().
  void check(bool processes) const;
};

struct FinetuneOptions : ModelOptions {
  TaskData data;
  std::int64_t seq_length = 0;
  TokenizerOptions tokenizer;
  LoraOptions lora;
  bool offers_adapters = false;         // set before the options are declared
  bool takes_pairs = false;             // likewise: a T5 learns pairs, one a sample
  bool takes_further = false;           // whether layers that predict further tokens are trained
  const char* lr_of_adapters = "2e-4";  // by default
  RunOptions run;
  PlanOptions plan;
  bool check_layout = false;        // with two steps, instead of the run
  bool without_dropout = false;     // unless asked for, whatever is loaded was trained with
  bool has_full_validation = true;  // each evaluation takes all there is; not with --eval-iters

  FinetuneOptions();  // with the defaults of a finetune
  // Declares all of it; a verb's own data options come first, in a section of its own.
  void add_to(CommandLine& cl);
  // The same without the data's, for a task that has others.
  void add_run_to(CommandLine& cl);
  // Takes what was not given from what is loaded, and finds the ranks, which are to train or only
  // to be looked at.  After add_to().
  void parse(CommandLine& cl, bool trains = true);

  bool is_planned() const { return plan.wanted || plan.search.has_value(); }
  // The tokenizer of the options, else the one that travels with what is loaded.
  struct Words {
    TokenizerOptions options;
    std::unique_ptr<Tokenizer> tokenizer;
    std::vector<ChatFile> chat_files = {};         // beside it, or of the model
    std::string place = {};                        // of these, for errors
    std::optional<std::int32_t> start_token = {};  // behind which a T5's decoder begins
  };
  Words open_tokenizer() const;
  // Takes the vocabulary of the tokenizer, or, where nothing is read, the stored one.
  void take_vocabulary_to_plan();
  // Checks what must fit together and derives what was not given.  `documents`: whether attention
  // stays within parts of a sample.
  void complete(bool documents);
  // The adapters' part of that, for a plan that completes the model in several ways.
  void complete_adapters();
};

// Makes the model of a task, and the length of its samples, what they are to be planned with.
void change(ModelConfig& model, std::int64_t& seq_length, const Task::Change& change);

// Completes a model of which so many ranks share every matrix, for samples of so many tokens.
void complete_model(ModelConfig& model, std::int64_t seq_length, int tensor_ranks);

}  // namespace mt
