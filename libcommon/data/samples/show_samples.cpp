#include "data/samples/show_samples.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <vector>

#include "base/command.h"
#include "data/files/tokenizer_source.h"
#include "data/samples/blend_index.h"
#include "data/samples/ict_dataset.h"
#include "data/samples/sample_kinds.h"
#include "data/samples/split.h"

namespace mt {
namespace {

// An option of datasets of another kind would do nothing.
void check_kind(const ShowSamplesOptions& o) {
  const std::string type_option = concat("--dataset ", o.dataset);
  if (o.dataset != "ict") {
    for (const auto& [given, name] :
         {std::pair{!o.titles_path.empty(), "--titles-data-path"},
          std::pair{o.query_in_block_prob.has_value(), "--query-in-block-prob"},
          std::pair{o.use_one_sent_docs, "--use-one-sent-docs"}})
      if (given) fail(Exit::usage, name, ": has no effect with ", type_option);
    return o.masks.check(sample_type(o.dataset), type_option);
  }
  o.masks.check(SampleType::gpt, type_option);  // which has no masks either
  if (o.titles_path.empty()) fail(Exit::usage, "--titles-data-path: required");
}

ItemRange documents_of(const ShowSamplesOptions& options, const IndexedDataset& data) {
  const std::size_t part = options.part == "train" ? 0 : options.part == "valid" ? 1 : 2;
  const auto range = split_ranges("--split", options.split, data.documents())[part];
  if (!range || range->size() == 0)
    fail(Exit::bad_config, "--split ", options.split, ": leaves none of the ", data.documents(),
         " documents of ", data.name(), " to ", options.part);
  return *range;
}

TokenFiles open_all(const std::vector<std::string>& prefixes, const std::string& cache_path) {
  const KnownFiles known(cache_path);
  TokenFiles files;
  for (const std::string& prefix : prefixes)
    files.push_back(std::make_unique<IndexedDataset>(prefix, known));
  return files;
}

}  // namespace

void ShowSamplesOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  cl.option("--dataset", &dataset, "TYPE", "bert, t5 or ict", one_of({"bert", "t5", "ict"}));
  cl.required("--dataset");
  cl.option("--data-path", &data_path, "[WEIGHT] PREFIX",
            "token files of sentences, as --split-sentences makes them; weights blend them");
  cl.required("--data-path");
  cl.option("--split", &split, "A,B,C", "proportions of train, valid and test, by documents");
  cl.option("--part", &part, "NAME", "which of them: train, valid or test",
            one_of({"train", "valid", "test"}));
  cl.option("--data-cache-path", &cache_path, "DIR",
            "keep the map of samples there; default: it is made in memory each time");
  cl.option("--seed", &seed, "N", "seed of the order and of the masks", between(1, 4294967295.0));
  cl.option("--samples", &num_samples, "N",
            "samples of the run; default: one epoch; a map has them in whole epochs", at_least(1));
  cl.section("Samples");
  cl.option("--seq-length,--encoder-seq-length", &seq_length, "N", "tokens of a sample",
            between(5, kMostTokens));
  cl.required("--seq-length");
  masks.add_to(cl);
  cl.option("--titles-data-path", &titles_path, "PREFIX",
            "ict: for each --data-path a token file with a title for each document");
  cl.option("--query-in-block-prob", &query_in_block_prob, "P",
            "ict: part of the samples whose sentence stays in the block; 0.1", between(0, 1));
  cl.flag("--use-one-sent-docs", &use_one_sent_docs, "ict: blocks of one sentence too");
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  cl.section("Output");
  cl.option("--first", &first, "N", "number of the first sample that is printed", at_least(0));
  cl.option("--count,-n", &count, "N", "how many are printed", at_least(0));
  cl.flag("--json", &json, "print a JSON object for each, with Megatron's fields");
}

void show_samples(const ShowSamplesOptions& options, const RunContext& context, std::ostream& out) {
  check_kind(options);
  const Blend blend = parse_blend("--data-path", options.data_path);
  const auto tokenizer = shared_tokenizer(blend.prefixes, options.tokenizer).tokenizer;
  const WordPieces pieces = WordPieces::of(*tokenizer);
  if (options.dataset == "t5") pieces.check_sentinels();
  const TokenFiles files = open_all(blend.prefixes, options.cache_path);
  const TokenFiles titles = open_all(options.titles_path, options.cache_path);
  for (const auto& file : files) check_sentences(*file);
  if (!titles.empty() && titles.size() != files.size())
    fail(Exit::usage, "--titles-data-path: ", titles.size(), " prefixes, expected ", files.size(),
         ", one for each of --data-path");
  const auto seed = static_cast<std::uint32_t>(options.seed);
  const IndexCache cache =
      (options.cache_path.empty() ? IndexCache() : IndexCache(options.cache_path, context.log))
          .reporting([&](std::uint64_t) { context.checkpoint(); });
  if (!blend.weights.empty() && !options.num_samples)
    fail(Exit::usage, "--samples: required where --data-path has weights");
  const BlendPlan plan = plan_blend(blend, options.num_samples);
  // `make(i, n)` makes the dataset of the i-th prefix, of at least n samples or of one epoch.
  const auto show = [&](const auto& make) {
    std::vector<decltype(make(0, std::nullopt))> datasets;
    std::vector<BlendIndex::Dataset> sizes;
    for (std::size_t i = 0; i < plan.each.size(); ++i) {
      datasets.push_back(make(i, plan.each[i]));
      sizes.push_back({datasets.back()->name(), datasets.back()->size()});
    }
    const BlendIndex data(sizes, plan, cache);
    if (options.count > 0 && options.first >= data.size())
      fail(Exit::usage, "--first ", options.first, ": there are ", data.size(), " samples");
    const std::int64_t count = std::min(data.size() - options.first, options.count);
    for (std::int64_t k = options.first; k < options.first + count; ++k) {
      context.checkpoint();
      const auto at = data.place(k);
      const auto& from = *datasets[at.dataset];
      if (!options.json) {
        const std::vector<std::string> lines = from.lines(at.sample, *tokenizer);
        out << "sample " << k << ": " << lines.front() << "\n";
        for (const std::string& line : std::span(lines).subspan(1)) out << "  " << line << "\n";
        continue;
      }
      JsonWriter json;
      json.begin_object().member("schema", "mt-samples/1").member("dataset", options.dataset);
      json.member("sample", k);
      from.write(at.sample, *tokenizer, json);
      out << json.end_object().text() << "\n";
    }
  };
  using Count = std::optional<std::int64_t>;
  if (options.dataset == "ict")
    return show([&](std::size_t i, Count samples) {
      return std::make_unique<IctDataset>(
          *files[i], *titles[i], pieces,
          IctDatasetOptions{.documents = documents_of(options, *files[i]),
                            .seq_length = options.seq_length,
                            .seed = seed,
                            .num_samples = samples,
                            .query_in_block_prob = options.query_in_block_prob.value_or(0.1),
                            .use_one_sent_docs = options.use_one_sent_docs},
          cache);
    });
  const auto kind = masked_samples(sample_type(options.dataset), files, pieces, options.seq_length,
                                   options.masks, seed);
  show([&](std::size_t i, Count samples) {
    return kind->make({.file = i, .items = documents_of(options, *files[i]), .samples = samples},
                      cache);
  });
}

}  // namespace mt
