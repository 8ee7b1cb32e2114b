#include <algorithm>
#include <filesystem>

#include "base/folder.h"
#include "ckpt/megatron_checkpoint.h"
#include "formats/model_source.h"
#include "model/config/model_config.h"
#include "post/check_before_data.h"
#include "post/policy/drawing_task.h"
#include "post/preferences/reference.h"

namespace mt {

// Whether the run goes on from one of its own checkpoints.
static bool goes_on(const PolicyOptions& options) {
  const CheckpointOptions& o = options.run.checkpoint;
  const auto place = o.load.empty() || o.finetune ? std::nullopt : find_checkpoint(o.load);
  return place && !place->release;
}

// The model that the policy stays near, where none is given: the one whose adapters it trains, or
// that it began with, which the run's folder names once it goes on.
static std::string reference_of(const PolicyOptions& options) {
  if (!options.has_reference() || !options.reference.empty()) return options.reference;
  if (options.model.has_adapters()) return options.model.lora_base;
  return goes_on(options) ? read_reference_model(options.run.checkpoint.load)
                          : options.stored->where;
}

// A model that reads the policy's texts as they are; `option` says which it is.
static std::unique_ptr<LoadedModel> load_reader(const std::string& option, const std::string& path,
                                                const PolicyOptions& options,
                                                const Tokenizer& tokenizer, const ModelUse& use) {
  auto loaded = std::make_unique<LoadedModel>(load_model(path, {}, options.run.compute, use));
  if (loaded->tokenizer->identity() != tokenizer.identity())
    fail(Exit::bad_config, option, path, ": has another tokenizer than the model");
  if (loaded->model->config().max_position_embeddings < options.seq_length)
    fail(Exit::bad_config, option, path, ": has ", loaded->model->config().max_position_embeddings,
         " positions, less than --seq-length ", options.seq_length);
  return loaded;
}

static std::unique_ptr<LoadedModel> load_reference(const PolicyOptions& options,
                                                   const Tokenizer& tokenizer) {
  const std::string path = reference_of(options);
  if (path.empty()) return nullptr;
  return load_reader("--reference ", path, options, tokenizer,
                     {.families = {ModelFamily::gpt, ModelFamily::mixtral},
                      .others = "to which nothing that grpo trains can stay near"});
}

static std::vector<std::unique_ptr<LoadedModel>> load_reward_models(const PolicyOptions& options,
                                                                    const Tokenizer& tokenizer) {
  std::vector<std::unique_ptr<LoadedModel>> models;
  for (const RewardRule& rule : reward_rules(options.rewards)) {
    if (!rule.is_model()) continue;
    models.push_back(load_reader("--reward rm:", rule.argument, options, tokenizer,
                                 {.families = {ModelFamily::gpt},
                                  .others = "with which no text is rewarded",
                                  .task_head = kScoreHead}));
    if (const std::int64_t labels = models.back()->model->config().num_labels; labels != 1)
      fail(Exit::bad_config, "--reward rm:", rule.argument, ": says ", labels,
           " numbers of a text, expected 1");
  }
  return models;
}

// What another run has kept is replaced only by who was told to.  But what lies in SAVE/rollouts
// where SAVE has no checkpoint is of a run that ended before its first, which the same command
// begins again.
static void prepare_kept(const PolicyOptions& options, const Log& log) {
  namespace fs = std::filesystem;
  const std::string& folder = options.save_rollouts;
  const RankOptions& ranks = options.run.ranks;
  if (folder.empty() || ranks.process.rank > 0) return;
  make_folder(folder);
  const CheckpointOptions& o = options.run.checkpoint;
  if (goes_on(options) || ranks.process.attempt > 0) return;
  const bool begins_again =
      folder == kept_beside(o.save) && !o.save.empty() && !find_checkpoint(o.save);
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!(name.starts_with("step-") || name.starts_with("ahead-") || name.starts_with("valid-")) ||
        !name.ends_with(".jsonl"))
      continue;
    const std::string holds =
        concat(folder, ": holds rollouts of ",
               begins_again ? "a run that left no checkpoint" : "another run", ", ", name);
    if (!o.force && !begins_again)
      fail(Exit::cannot_create, holds,
           o.save.empty() ? "; give another folder" : "; --force replaces those of equal steps");
    return log.warn(concat(holds, "; those of equal steps will be replaced"));
  }
}

std::unique_ptr<Task> open_drawing(PolicyOptions& options, const Log& log) {
  check_stdin({{"--prompts", options.prompts}, {"--valid-prompts", options.valid_prompts}},
              options.run.ranks.has_processes());
  FinetuneOptions::Words words = options.open_tokenizer();
  options.take_vocabulary(*words.tokenizer);
  check_before_data(options);
  const auto chat = std::make_shared<const ChatPrompts>(
      *words.tokenizer, std::move(words.chat_files), words.place, options.chat);
  const auto read_split = [&](const char* split, const std::vector<std::string>& files) {
    PolicyPrompts read =
        read_prompts(files, *words.tokenizer, *chat,
                     {.longest = options.seq_length - 1,
                      .need_answers = needs_answer(reward_rules(options.rewards))});
    log.event(
        "data",
        {{"split", split}, {"prompts", std::ssize(read.prompts)}, {"too_long", read.dropped}});
    return std::move(read.prompts);
  };
  std::vector<PolicyPrompt> prompts = read_split("train", options.prompts), valid;
  if (!options.valid_prompts.empty()) valid = read_split("valid", options.valid_prompts);
  LengthOptions& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0)
    length.data_samples = std::ssize(prompts) * options.num_generations * options.num_iterations;
  options.complete();
  if (const std::int64_t known = words.tokenizer->vocab_size();
      options.model.batch_invariant && known < options.model.vocab_size)
    fail(Exit::bad_config, "--batch-invariant: not with a tokenizer of ", known, " of the model's ",
         options.model.vocab_size, " tokens, of which alone texts are drawn");
  DrawingTask::Parts parts{.words = {},
                           .end_tokens = {},
                           .prompts = std::move(prompts),
                           .valid_prompts = std::move(valid),
                           .reference = nullptr,
                           .reward_models = {},
                           .chat = chat};
  if (options.run.ranks.learns()) {
    parts.reference = load_reference(options, *words.tokenizer);
    parts.reward_models = load_reward_models(options, *words.tokenizer);
  }
  if (options.stored)
    parts.end_tokens =
        end_tokens_of(*open_model(options.stored->where, {.check_while_reading = true}));
  prepare_kept(options, log);
  parts.words.words = std::move(words);
  return std::make_unique<DrawingTask>(options, std::move(parts));
}

}  // namespace mt
