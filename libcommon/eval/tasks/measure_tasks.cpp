#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/print.h"
#include "base/progress.h"
#include "eval/measures.h"
#include "eval/tasks/megatron_tasks.h"
#include "image/orientation.h"
#include "infer/continue_texts.h"
#include "infer/image_pass.h"
#include "infer/score_pass.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"

namespace mt {
namespace {

// What a run that goes on must have in common with the one before.
std::string run_settings(const EvalOptions& o, const LoadedModel& loaded) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-eval/1")
      .member("task", o.task)
      .member("model", loaded.path)
      .member("adapter", o.adapter)
      .member("device", o.compute.device_name)
      .member("dtype", name_of(loaded.model->table().dtype()));
  if (o.kept.asked()) json.member("kv_cache_dtype", "fp8");
  json.end_object();
  return json.text();
}

std::int64_t length_of(const EvalOptions& o, const LoadedModel& loaded) {
  const std::int64_t most = loaded.model->config().max_position_embeddings,
                     length = o.seq_length.value_or(std::min<std::int64_t>(most, 1 << 20));
  if (length > most)
    fail(Exit::bad_config, "--seq-length ", length, ": the model takes at most ", most);
  return length;
}

bool reads_images(const LoadedModel& loaded) {
  return loaded.model->config().family == ModelFamily::llava;
}

// TaskModel: what tasks need of a model, made when it is asked for.  Stays in its place.
class TaskModel {
 public:
  TaskModel(const EvalOptions& options, const LoadedModel& loaded)
      : options_(options),
        loaded_(loaded),
        about_{.tokenizer = *loaded.tokenizer,
               .vocab_size = loaded.vocab_size(),
               .end_tokens = loaded.end_tokens,
               .llava = reads_images(loaded) ? &loaded.model->config() : nullptr} {}
  TaskModel(const TaskModel&) = delete;

  EvalModel functions() {
    return {
        .tokenizer = *loaded_.tokenizer,
        .vocab_size = loaded_.vocab_size(),
        .max_length = length_of(options_, loaded_),
        .image_token = about_.llava == nullptr ? -1 : about_.llava->image_token_index,
        .score = [this](auto ids, auto nll, auto likeliest) { score(ids, nll, likeliest); },
        .generate =
            [this](auto prompts, auto images, const EvalGeneration& generation,
                   std::int64_t repeats) { return generate(prompts, images, generation, repeats); },
        .tokens_of_image = [this](const std::string& file) { return tokens_of_image(file); }};
  }

  // What continues texts; Exit::bad_config where it keeps nothing in the form that is asked for.
  void open_engine() {
    if (!engine_)
      engine_.emplace(*loaded_.model,
                      EngineOptions{.vocab_size = loaded_.vocab_size(),
                                    .limits = {.threads = options_.threads,
                                               .cache = options_.kept.form(loaded_)}});
  }

 private:
  void score(std::span<const std::span<const std::int32_t>> ids,
             std::span<const std::span<double>> nll,
             std::span<const std::span<std::uint8_t>> likeliest) {
    if (!scorer_)
      scorer_.emplace(*loaded_.model, ScorePass::Options{.vocab_size = loaded_.vocab_size(),
                                                         .window = length_of(options_, loaded_),
                                                         .batch = options_.micro_batch_size,
                                                         .threads = options_.threads});
    if (likeliest.empty())
      scorer_->score(ids, nll);
    else
      scorer_->score(ids, nll, likeliest);
  }

  std::vector<std::vector<std::string>> generate(std::span<const std::vector<std::int32_t>> prompts,
                                                 std::span<const EvalImages> images,
                                                 const EvalGeneration& generation,
                                                 std::int64_t repeats) {
    open_engine();
    CompletionOptions asked{.num_tokens = generation.max_gen_toks, .stop = generation.until};
    asked.sampling.temperature = generation.temperature;
    asked.sampling.top_k = generation.top_k;
    asked.sampling.top_p = generation.top_p;
    asked.sampling.seed = static_cast<std::uint64_t>(options_.seed.value_or(1234));
    const std::uint32_t first =
        std::exchange(prompts_, prompts_ + static_cast<std::uint32_t>(std::ssize(prompts)));
    std::vector<std::shared_ptr<const ImageStates>> made;
    if (about_.llava != nullptr)
      for (const EvalImages& of_document : images) made.push_back(states_of(of_document));
    return continue_texts(*engine_, about_, prompts, asked, repeats, first, made);
  }

  std::int64_t tokens_of_image(const std::string& file) const {
    const ModelConfig& c = *about_.llava;
    return ImageWords(c, about_.tokenizer).count(tiles_in(c, {.path = file}));
  }

  // What the tower makes of images; null of none.
  std::shared_ptr<const ImageStates> states_of(const EvalImages& of_document) {
    if (of_document.files.empty()) return nullptr;
    if (!tower_) tower_.emplace(*loaded_.model, options_.threads);
    std::vector<Image> images;
    for (const std::string& file : of_document.files) try {
        images.push_back(read_upright({.path = file}));
      } catch (const Error& error) {
        fail(error.code(), of_document.place, ": ", error.what());
      }
    return tower_->run(images);
  }

  const EvalOptions& options_;
  const LoadedModel& loaded_;
  CompletionModel about_;
  std::optional<ScorePass> scorer_;
  std::optional<Engine> engine_;
  std::optional<ImagePass> tower_;
  std::uint32_t prompts_ = 0;
};

}  // namespace

void measure_tasks(const EvalOptions& o, const LoadedModel& loaded, Progress& progress) {
  const ChatPrompts chat(*loaded.tokenizer, loaded.chat_files, loaded.path, o.chat,
                         reads_images(loaded));
  const TaskSettings settings{
      .asked = o.task,
      .inputs = o.inputs,
      .options = o.tasks,
      .seed = static_cast<std::uint64_t>(o.seed.value_or(1234)),
      .json = o.json,
      .model = loaded.path,
      .run = run_settings(o, loaded),
      .chat = [&](const ChatValue& messages, bool goes_on) {
        return chat.text(
            ChatValue::dict({{"messages", messages}, {"continue_final_message", goes_on}}),
            "--apply-chat-template");
      }};
  TaskModel model(o, loaded);
  const TaskPlan plan(settings);
  for (const TaskPlan::Planned& planned : plan.tasks())
    if (reads_images(loaded) && !planned.task.is_about_texts())
      fail(Exit::bad_config, "--task ", planned.task.name, ": asks how likely texts are, and ",
           loaded.path, " is a LLaVA, which is asked for texts (generate_until) alone");
  if (o.kept.asked()) model.open_engine();  // which refuses before what other tasks take
  run_tasks(plan, settings, model.functions(), print_now, [&] { progress.add(1); });
  progress.finish();
}

void measure_wikitext103(const EvalOptions& o, const LoadedModel& loaded, Progress& progress) {
  const std::int64_t length = length_of(o, loaded),
                     stride = std::min(o.overlapping_eval.value_or(32), length);
  TaskModel model(o, loaded);
  run_wikitext103(o.inputs.front(), model.functions(), {length, stride}, o.json, print_now);
  progress.finish();
}

void measure_lambada(const EvalOptions& o, const LoadedModel& loaded, Progress& progress) {
  TaskModel model(o, loaded);
  run_lambada(o.inputs, model.functions(), o.strict_lambada, o.json, print_now);
  progress.finish();
}

}  // namespace mt
