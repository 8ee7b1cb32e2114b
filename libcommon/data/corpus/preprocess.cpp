#include "data/corpus/preprocess.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "base/command.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "data/corpus/image_folder.h"
#include "data/corpus/line_encoder.h"
#include "data/corpus/line_pipeline.h"
#include "data/corpus/preprocess_journal.h"
#include "data/files/indexed_dataset_writer.h"
#include "data/files/tokenizer_source.h"
#include "text/hf/hf_tokenizer.h"

namespace mt {
namespace {

// What the work on a byte of input may take at most: the block, grown in a line's search for its
// end, the parser's index and strings, ids, and what the encoder keeps of a word.
constexpr std::int64_t kBytesPerByte = 16;
constexpr std::size_t kLeastBlockBytes = 64 << 10, kMostBlockBytes = 256 << 10;
constexpr std::chrono::seconds kSaveInterval{1};

struct Shard {
  std::int64_t index = 0, count = 1;
};
Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  if (index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    if (index.ec == std::errc() && count.ec == std::errc() && count.ptr == end &&
        shard.index >= 0 && shard.index < shard.count)
      return shard;
  }
  fail(Exit::usage, "--shard ", text, ": expected I/N with I from 0 to N - 1");
}

bool has_images(const PreprocessOptions& options) { return !options.image_folder.empty(); }

void check_options(const PreprocessOptions& options, const Tokenizer& tokenizer) {
  if (options.output_prefix.empty()) fail(Exit::usage, "--output-prefix: expected a name");
  if (options.output_prefix == "-")
    fail(Exit::usage, "--output-prefix -: token files are two, which stdout cannot take");
  const std::set<std::string> keys(options.json_keys.begin(), options.json_keys.end());
  if (keys.size() < options.json_keys.size()) fail(Exit::usage, "--json-keys: names a key twice");
  if (options.append_eod && tokenizer.eod() < 0)
    fail(Exit::bad_config, "--append-eod: the tokenizer has no end-of-document token");
  if (options.prepend_bos && tokenizer.bos() < 0)
    fail(Exit::bad_config, "--prepend-bos: the tokenizer has no token that begins a document");
  if (options.format == "text" &&
      (has_images(options) || options.json_keys != PreprocessOptions().json_keys))
    fail(Exit::usage, "--format text: has neither keys nor images");
  if (has_images(options) != (options.pad_length > 0))
    fail(Exit::usage, "--input-image and --pad-length go together");
  if (!has_images(options)) return;
  if (options.json_keys.size() > 1 || options.sentences.split || options.prepend_bos)
    fail(Exit::usage, "--input-image: a line has one text, which is one sequence as it is");
  if (options.on_error != "stop" || options.shard != "0/1" || options.resume)
    fail(Exit::usage, "--input-image: takes all lines in one run, without --on-error, --shard or ",
         "--resume");
}

// The prefix of each key's dataset.
std::vector<std::string> prefixes_of(const PreprocessOptions& options) {
  if (options.format == "text" || has_images(options)) return {options.output_prefix};
  std::vector<std::string> prefixes;
  for (const std::string& key : options.json_keys)
    prefixes.push_back(options.output_prefix + "_" + key +
                       (options.sentences.split ? "_sentence" : "_document"));
  return prefixes;
}

// Nothing else is written where a dataset will be.
void check_quarantine(const PreprocessOptions& options) {
  const std::string quarantine = BadLines::quarantine_of(options.on_error);
  if (quarantine.empty()) return;
  for (const std::string& prefix : prefixes_of(options))
    for (const std::string& output : {bin_path(prefix), idx_path(prefix), manifest_path(prefix)})
      if (is_same_file(quarantine, output))
        fail(Exit::usage, "--on-error ", options.on_error, ": is an output; expected another file");
}

// What a run reads is never what it writes.
void refuse_inputs_as_datasets(const PreprocessOptions& options,
                               const std::vector<std::string>& lines) {
  std::vector<std::string> inputs = lines, outputs;
  const TokenizerOptions& tokenizer = options.tokenizer;
  inputs.insert(inputs.end(), {tokenizer.vocab_file, tokenizer.merge_file, tokenizer.model});
  for (const std::string& prefix : prefixes_of(options))
    outputs.insert(outputs.end(), {bin_path(prefix), idx_path(prefix), manifest_path(prefix)});
  refuse_inputs(outputs, inputs);
}

// That what was made is of the inputs as they are now; of a shard only their names are known.
void check_inputs(const PreprocessOptions& options, const std::string& path,
                  const Manifest& manifest) {
  if (options.shard != "0/1") return;
  const std::vector<std::string> inputs = expand_inputs(options.inputs);
  std::int64_t size = 0;
  const auto same = [&](const std::string& input, const InputFile& made_of) {
    std::error_code error;
    size = static_cast<std::int64_t>(std::filesystem::file_size(input, error));
    return !error && input == made_of.path && size == made_of.bytes;
  };
  const auto [now, then] = std::ranges::mismatch(inputs, manifest.inputs, same);
  if (now == inputs.end() && then == manifest.inputs.end()) return;
  const auto text = [](const std::string& name, std::int64_t bytes) {
    return concat(name, " of ", bytes, " bytes");
  };
  fail(Exit::bad_config, path, ": made of other inputs: number ", now - inputs.begin() + 1, " is ",
       now == inputs.end() ? "none" : text(*now, size), ", was ",
       then == manifest.inputs.end() ? "none" : text(then->path, then->bytes),
       "; --force makes the dataset anew");
}

// What the same command has done before: all datasets are there, and no journal any more.
std::optional<PreprocessSummary> done_before(const PreprocessOptions& options,
                                             const RunContext& context) {
  if (std::filesystem::exists(journal_path(options.output_prefix))) return std::nullopt;
  PreprocessSummary summary;
  const std::vector<std::string> prefixes = prefixes_of(options);
  for (std::size_t k = 0; k < prefixes.size(); ++k) {
    if (!std::filesystem::exists(idx_path(prefixes[k]))) return std::nullopt;
    const std::optional<Manifest> manifest = find_manifest(prefixes[k]);
    if (!manifest || manifest->arguments != context.arguments ||
        manifest->version != context.version)
      return std::nullopt;
    check_inputs(options, manifest_path(prefixes[k]), *manifest);
    summary.datasets.push_back({options.json_keys[k], prefixes[k], manifest->dtype,
                                manifest->sequences, manifest->documents, manifest->tokens});
    summary.input_files = static_cast<std::int64_t>(manifest->inputs.size());
    summary.input_bytes = 0;
    for (const InputFile& input : manifest->inputs) summary.input_bytes += input.bytes;
  }
  for (const std::string& prefix : prefixes) remove_parts(prefix);
  context.log.event("complete", {{"since", "an earlier run"}});
  return summary;
}

// What the bytes of the results depend on.
std::string fingerprint(const PreprocessOptions& options, const std::vector<std::string>& inputs,
                        const Tokenizer& tokenizer, const SentenceSplitter* splitter,
                        const std::string& version) {
  JsonWriter json;
  json.begin_array().value(version).value(tokenizer.identity()).value(options.format);
  for (const std::string& key : options.json_keys) json.value(key);
  json.value(splitter == nullptr ? "" : splitter->identity());
  json.value(options.sentences.keep_newlines);
  json.value(options.append_eod)
      .value(options.prepend_bos)
      .value(options.shard)
      .value(options.on_error);
  for (const std::string& input : inputs) {
    std::error_code error;
    json.value(input).value(std::filesystem::file_size(input, error));
    if (error || !std::filesystem::is_regular_file(input))
      fail(Exit::usage, "--resume: ", input, " cannot be read again; expected regular files");
  }
  return hash_hex(as_bytes(json.end_array().text()));
}

// A run: the outputs, and what is known of it so far.
class Run {
 public:
  Run(const PreprocessOptions& options, const RunContext& context)
      : options_(options),
        context_(context),
        tokenizer_(make_tokenizer(options.tokenizer)),
        splitter_(make_sentence_splitter(options.sentences, context.log)),
        start_(std::chrono::steady_clock::now()),
        prefixes_(prefixes_of(options)) {
    check_options(options, *tokenizer_);
    if (const std::string note = hf_note_of(*tokenizer_); !note.empty()) context.log.warn(note);
    if (tokenizer_->type().starts_with("Bert") && !splitter_ && options.format == "jsonl")
      context.log.warn(
          "without --split-sentences a document is one sequence; BERT wants sentences");
    check_quarantine(options);
    if (has_images(options)) images_.emplace(options.image_folder);
    const std::vector<std::string> inputs = expand_inputs(options.inputs);
    refuse_inputs_as_datasets(options, inputs);
    if (options.resume) open_journal(inputs);
    bad_.emplace(options.on_error, options.overwrite, inputs, context.log, options.resume);
    open_outputs();
    open_inputs(inputs);
  }

  void run() {
    LineEncoder::Options encoding = {options_.json_keys,      options_.format == "text",
                                     options_.prepend_bos,    options_.append_eod,
                                     writers_.front().type(), options_.pad_length};
    const LineEncoder encoder(encoding, *tokenizer_, splitter_.get());
    try {
      run_line_pipeline<EncodedBlock>(
          *reader_, options_.workers,
          [&](const LineBlock& block, EncodedBlock& encoded) { encoder.encode(block, encoded); },
          [&](const LineBlock& block, const EncodedBlock& encoded) { add(block, encoded); });
    } catch (...) {
      if (journal_ && !adding_) save();
      throw;
    }
    progress_->finish();
  }

  // All outputs get their names.
  PreprocessSummary commit() {
    if (images_ && images_->size() != lines_)
      fail(Exit::bad_data, images_->path(), ": ", images_->size(), " images for ", lines_,
           " lines");
    if (journal_) save();
    for (IndexedDatasetWriter& writer : writers_) writer.finish();
    context_.checkpoint();
    Manifest manifest;
    manifest.version = context_.version;
    manifest.arguments = context_.arguments;
    manifest.inputs = reader_->inputs();
    manifest.tokenizer = describe_tokenizer(options_.tokenizer, *tokenizer_);
    if (journal_) journal_->begin_commit();
    for (IndexedDatasetWriter& writer : writers_) writer.commit(manifest);
    bad_->commit();
    if (journal_) {
      journal_->remove();
      for (const std::string& prefix : prefixes_) remove_parts(prefix);
    }
    return summary();
  }

 private:
  void open_journal(const std::vector<std::string>& inputs) {
    journal_.emplace(options_.output_prefix,
                     fingerprint(options_, inputs, *tokenizer_, splitter_.get(), context_.version),
                     prefixes_.size());
    lines_ = journal_->state().lines;
    if (lines_ > 0) context_.log.event("resume", {{"lines", lines_}});
    if (!journal_->commit_begun()) return;
    for (const std::string& prefix : prefixes_) undo_dataset_commit(prefix);
    BadLines::undo_commit(options_.on_error);
  }

  void open_outputs() {
    const TokenType type = images_ ? TokenType::i32 : token_type_for(tokenizer_->vocab_size());
    for (const std::string& prefix : prefixes_)
      writers_.emplace_back(prefix, type,
                            IndexedDatasetWriter::Options{.overwrite = options_.overwrite,
                                                          .multimodal = images_.has_value(),
                                                          .resumable = options_.resume});
    if (!journal_) return;
    bad_->resume(journal_->state().bad);
    for (std::size_t k = 0; k < writers_.size(); ++k)
      writers_[k].resume(journal_->state().datasets[k]);
  }

  void open_inputs(const std::vector<std::string>& inputs) {
    const Shard shard = parse_shard(options_.shard);
    const std::int64_t memory = options_.memory << 20;
    LineReader::Options reading;
    reading.inputs = inputs;
    reading.block_bytes = std::clamp(
        static_cast<std::size_t>(memory / (kBytesPerByte * blocks_in_flight(options_.workers))),
        kLeastBlockBytes, kMostBlockBytes);
    reading.line_limit = static_cast<std::size_t>(memory / kBytesPerByte);
    reading.limit_hint = "; with more --memory it may be longer";
    reading.pass_long_lines = options_.on_error != "stop";
    reading.are_json = options_.format == "jsonl";
    reading.shard = shard.index;
    reading.shards = shard.count;
    reading.skip_lines = lines_;
    progress_.emplace(context_.log, "preprocess", "bytes",
                      stored_size(inputs) / static_cast<std::uint64_t>(shard.count));
    reading.checkpoint = [this] { context_.checkpoint(); };
    reader_.emplace(reading);
  }

  void add(const LineBlock& block, const EncodedBlock& encoded) {
    adding_ = true;
    for (const BadLine& bad : encoded.bad) bad_->add(block.file, bad);
    for (std::size_t k = 0; k < writers_.size(); ++k)
      if (images_)
        write_with_images(encoded.keys[k], writers_[k]);
      else
        writers_[k].add_documents(encoded.keys[k].tokens.bytes(), encoded.keys[k].lengths,
                                  encoded.keys[k].documents);
    lines_ += encoded.lines;
    adding_ = false;
    progress_->add(static_cast<std::uint64_t>(block.stored_end) - progress_->done());
    text_bytes_ += static_cast<double>(block.size);
    const std::int64_t documents = writers_.front().state().documents;
    if (options_.log_interval > 0 && documents / options_.log_interval > logged_) {
      logged_ = documents / options_.log_interval;
      log_rate("progress", documents);
    }
    if (journal_ && std::chrono::steady_clock::now() - saved_ >= kSaveInterval) save();
  }

  // A text is one sequence, and its image another.
  void write_with_images(const EncodedKey& encoded, IndexedDatasetWriter& writer) {
    Bytes rest = encoded.tokens.bytes();
    for (const std::int32_t length : encoded.lengths) {
      const std::int64_t document = writer.state().documents;
      if (document >= images_->size())
        fail(Exit::bad_data, images_->path(), ": ", images_->size(),
             " images, too few for the lines");
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
      const Bytes text = rest.first(tokens.size() * sizeof(std::int32_t));
      std::ranges::copy(text, std::as_writable_bytes(std::span(tokens)).begin());
      rest = rest.subspan(text.size());
      const std::vector<std::int32_t> image = images_->tokens(document);
      tokens.insert(tokens.end(), image.begin(), image.end());
      const std::int32_t lengths[] = {length, static_cast<std::int32_t>(image.size())};
      const std::int8_t modes[] = {0, 1};
      writer.add_document(tokens, lengths, modes);
    }
  }

  void save() {
    PreprocessJournal::State state = {lines_, bad_->state(), {}};
    bad_->save();
    for (IndexedDatasetWriter& writer : writers_) {
      writer.save();
      state.datasets.push_back(writer.state());
    }
    journal_->save(state);
    saved_ = std::chrono::steady_clock::now();
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
  std::vector<std::string> prefixes_;
  std::chrono::steady_clock::time_point saved_ = start_;
  std::optional<ImageFolder> images_;
  std::optional<PreprocessJournal> journal_;
  std::optional<LineReader> reader_;
  std::optional<Progress> progress_;
  std::optional<BadLines> bad_;
  std::vector<IndexedDatasetWriter> writers_;
  std::int64_t lines_ = 0, logged_ = 0;
  double text_bytes_ = 0;
  bool adding_ = false;  // the outputs hold part of a block
};

}  // namespace

void PreprocessOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  cl.option(
      "--input", &inputs, "FILE",
      "JSON-lines files, patterns such as 'c4-*.json.gz', or - for stdin; plain, gzip, bzip2, "
      "zstd or Parquet");
  cl.required("--input");
  cl.option("--format", &format, "FORMAT",
            "jsonl: JSON lines; text: each line with its newline is a document of PREFIX",
            one_of({"jsonl", "text"}));
  cl.option("--output-prefix", &output_prefix, "PREFIX",
            "write PREFIX_KEY_document.bin, .idx and .manifest.json");
  cl.required("--output-prefix");
  cl.option("--json-keys", &json_keys, "KEY", "members with the text; each makes a dataset");
  cl.flag("--append-eod", &append_eod,
          "end every document that is not empty with the end-of-document token");
  cl.flag("--prepend-bos", &prepend_bos,
          "begin every document that is not empty with the token for that, once");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.flag("--force", &overwrite, "overwrite existing files");
  cl.flag("--resume", &resume,
          "keep a journal beside the output; after a kill the same command goes on");
  cl.option("--shard", &shard, "I/N", "only part I of N, from 0; their merge is as of one run");
  cl.section("Images");
  cl.option("--input-image", &image_folder, "DIR",
            "the I-th line has the I-th file of DIR by name: a multimodal dataset PREFIX");
  cl.option("--pad-length", &pad_length, "N",
            "with images and --append-eod: cut or fill each text to N tokens", between(0, 1 << 30));
  cl.section("Sentences");
  sentences.add_to(cl);
  cl.section("Tokenizer");
  tokenizer.add_to(cl);
  cl.option("--vocab-size", &tokenizer.vocab_size, "N",
            "NullTokenizer: ids below the one that ends a document; TikTokenizer: all ids, else "
            "131072",
            at_least(1));
  cl.section("Speed and talk");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            at_least(0));
  cl.option("--memory", &memory, "MIB",
            "that the lines in work take; none is longer than a sixteenth. Changes no byte",
            between(16, 1 << 30));
  cl.option("--log-interval", &log_interval, "N",
            "log the speed about every N documents; 0: do not", at_least(0));
}

void PreprocessSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-preprocess/1");
  json.member("input_files", input_files).member("input_bytes", input_bytes);
  const auto write_count = [&](const char* name, std::optional<std::int64_t> count) {
    json.key(name);
    count ? json.value(*count) : json.null();
  };
  write_count("lines", lines);
  write_count("bad_lines", bad_lines);
  json.key("datasets").begin_array();
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
  if (options.resume && !options.overwrite)
    if (auto summary = done_before(options, context)) return *summary;
  Run run(options, context);
  run.run();
  return run.commit();
}

}  // namespace mt
