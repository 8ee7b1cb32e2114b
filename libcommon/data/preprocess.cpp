#include "data/preprocess.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "base/command.h"
#include "base/error.h"
#include "base/progress.h"
#include "data/indexed_dataset_writer.h"
#include "data/json_lines.h"
#include "data/line_pipeline.h"
#include "data/tokenizer_source.h"

namespace mt {
namespace {

// One key's share of a block: documents[i] sequences of document i, lengths of all, tokens of all.
struct EncodedKey {
  std::vector<std::int32_t> tokens, lengths;
  std::vector<std::size_t> documents;
};

struct EncodedBlock {
  std::vector<EncodedKey> keys;
  std::vector<BadLine> bad;
  std::int64_t lines = 0;
};

void encode_document(const Tokenizer& tokenizer, const std::vector<std::string_view>& texts,
                     bool append_eod, EncodedKey& out) {
  const std::size_t first = out.lengths.size();
  for (const std::string_view text : texts) {
    const std::size_t before = out.tokens.size();
    tokenizer.encode(text, out.tokens);
    if (out.tokens.size() > before)
      out.lengths.push_back(static_cast<std::int32_t>(out.tokens.size() - before));
  }
  out.documents.push_back(out.lengths.size() - first);
  if (append_eod && out.lengths.size() > first) {
    out.tokens.push_back(tokenizer.eod());
    ++out.lengths.back();
  }
}

EncodedBlock encode_block(const Tokenizer& tokenizer, const SentenceSplitter* splitter,
                          const PreprocessOptions& options, const LineBlock& block) {
  std::vector<std::string_view> sentences;
  const auto sentences_of = [&](const std::vector<std::string_view>& texts) -> const auto& {
    if (splitter == nullptr) return texts;
    sentences.clear();
    for (const std::string_view text : texts) splitter->split(text, sentences);
    return sentences;
  };
  EncodedBlock encoded;
  encoded.keys.resize(options.json_keys.size());
  JsonLineParser parser(options.json_keys);
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    ++encoded.lines;
    std::string wrong = parser.parse(line);
    if (!wrong.empty()) {
      encoded.bad.push_back({number, std::move(wrong), line});
      return;
    }
    for (std::size_t k = 0; k < encoded.keys.size(); ++k)
      encode_document(tokenizer, sentences_of(parser.texts()[k]), options.append_eod,
                      encoded.keys[k]);
  });
  return encoded;
}

void write_block(const EncodedKey& encoded, IndexedDatasetWriter& writer) {
  std::span<const std::int32_t> tokens(encoded.tokens), lengths(encoded.lengths);
  for (const std::size_t sequences : encoded.documents) {
    std::size_t size = 0;
    for (const std::int32_t length : lengths.first(sequences))
      size += static_cast<std::size_t>(length);
    writer.add_document(tokens.first(size), lengths.first(sequences));
    tokens = tokens.subspan(size);
    lengths = lengths.subspan(sequences);
  }
}

void check_options(const PreprocessOptions& options, const Tokenizer& tokenizer) {
  if (options.output_prefix.empty()) fail(Exit::usage, "--output-prefix: expected a name");
  if (options.output_prefix == "-")
    fail(Exit::usage, "--output-prefix -: token files are two, which stdout cannot take");
  const std::set<std::string> keys(options.json_keys.begin(), options.json_keys.end());
  if (keys.size() < options.json_keys.size()) fail(Exit::usage, "--json-keys: names a key twice");
  if (options.append_eod && tokenizer.eod() < 0)
    fail(Exit::bad_config, "--append-eod: the tokenizer has no end-of-document token");
}

// A run: the outputs, and what is known of it so far.
class Run {
 public:
  Run(const PreprocessOptions& options, const RunContext& context)
      : options_(options),
        context_(context),
        tokenizer_(make_tokenizer(options.tokenizer)),
        splitter_(make_sentence_splitter(options.sentences)),
        start_(std::chrono::steady_clock::now()) {
    check_options(options, *tokenizer_);
    if (tokenizer_->type().starts_with("Bert") && !splitter_)
      context.log.warn(
          "without --split-sentences a document is one sequence; BERT wants sentences");
    LineReader::Options reading;
    reading.inputs = expand_inputs(options.inputs);
    progress_.emplace(context.log, "preprocess", "bytes", stored_size(reading.inputs));
    reading.checkpoint = [this] {
      if (context_.checkpoint()) progress_->tell();
    };
    reader_.emplace(reading);
    bad_.emplace(options.on_error, options.overwrite, reading.inputs, context.log);
    const TokenType type = token_type_for(tokenizer_->vocab_size());
    for (const std::string& key : options.json_keys) {
      prefixes_.push_back(options.output_prefix + "_" + key +
                          (splitter_ ? "_sentence" : "_document"));
      writers_.emplace_back(prefixes_.back(), type,
                            IndexedDatasetWriter::Options{.overwrite = options.overwrite});
    }
  }

  void run() {
    run_line_pipeline(
        *reader_, options_.workers,
        [&](const LineBlock& block) {
          return encode_block(*tokenizer_, splitter_.get(), options_, block);
        },
        [&](const LineBlock& block, const EncodedBlock& encoded) { add(block, encoded); });
    progress_->finish();
  }

  // All outputs get their names.
  PreprocessSummary commit() {
    for (IndexedDatasetWriter& writer : writers_) writer.finish();
    context_.checkpoint();
    Manifest manifest;
    manifest.version = context_.version;
    manifest.arguments = context_.arguments;
    manifest.inputs = reader_->inputs();
    manifest.tokenizer = describe_tokenizer(options_.tokenizer, *tokenizer_);
    for (IndexedDatasetWriter& writer : writers_) writer.commit(manifest);
    bad_->commit();
    return summary();
  }

 private:
  void add(const LineBlock& block, const EncodedBlock& encoded) {
    for (const BadLine& bad : encoded.bad) bad_->add(block.file, bad);
    for (std::size_t k = 0; k < writers_.size(); ++k) write_block(encoded.keys[k], writers_[k]);
    lines_ += encoded.lines;
    progress_->add(static_cast<std::uint64_t>(block.stored_end) - progress_->done());
    text_bytes_ += static_cast<double>(block.size);
    const std::int64_t documents = writers_.front().state().documents;
    if (options_.log_interval > 0 && documents / options_.log_interval > logged_) {
      logged_ = documents / options_.log_interval;
      log_rate("progress", documents);
    }
  }

  void log_rate(const char* event, std::int64_t documents) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    const auto rate = [&](double count) { return std::round(count / seconds.count() * 10) / 10; };
    context_.log.event(event, {{"documents", documents},
                               {"documents_per_second", rate(static_cast<double>(documents))},
                               {"megabytes_per_second", rate(text_bytes_ / 1e6)}});
  }

  PreprocessSummary summary() const {
    PreprocessSummary summary;
    for (std::size_t k = 0; k < writers_.size(); ++k)
      summary.datasets.push_back({options_.json_keys[k], prefixes_[k], name_of(writers_[k].type()),
                                  writers_[k].state().sequences, writers_[k].state().documents,
                                  writers_[k].state().tokens});
    summary.input_files = static_cast<std::int64_t>(reader_->inputs().size());
    summary.input_bytes = reader_->stored_bytes();
    summary.lines = lines_;
    summary.bad_lines = bad_->count();
    log_rate("done", writers_.front().state().documents);
    if (bad_->count() > 0)
      context_.log.warn(concat(bad_->count(), " of ", lines_, " lines could not be used"));
    if (lines_ == 0) context_.log.warn("the input has no lines: the datasets are empty");
    return summary;
  }

  const PreprocessOptions& options_;
  const RunContext& context_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<SentenceSplitter> splitter_;  // null: documents are not split
  std::chrono::steady_clock::time_point start_;
  std::optional<LineReader> reader_;
  std::optional<Progress> progress_;
  std::optional<BadLines> bad_;
  std::vector<std::string> prefixes_;
  std::vector<IndexedDatasetWriter> writers_;
  std::int64_t lines_ = 0, logged_ = 0;
  double text_bytes_ = 0;
};

}  // namespace

void PreprocessOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  cl.option(
      "--input", &inputs, "FILE",
      "JSON-lines files, patterns such as 'c4-*.json.gz', or - for stdin; plain, gzip or zstd");
  cl.required("--input");
  cl.option("--output-prefix", &output_prefix, "PREFIX",
            "write PREFIX_KEY_document.bin, .idx and .manifest.json");
  cl.required("--output-prefix");
  cl.option("--json-keys", &json_keys, "KEY", "members with the text; each makes a dataset");
  cl.flag("--append-eod", &append_eod,
          "end every document that is not empty with the end-of-document token");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.flag("--force", &overwrite, "overwrite existing files");
  cl.section("Sentences");
  sentences.add_to(cl);
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  cl.option("--vocab-size", &tokenizer.vocab_size, "N",
            "NullTokenizer: ids below the one that ends a document", at_least(1));
  cl.section("Speed and talk");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            at_least(0));
  cl.option("--log-interval", &log_interval, "N",
            "log the speed about every N documents; 0: do not", at_least(0));
}

void PreprocessSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-preprocess/1");
  json.member("input_files", input_files).member("input_bytes", input_bytes);
  json.member("lines", lines).member("bad_lines", bad_lines).key("datasets").begin_array();
  for (const Dataset& dataset : datasets)
    json.begin_object()
        .member("key", dataset.key)
        .member("prefix", dataset.prefix)
        .member("dtype", dataset.dtype)
        .member("sequences", dataset.sequences)
        .member("documents", dataset.documents)
        .member("tokens", dataset.tokens)
        .end_object();
  json.end_array().end_object();
}

PreprocessSummary preprocess(const PreprocessOptions& options, const RunContext& context) {
  Run run(options, context);
  run.run();
  return run.commit();
}

}  // namespace mt
