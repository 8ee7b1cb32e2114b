#include "retro/project_samples.h"

#include <cassert>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "data/files/indexed_dataset.h"
#include "data/files/manifest.h"
#include "data/samples/blended.h"
#include "data/samples/gpt_dataset.h"

namespace mt {
namespace {

DataOptions data_of(const RetroProject& project, int threads) {
  DataOptions data;
  data.sources.data_path = project.data_paths();
  if (data.sources.data_path.empty())
    fail(Exit::no_input, project.path("config.json"),
         ": names no token files; see mt-retro-index build-db");
  data.sources.split = project.setting("retro_gpt_split");
  data.sources.split_option = concat(project.path("config.json"), ": retro_gpt_split");
  data.seq_length = project.number("retro_gpt_seq_length", "--retro-gpt-seq-length");
  data.tokenizer = project.gpt_tokenizer();
  const std::string cache = project.setting("retro_gpt_data_cache_path");
  data.cache_path = cache;
  data.threads = threads;
  return data;
}

TrainingLength length_of(const RetroProject& project) {
  TrainingLength length;
  length.train_samples = project.number("retro_gpt_train_samples", "--retro-gpt-train-samples");
  length.global_batch_size =
      project.number("retro_gpt_global_batch_size", "--retro-gpt-global-batch-size");
  length.eval_interval = project.number("retro_gpt_eval_interval", "--retro-gpt-eval-interval");
  length.eval_iters = project.number("retro_gpt_eval_iters", "--retro-gpt-eval-iters");
  if (length.global_batch_size < 1 || length.eval_interval < 1 || length.train_samples < 1)
    fail(Exit::bad_data, project.path("config.json"), ": a training of ", length.train_samples,
         " samples, ", length.global_batch_size, " in a step, with ", length.eval_interval,
         " steps between evaluations, is none");
  length.train_iters = length.train_samples / length.global_batch_size;
  return length;
}

std::string identity_of(const RetroProject& project) {
  Hasher hasher;
  for (const auto& [key, value] : project.settings())
    if (key.starts_with("retro_gpt_") && key != "retro_gpt_data_cache_path")
      hasher.update(concat(key, " ", value, "\n"));
  for (const std::string& word : project.data_paths()) {
    const auto manifest = find_manifest(word);
    if (!manifest && !std::filesystem::exists(bin_path(word))) continue;  // a weight
    hasher.update((manifest ? manifest->bin_hash : hash_file(bin_path(word))) + "\n");
  }
  return hasher.hex();
}

}  // namespace

ProjectSamples::ProjectSamples(const RetroProject& project, int threads, const Log& log,
                               const std::function<void()>& poll)
    : seq_length_(project.number("retro_gpt_seq_length", "--retro-gpt-seq-length")),
      chunk_length_(project.number("retro_gpt_chunk_length", "--retro-gpt-chunk-length")),
      length_(length_of(project)),
      data_(data_of(project, threads)),
      identity_(identity_of(project)) {
  if (chunk_length_ < 1 || seq_length_ % chunk_length_ != 0)
    fail(Exit::bad_config, project.path("config.json"), ": samples of ", seq_length_,
         " tokens are no whole number of chunks of ", chunk_length_);
  data_.build(length_,
              static_cast<std::uint64_t>(project.number("retro_gpt_seed", "--retro-gpt-seed")), {},
              log, poll);
  text_.emplace(data_.tokenizer());
}

std::int64_t ProjectSamples::chunks(Split which) const {
  const auto sets = data_.sets(which);
  if (sets.empty()) return 0;
  const auto count = target_samples(length_)[static_cast<std::size_t>(which)];
  return count.value_or(sets.front()->samples->size()) * chunks_of_sample();
}

ProjectSamples::Sample ProjectSamples::read(Split which, std::int64_t k) const {
  const auto* const set = dynamic_cast<const Blended*>(data_.sets(which).front()->samples.get());
  assert(set != nullptr);
  const BlendIndex::Place place = set->index().place(k);
  const auto* const dataset = dynamic_cast<const GptDataset*>(set->datasets()[place.dataset].get());
  assert(dataset != nullptr);
  Sample sample;
  for (const GptDataset::Part& part : dataset->parts(place.sample))
    sample.documents.emplace_back(static_cast<std::uint32_t>(place.dataset),
                                  static_cast<std::uint32_t>(part.sequence));
  const auto length = static_cast<std::size_t>(seq_length_);
  std::vector<std::int32_t> tokens(length), labels(length), positions(length);
  std::vector<float> mask(length);
  dataset->get(place.sample, GptSample{.tokens = tokens,
                                       .labels = labels,
                                       .positions = positions,
                                       .first_key = {},
                                       .loss_mask = mask});
  for (std::size_t begin = 0; begin < length; begin += static_cast<std::size_t>(chunk_length_))
    sample.texts.push_back(
        text_->of(std::span(tokens).subspan(begin, static_cast<std::size_t>(chunk_length_))));
  return sample;
}

}  // namespace mt
