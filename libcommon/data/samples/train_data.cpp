#include "data/samples/train_data.h"

#include <algorithm>
#include <filesystem>

#include "base/command.h"
#include "base/threads.h"
#include "data/files/indexed_dataset.h"
#include "data/samples/bert_dataset.h"
#include "data/samples/gpt_dataset.h"
#include "data/samples/t5_dataset.h"
#include "text/null_tokenizer.h"

namespace mt {

void DataOptions::add_samples_to(CommandLine& cl) {
  sources.add_to(cl);
  cl.option("--seq-length,--encoder-seq-length", &seq_length, "N",
            "tokens of a sample; of a T5's what is encoded", at_least(1));
  masks.add_to(cl);
}

void DataOptions::check_type(const std::string& type_option) const {
  masks.check(type, type_option);
  if (type == SampleType::gpt) return;
  for (const auto& [given, name] : {std::pair{sources.mock_data, "--mock-data"},
                                    std::pair{reset_position_ids, "--reset-position-ids"},
                                    std::pair{reset_attention_mask, "--reset-attention-mask"},
                                    std::pair{eod_mask_loss, "--eod-mask-loss"}})
    if (given) fail(Exit::usage, name, ": is not for ", type_option);
}

FieldSpecs sample_fields(const DataOptions& options) {
  const MaskOptions& masks = options.masks;
  if (options.type == SampleType::bert)
    return bert_fields(options.seq_length, masks.mask_prob, masks.binary_head,
                       masks.texts_of_row());
  if (options.type == SampleType::t5)
    return t5_fields(options.seq_length, *masks.decoder_seq_length);
  FieldSpecs fields = gpt_fields(options.seq_length, options.reset_attention_mask);
  if (options.retro) add_retro_fields(fields, options.seq_length, *options.retro);
  return fields;
}

void DataOptions::add_validation_to(CommandLine& cl) {
  cl.flag("--full-validation", &full_validation,
          "evaluate on all of the validation data, once, instead of --eval-iters");
  cl.flag("--multiple-validation-sets", &multiple_validation_sets,
          "a loss for each of several --valid-data-path");
}

void DataOptions::add_reading_to(CommandLine& cl) {
  cl.option("--data-cache-path", &cache_path, "DIR",
            "keep indexes there and map them in later runs; default: made in memory each time");
  cl.option("--dataloader-type", &dataloader_type, "TYPE",
            "single: samples in order, once; cyclic: epochs, each in an order of its own",
            one_of({"single", "cyclic"}));
  cl.off_switch("--no-data-sharding", &data_sharding,
                "cyclic: one order over all samples, not one over each rank's");
}

void DataOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  add_samples_to(cl);
  add_reading_to(cl);
  cl.flag("--reset-position-ids", &reset_position_ids,
          "positions start again after an end of document");
  cl.flag("--reset-attention-mask", &reset_attention_mask,
          "no token attends to what is before the last end of document");
  cl.off_switch("--no-create-attention-mask-in-dataloader", &attention_mask_in_dataloader,
                "not with --reset-attention-mask; no matrix of a mask is made in any case");
  cl.flag("--eod-mask-loss", &eod_mask_loss,
          "predictions made after an end of document do not count");
  add_validation_to(cl);
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
}

LoadedTokenizer run_tokenizer(const DataOptions& options) {
  TokenizerOptions tokenizer = options.tokenizer;
  if (options.sources.mock_data && tokenizer.type.empty()) tokenizer.type = NullTokenizer::kType;
  const std::vector<std::string> prefixes = names_a_source(options.sources)
                                                ? read_sources(options.sources).prefixes()
                                                : std::vector<std::string>();
  return shared_tokenizer(prefixes, tokenizer);
}

TokenFiles open_token_files(const std::vector<std::string>& prefixes, const DataOptions& options) {
  TokenFiles files(prefixes.size());
  const KnownFiles known(options.cache_path);
  Workers(options.threads).run([&] {
    parallel_for_ordered_errors(std::ssize(prefixes), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      files[at] = std::make_unique<IndexedDataset>(prefixes[at], known);
    });
  });
  return files;
}

TrainData::TrainData(const DataOptions& options, bool read_tokens)
    : options_(options),
      sources_(read_sources(options.sources)),
      tokenizer_(read_tokens ? run_tokenizer(options) : LoadedTokenizer()) {
  if (options_.reset_attention_mask && !options_.attention_mask_in_dataloader)
    fail(Exit::usage,
         "--reset-attention-mask: has no effect with --no-create-attention-mask-in-dataloader");
  std::error_code error;
  if (std::filesystem::exists(options_.cache_path, error) &&
      !std::filesystem::is_directory(options_.cache_path, error))
    fail(Exit::cannot_create, options_.cache_path, ": is a file, expected a folder for indexes");
  if (sources_.mock)
    mock_ = std::make_unique<MockTokens>(vocab_size(), eod());
  else
    files_ = open_token_files(sources_.prefixes(), options_);
  if (options_.type == SampleType::gpt) return;
  for (const auto& file : files_) check_sentences(*file);
  pieces_ = std::make_unique<WordPieces>();
  if (!read_tokens) return;
  *pieces_ = WordPieces::of(tokenizer());
  if (options_.type == SampleType::t5) pieces_->check_sentinels();
}

std::unique_ptr<SampleKind> TrainData::kind(std::uint32_t seed) const {
  if (options_.type != SampleType::gpt)
    return masked_samples(options_.type, files_, *pieces_, options_.seq_length, options_.masks,
                          seed);
  std::vector<const TokenSequences*> files;
  for (const auto& file : files_) files.push_back(file.get());
  if (mock_) files.push_back(mock_.get());
  return gpt_samples(std::move(files), {.index = {.seq_length = options_.seq_length, .seed = seed},
                                        .eod_id = eod(),
                                        .vocab_size = vocab_size(),
                                        .reset_position_ids = options_.reset_position_ids,
                                        .reset_attention_mask = options_.reset_attention_mask,
                                        .eod_mask_loss = options_.eod_mask_loss});
}

void TrainData::build(const TrainingLength& length, std::uint64_t seed,
                      const SamplerOptions& layout, const Log& log,
                      const std::function<void()>& poll) {
  sets_.build(*kind(static_cast<std::uint32_t>(seed)), sources_,
              {.length = length,
               .layout = layout,
               .multiple_validation_sets = options_.multiple_validation_sets,
               .cache_path = options_.cache_path,
               .threads = options_.threads},
              log, poll);
  if (!options_.retro) return;
  RetroSampleOptions retro = *options_.retro;
  retro.reset_position_ids = options_.reset_position_ids;
  retro.eod_id = eod();
  const auto asked = target_samples(length);
  sets_.replace([&](Split which, std::unique_ptr<Samples> samples) {
    const std::int64_t count = asked[static_cast<std::size_t>(which)].value_or(samples->size());
    return std::make_unique<RetroSamples>(std::move(samples), which, count, options_.seq_length,
                                          retro);
  });
}

}  // namespace mt
