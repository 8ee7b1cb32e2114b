// TrainData: the token files of a run, cut into training, validation and test samples, and the
// tokenizer's facts that go with them.  Shared by all ranks, read-only.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "data/files/tokenizer_source.h"
#include "data/samples/blended_dataset.h"
#include "data/samples/data_sources.h"
#include "data/samples/sampler.h"
#include "data/samples/samples.h"
#include "data/samples/split.h"

namespace mt {

struct DataOptions {
  DataSourceOptions sources;
  std::int64_t seq_length = 0;
  bool reset_position_ids = false, reset_attention_mask = false, eod_mask_loss = false;
  bool attention_mask_in_dataloader = true;
  std::string cache_path;
  std::string dataloader_type = "single";
  bool data_sharding = true;
  bool full_validation = false, multiple_validation_sets = false;
  TokenizerOptions tokenizer;  // --vocab-size is the model's option, and copied here
  int threads = 0;             // that open files and make indexes: those of --threads
  void add_to(CommandLine& cl);
  // Its parts that indexes depend on, with their names.
  void add_samples_to(CommandLine& cl);
  void add_validation_to(CommandLine& cl);
};

// The tokenizer of a run: of the options, else of the token files' manifests; made-up text without
// either has a NullTokenizer.
LoadedTokenizer run_tokenizer(const DataOptions& options);

// Samples to train on or to evaluate on, in the order of the run.
struct SampleSet {
  std::string name;  // of the token file, where validation has several sets; else ""
  std::unique_ptr<Samples> samples;
  Sampler order;
};

// Fills the fields that `batch` has of the run's samples [first, first + sequences), in host
// memory; real numbers may be f32 or f64.  Padding is a sample whose real numbers are 0.
void fill(const SampleSet& set, std::int64_t first, std::int64_t sequences, const Fields& batch);

class TrainData {
 public:
  // Reads which files there are and opens them all, checked, with their manifests.  The tokenizer
  // comes from the options or else from a manifest; where several know it, they must agree
  // (Exit::bad_config).  Unless tokens are read, none is needed: samples are counted and indexed.
  explicit TrainData(const DataOptions& options, bool read_tokens = true);

  // Cuts them for a run of `length`, read by ranks as `layout` says.  Indexes come from the cache
  // or are made, several at a time; what `poll` throws meanwhile, from any thread, ends it.
  void build(
      const TrainingLength& length, std::uint64_t seed, const SamplerOptions& layout,
      const Log& log, const std::function<void()>& poll = [] {});

  const Tokenizer& tokenizer() const { return *tokenizer_.tokenizer; }
  const TokenizerOptions& tokenizer_options() const { return tokenizer_.options; }
  // The sets of a split: one of training; none, one or several of validation; none or one of test.
  std::span<const std::unique_ptr<SampleSet>> sets(Split which) const {
    return sets_[static_cast<std::size_t>(which)];
  }
  const SampleSet& training() const { return *sets_.front().front(); }

 private:
  struct Part;     // of a set: one token file's
  struct SetPlan;  // what a set is made of
  void open_files();
  std::int64_t eod() const { return tokenizer_.tokenizer ? tokenizer().eod() : -1; }
  std::int64_t vocab_size() const { return tokenizer_.tokenizer ? tokenizer().vocab_size() : 1; }
  std::size_t file_of(const std::string& prefix) const;
  void plan_split(Split which, std::optional<std::int64_t> samples, std::vector<SetPlan>& plans,
                  const Log& log) const;
  SetPlan plan_set(Split which, const Blend& blend, std::optional<std::int64_t> samples) const;
  bool cut(SetPlan& plan, const Log& log) const;
  GptDatasetOptions dataset_options(const Part& part, std::uint64_t seed) const;
  std::unique_ptr<SampleSet> make_set(const SetPlan& plan, std::vector<GptDataset> datasets,
                                      const SamplerOptions& layout, const IndexCache& cache) const;

  DataOptions options_;
  DataSources sources_;
  LoadedTokenizer tokenizer_;
  std::vector<std::string> prefixes_;
  std::vector<std::unique_ptr<TokenSequences>> files_;  // one a prefix, or made-up text
  std::array<std::vector<std::unique_ptr<SampleSet>>, kSplits> sets_;
};

}  // namespace mt
