#include "data/samples/show_samples.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "base/command.h"
#include "data/files/tokenizer_source.h"
#include "data/samples/bert_dataset.h"
#include "data/samples/blend_index.h"
#include "data/samples/ict_dataset.h"
#include "data/samples/split.h"
#include "data/samples/t5_dataset.h"

namespace mt {
namespace {

using Tokens = std::vector<std::int32_t>;

// A sample, whatever it is of.
struct Shown {
  struct Fact {
    std::string_view name;
    std::int64_t value;
  };
  struct Field {
    std::string_view name;
    Tokens values;
  };
  struct Text {
    std::string_view name;
    std::string text;
  };
  std::string file;
  ItemRange sentences = {};
  std::string what;  // for people, after the sentences
  std::vector<Fact> facts = {};
  std::vector<Field> fields = {};
  std::vector<Text> texts = {};
};

// The tokens before padding; at those with a label the label in braces behind.
std::string text_of(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                    std::span<const std::int32_t> labels = {}) {
  std::string text;
  const auto add = [&](std::span<const std::int32_t> run) {
    if (run.empty()) return;
    if (!text.empty()) text += ' ';
    text += tokenizer.decode_text(run);
  };
  std::size_t begin = 0;  // of what is not in `text` yet
  for (std::size_t i = 0; i < labels.size() && i < tokens.size(); ++i) {
    if (labels[i] < 0) continue;
    add(tokens.subspan(begin, i - begin));
    add(tokens.subspan(i, 1));
    text.append("{").append(tokenizer.decode_text(labels.subspan(i, 1))).append("}");
    begin = i + 1;
  }
  add(tokens.subspan(begin));
  return text;
}

Tokens without_padding(const Tokens& tokens, const Tokens& mask) {
  return {tokens.begin(), tokens.begin() + std::ranges::count(mask, 1)};
}

Tokens room(std::int64_t length) { return Tokens(static_cast<std::size_t>(length)); }

Shown shown(const BertDataset& dataset, std::int64_t k, const Tokenizer& tokenizer) {
  Tokens text = room(dataset.seq_length()), types = text, labels = text, padding = text,
         loss = text;
  const auto facts = dataset.get(k, {text, types, labels, padding, loss});
  Shown sample{dataset.data().name(), dataset.map().sentences(k),
               concat(", ", dataset.map().target_length(k), " tokens",
                      facts.is_random ? ", swapped" : "", facts.truncated ? ", truncated" : "")};
  sample.facts = {{"is_random", facts.is_random}, {"truncated", facts.truncated}};
  sample.texts = {{"text", text_of(tokenizer, without_padding(text, padding), labels)}};
  sample.fields = {{"text", text},
                   {"types", types},
                   {"labels", labels},
                   {"padding_mask", padding},
                   {"loss_mask", loss}};
  return sample;
}

Shown shown(const T5Dataset& dataset, std::int64_t k, const Tokenizer& tokenizer) {
  Tokens encoder = room(dataset.seq_length()), encoder_mask = encoder;
  Tokens decoder = room(dataset.decoder_seq_length()), labels = decoder, loss = decoder,
         decoder_mask = decoder;
  const auto facts = dataset.get(k, {encoder, decoder, labels, loss, encoder_mask, decoder_mask});
  Shown sample{dataset.data().name(), dataset.map().sentences(k),
               concat(", ", dataset.map().target_length(k), " tokens",
                      facts.truncated ? ", truncated" : "")};
  sample.facts = {{"truncated", facts.truncated}};
  sample.texts = {{"encoder", text_of(tokenizer, without_padding(encoder, encoder_mask))},
                  {"decoder", text_of(tokenizer, without_padding(decoder, decoder_mask))},
                  {"labels", text_of(tokenizer, without_padding(labels, decoder_mask))}};
  sample.fields = {{"text_enc", encoder}, {"text_dec", decoder},      {"labels", labels},
                   {"loss_mask", loss},   {"enc_mask", encoder_mask}, {"dec_mask", decoder_mask}};
  return sample;
}

Shown shown(const IctDataset& dataset, std::int64_t k, const Tokenizer& tokenizer) {
  Tokens query = room(dataset.seq_length()), query_mask = query, context = query,
         context_mask = query;
  const auto facts = dataset.get(k, {query, query_mask, context, context_mask});
  Shown sample{dataset.data().name(), facts.sentences,
               concat(", document ", facts.document, ", block ", facts.block)};
  sample.facts = {{"document", facts.document}, {"block", facts.block}};
  sample.texts = {{"query", text_of(tokenizer, without_padding(query, query_mask))},
                  {"context", text_of(tokenizer, without_padding(context, context_mask))}};
  sample.fields = {{"query_tokens", query},
                   {"query_pad_mask", query_mask},
                   {"context_tokens", context},
                   {"context_pad_mask", context_mask}};
  return sample;
}

void write_text(std::ostream& out, std::int64_t k, const Shown& sample) {
  out << "sample " << k << ": " << sample.file << ", sentences " << sample.sentences.begin << " to "
      << sample.sentences.end << sample.what << "\n";
  for (const Shown::Text& text : sample.texts) {
    JsonWriter json;  // on one line, whatever it holds
    json.value(text.text);
    out << "  " << text.name << ": " << json.text() << "\n";
  }
}

void write_json(std::ostream& out, const std::string& dataset, std::int64_t k,
                const Shown& sample) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-samples/1").member("dataset", dataset);
  json.member("sample", k).member("file", sample.file).key("sentences").begin_array();
  json.value(sample.sentences.begin).value(sample.sentences.end).end_array();
  for (const auto& [name, value] : sample.facts) json.member(name, value);
  for (const auto& [name, values] : sample.fields) {
    json.key(name).begin_array();
    for (const std::int32_t value : values) json.value(value);
    json.end_array();
  }
  json.end_object();
  out << json.text() << "\n";
}

// An option of datasets of another kind would do nothing.
void check_kind(const ShowSamplesOptions& o) {
  const bool bert = o.dataset == "bert", t5 = o.dataset == "t5", ict = o.dataset == "ict";
  struct Rule {
    bool given, fits;
    const char* name;
  };
  for (const Rule& rule : {Rule{o.decoder_seq_length.has_value(), t5, "--decoder-seq-length"},
                           Rule{o.mask_prob.has_value(), !ict, "--mask-prob"},
                           Rule{o.short_seq_prob.has_value(), !ict, "--short-seq-prob"},
                           Rule{!o.binary_head, bert, "--bert-no-binary-head"},
                           Rule{!o.titles_path.empty(), ict, "--titles-data-path"},
                           Rule{o.query_in_block_prob.has_value(), ict, "--query-in-block-prob"},
                           Rule{o.use_one_sent_docs, ict, "--use-one-sent-docs"}})
    if (rule.given && !rule.fits)
      fail(Exit::usage, rule.name, ": has no effect with --dataset ", o.dataset);
  if (t5 && !o.decoder_seq_length) fail(Exit::usage, "--decoder-seq-length: required");
  if (ict && o.titles_path.empty()) fail(Exit::usage, "--titles-data-path: required");
}

ItemRange documents_of(const ShowSamplesOptions& options, const IndexedDataset& data) {
  const std::size_t part = options.part == "train" ? 0 : options.part == "valid" ? 1 : 2;
  const auto range = split_ranges(options.split, data.documents())[part];
  if (!range || range->size() == 0)
    fail(Exit::bad_config, "--split ", options.split, ": leaves none of the ", data.documents(),
         " documents of ", data.name(), " to ", options.part);
  return *range;
}

std::vector<IndexedDataset> open_all(const std::vector<std::string>& prefixes,
                                     const std::string& cache_path) {
  const KnownFiles known(cache_path);
  std::vector<IndexedDataset> files;
  files.reserve(prefixes.size());
  for (const std::string& prefix : prefixes) files.emplace_back(prefix, known);
  return files;
}

}  // namespace

void ShowSamplesOptions::add_to(CommandLine& cl) {
  cl.section("Data");
  cl.option("--dataset", &dataset, "TYPE", "bert, t5 or ict", one_of({"bert", "t5", "ict"}));
  cl.required("--dataset");
  cl.option("--data-path", &data_path, "[WEIGHT] PREFIX ...",
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
  constexpr double kMost = 2147483646;  // as of a GPT's samples
  cl.option("--seq-length,--encoder-seq-length", &seq_length, "N", "tokens of a sample",
            between(5, kMost));
  cl.required("--seq-length");
  cl.option("--decoder-seq-length", &decoder_seq_length, "N", "t5: tokens of what is decoded",
            between(2, kMost));
  cl.option("--mask-prob", &mask_prob, "P", "bert, t5: part of the tokens that is masked; 0.15",
            {.low = 0, .high = 1, .above_low = true});
  cl.option("--short-seq-prob", &short_seq_prob, "P",
            "bert, t5: part of the samples that is shorter; 0.1", between(0, 1));
  cl.off_switch("--bert-no-binary-head", &binary_head, "bert: samples of one run of sentences");
  cl.option("--titles-data-path", &titles_path, "PREFIX ...",
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
  const std::vector<IndexedDataset> files = open_all(blend.prefixes, options.cache_path);
  const std::vector<IndexedDataset> titles = open_all(options.titles_path, options.cache_path);
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
      sizes.push_back({datasets.back().data().name(), datasets.back().size()});
    }
    const BlendIndex data(sizes, plan, cache);
    if (options.count > 0 && options.first >= data.size())
      fail(Exit::usage, "--first ", options.first, ": there are ", data.size(), " samples");
    const std::int64_t count = std::min(data.size() - options.first, options.count);
    for (std::int64_t k = options.first; k < options.first + count; ++k) {
      context.checkpoint();
      const auto at = data.place(k);
      const Shown sample = shown(datasets[at.dataset], at.sample, *tokenizer);
      options.json ? write_json(out, options.dataset, k, sample) : write_text(out, k, sample);
    }
  };
  using Samples = std::optional<std::int64_t>;
  if (options.dataset == "bert")
    return show([&](std::size_t i, Samples samples) {
      return BertDataset(files[i], pieces,
                         {.documents = documents_of(options, files[i]),
                          .seq_length = options.seq_length,
                          .seed = seed,
                          .num_samples = samples,
                          .mask_prob = options.mask_prob.value_or(0.15),
                          .short_seq_prob = options.short_seq_prob.value_or(0.1),
                          .binary_head = options.binary_head},
                         cache);
    });
  if (options.dataset == "t5")
    return show([&](std::size_t i, Samples samples) {
      return T5Dataset(files[i], pieces,
                       {.documents = documents_of(options, files[i]),
                        .seq_length = options.seq_length,
                        .decoder_seq_length = *options.decoder_seq_length,
                        .seed = seed,
                        .num_samples = samples,
                        .mask_prob = options.mask_prob.value_or(0.15),
                        .short_seq_prob = options.short_seq_prob.value_or(0.1)},
                       cache);
    });
  show([&](std::size_t i, Samples samples) {
    return IctDataset(files[i], titles[i], pieces,
                      {.documents = documents_of(options, files[i]),
                       .seq_length = options.seq_length,
                       .seed = seed,
                       .num_samples = samples,
                       .query_in_block_prob = options.query_in_block_prob.value_or(0.1),
                       .use_one_sent_docs = options.use_one_sent_docs},
                      cache);
  });
}

}  // namespace mt
