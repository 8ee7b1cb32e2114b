// TrainData: the token files of a run, the tokenizer's facts that go with them, and the samples
// that are made of them.  Shared by all ranks, read-only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/files/tokenizer_source.h"
#include "data/samples/masking.h"
#include "data/samples/mock_tokens.h"
#include "data/samples/retro_samples.h"
#include "data/samples/sample_kinds.h"
#include "data/samples/sample_options.h"
#include "data/samples/sample_sets.h"

namespace mt {

struct DataOptions {
  SampleType type = SampleType::gpt;  // whoever knows the model sets it
  DataSourceOptions sources;
  std::int64_t seq_length = 0;
  MaskOptions masks;
  std::optional<RetroSampleOptions> retro = {};  // with what was retrieved for a GPT's samples
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
  // Those of how samples are read, whatever they are.
  void add_reading_to(CommandLine& cl);
  // Throws Exit::usage, naming the option, where one says something that samples of this type have
  // no use for, or where one is missing.  `type_option`: by which the type is told.
  void check_type(const std::string& type_option) const;
};

// What the samples of a run bring.
FieldSpecs sample_fields(const DataOptions& options);

// The tokenizer of a run: of the options, else of the token files' manifests; made-up text without
// either has a NullTokenizer.
LoadedTokenizer run_tokenizer(const DataOptions& options);

// Opens them, several at a time.
TokenFiles open_token_files(const std::vector<std::string>& prefixes, const DataOptions& options);

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
  std::span<const std::unique_ptr<SampleSet>> sets(Split which) const { return sets_.of(which); }
  const SampleSet& training() const { return sets_.training(); }

 private:
  std::unique_ptr<SampleKind> kind(std::uint32_t seed) const;
  std::int64_t eod() const { return tokenizer_.tokenizer ? tokenizer().eod() : -1; }
  std::int64_t vocab_size() const { return tokenizer_.tokenizer ? tokenizer().vocab_size() : 1; }

  DataOptions options_;
  DataSources sources_;
  LoadedTokenizer tokenizer_;
  std::unique_ptr<WordPieces> pieces_;  // where text is masked
  TokenFiles files_;                    // one a prefix
  std::unique_ptr<MockTokens> mock_;    // or made-up text
  SampleSets sets_;
};

}  // namespace mt
