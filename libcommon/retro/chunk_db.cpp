#include "retro/chunk_db.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "base/command.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/files/indexed_dataset.h"
#include "data/files/manifest.h"
#include "data/files/tokenizer_source.h"
#include "data/samples/blend.h"
#include "data/samples/split.h"
#include "retro/block_list.h"
#include "retro/project.h"
#include "retro/stage_files.h"
#include "search/hdf5_file.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kColumns = 4;            // of an array of chunks (chunk_db.h)
constexpr std::int64_t kAtATime = 256;          // documents between two looks at signals
constexpr std::int64_t kRowsAtATime = 1 << 16;  // of a merged array

// --- Documents -----------------------------------------------------------------------------------

// The chunks of some documents: rows of kColumns numbers, one behind the other.
struct Chunks {
  std::vector<std::uint32_t> valid, invalid;
};

// Cuts documents of a token file into chunks.
struct Cutter {
  const IndexedDataset& data;
  const Tokenizer& gpt;
  const Tokenizer& bert;
  std::int64_t chunk_length;

  Chunks cut(std::int64_t document) const;
};

Chunks Cutter::cut(std::int64_t document) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.length(document)));
  data.read(document, 0, std::span(tokens));
  if (!tokens.empty() && tokens.back() == gpt.eod()) tokens.pop_back();
  Chunks chunks;
  std::vector<std::int32_t> words;
  for (std::int64_t begin = 0; begin < std::ssize(tokens); begin += chunk_length) {
    const std::int64_t end = std::min(begin + chunk_length, std::ssize(tokens));
    words.clear();
    bert.encode_utf8(gpt.decode_text(std::span(tokens).subspan(
                         static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))),
                     words);
    std::vector<std::uint32_t>& rows = words.empty() ? chunks.invalid : chunks.valid;
    for (const std::int64_t number : {document, begin, end, std::ssize(words)})
      rows.push_back(static_cast<std::uint32_t>(number));
  }
  return chunks;
}

// --- A token file's part of the database ---------------------------------------------------------

class Build {
 public:
  Build(const ChunkDbOptions& options, const RunContext& context);
  ChunkDbSummary run();

 private:
  struct Source {
    std::string prefix, hash;  // of all that its chunks depend on
    IndexedDataset data;       // a sequence is a document; empty ones are none, as to GPTDataset
    std::vector<RetroBlock> blocks;

    std::string file(const RetroBlock& block) const {
      return concat("individual/", prefix, "/", block.file);
    }
  };

  double train_fraction() const;
  std::vector<Source> open_sources() const;
  StageFiles open_stage() const;
  RetroProject::Settings settings() const;
  std::string hash_of(const std::string& prefix, const IndexedDataset& data) const;
  void make_block(const Source& source, const RetroBlock& block, Progress& progress);
  void count(const Source& source, ChunkDbSummary::Dataset& info) const;
  void count_samples();
  void merge(const std::string& name, bool with_documents);
  void merge_documents(Hdf5Writer& file);
  template <class Use>
  void for_rows(std::size_t dataset, ItemRange rows, const Use& use) const;
  ItemRange rows_of(const std::string& name, const ChunkDbSummary::Dataset& info) const;

  const ChunkDbOptions& options_;
  const RunContext& context_;
  RetroProject project_;
  Blend blend_;
  LoadedTokenizer gpt_;
  std::unique_ptr<Tokenizer> bert_;
  std::vector<Source> sources_;
  StageFiles files_;
  ChunkDbSummary summary_;
};

// The datasets and their weights; their names become those of folders.
Blend blend_of(const ChunkDbOptions& options) {
  Blend blend = parse_blend("--retro-gpt-data-path", options.data_path);
  if (blend.weights.empty()) blend.weights.assign(blend.prefixes.size(), 1);
  for (std::size_t i = 0; i < blend.prefixes.size(); ++i) {
    const std::string& prefix = blend.prefixes[i];
    const fs::path path(prefix);
    if (path.is_absolute() || std::ranges::count(path, fs::path("..")) > 0)
      fail(Exit::usage, "--retro-gpt-data-path: ", prefix,
           ": expected a prefix in the project's folder data");
    if (std::ranges::count(blend.prefixes, prefix) > 1)
      fail(Exit::usage, "--retro-gpt-data-path: ", prefix, ": is named twice");
  }
  return blend;
}

// The options of a tokenizer with its files where they are, relative to the project.
TokenizerOptions in_project(TokenizerOptions options, const RetroProject& project) {
  for (std::string* file : {&options.vocab_file, &options.merge_file, &options.model})
    if (!file->empty()) *file = project.path(*file);
  return options;
}

Build::Build(const ChunkDbOptions& options, const RunContext& context)
    : options_(options),
      context_(context),
      project_(options.project),
      blend_(blend_of(options)),
      gpt_([&] {
        std::vector<std::string> prefixes;
        for (const std::string& prefix : blend_.prefixes)
          prefixes.push_back(project_.data_prefix(prefix));
        return shared_tokenizer(prefixes, in_project(options.gpt, project_), "--retro-gpt-");
      }()),
      bert_(make_tokenizer(in_project(options.bert, project_), "--retro-bert-")),
      sources_(open_sources()),
      files_(open_stage()) {
  for (const Source& source : sources_) {
    std::vector<std::string> names;
    for (const RetroBlock& block : source.blocks) names.push_back(block.file);
    files_.refuse_others("individual/" + source.prefix, names);
  }
}

StageFiles Build::open_stage() const {
  train_fraction();  // refuses a split that has none
  const auto& seq_length = options_.run.seq_length;
  if (seq_length && *seq_length % options_.chunk_length != 0)
    fail(Exit::bad_config, "--retro-gpt-seq-length ", *seq_length, ": expected a multiple of the ",
         options_.chunk_length, " tokens of a chunk");
  if (!options_.force) project_.check_settings(settings());
  return {project_.db(), options_.force};
}

// What training and other stages take from config.json.
RetroProject::Settings Build::settings() const {
  // Where the manifests name the tokenizer, its files are theirs.
  return options_.settings(options_.gpt.type.empty() ? gpt_.options : options_.gpt);
}

double Build::train_fraction() const {
  split_ranges("--retro-gpt-split", options_.split, 1);  // refuses what is no split
  const double percent = std::strtod(options_.split.c_str(), nullptr);
  if (!(percent > 0 && percent <= 100))
    fail(Exit::bad_config, "--retro-gpt-split ", options_.split,
         ": begins with the percents of documents that chunks are retrieved from; expected more "
         "than 0 and at most 100");
  return percent / 100;
}

std::vector<Build::Source> Build::open_sources() const {
  std::vector<Source> sources;
  for (const std::string& prefix : blend_.prefixes) {
    Source source{prefix, {}, IndexedDataset(project_.data_prefix(prefix)), {}};
    const IndexedDataset& data = source.data;
    if (data.sequences() == 0) fail(Exit::bad_data, idx_path(data.prefix()), ": has no documents");
    for (std::int64_t d = 0; d < data.documents(); ++d)
      if (data.document_begin(d + 1) - data.document_begin(d) > 1)
        fail(Exit::bad_data, idx_path(data.prefix()), ": document ", d,
             " has several sequences, expected one, as without --split-sentences");
    if (data.sequences() > std::numeric_limits<std::uint32_t>::max())
      fail(Exit::bad_data, idx_path(data.prefix()), ": has ", data.sequences(),
           " documents, more than chunks have numbers for");
    source.hash = hash_of(prefix, data);
    source.blocks = retro_blocks(data.sequences(), options_.document_block);
    sources.push_back(std::move(source));
  }
  return sources;
}

std::string Build::hash_of(const std::string& prefix, const IndexedDataset& data) const {
  const auto manifest = find_manifest(data.prefix());
  Hasher hasher;
  for (const std::string& part :
       {std::string("mt-chunk-db/1"), prefix, data.lengths_hash(),
        manifest ? manifest->bin_hash : hash_file(bin_path(data.prefix())),
        gpt_.tokenizer->identity(), bert_->identity(), std::to_string(options_.chunk_length)})
    hasher.update(part + '\n');
  return hasher.hex();
}

void Build::make_block(const Source& source, const RetroBlock& block, Progress& progress) {
  const std::string file = source.file(block), made_of = concat(source.hash, " ", block.file);
  const ItemRange documents = block.items;
  if (files_.has(file, made_of, context_.log)) {
    ++summary_.found;
    return progress.add(static_cast<std::uint64_t>(documents.size()));
  }
  const Cutter cutter{source.data, *gpt_.tokenizer, *bert_, options_.chunk_length};
  Chunks chunks;
  std::vector<std::uint64_t> offsets;
  std::vector<Chunks> some;
  for (std::int64_t begin = documents.begin; begin < documents.end; begin += kAtATime) {
    const std::int64_t count = std::min(kAtATime, documents.end - begin);
    some.assign(static_cast<std::size_t>(count), {});
    parallel_for_ordered_errors(
        count, [&](std::int64_t i) { some[static_cast<std::size_t>(i)] = cutter.cut(begin + i); });
    for (std::int64_t i = 0; i < count; ++i) {
      const Chunks& of = some[static_cast<std::size_t>(i)];
      chunks.valid.insert(chunks.valid.end(), of.valid.begin(), of.valid.end());
      chunks.invalid.insert(chunks.invalid.end(), of.invalid.begin(), of.invalid.end());
      offsets.push_back(static_cast<std::uint64_t>(begin + i));
      offsets.push_back(chunks.valid.size() / kColumns);
    }
    progress.add(static_cast<std::uint64_t>(count));
    context_.checkpoint();
  }
  make_folder(parent_directory(files_.path(file)));
  Hdf5Writer writer(files_.path(file), true);
  const auto rows_of = [](const auto& numbers, std::int64_t columns) {
    return std::ssize(numbers) / columns;
  };
  writer.write<std::uint32_t>(
      "chunks_valid", {Hdf5Type::u32, rows_of(chunks.valid, kColumns), kColumns}, chunks.valid);
  writer.write<std::uint32_t>("chunks_invalid",
                              {Hdf5Type::u32, rows_of(chunks.invalid, kColumns), kColumns},
                              chunks.invalid);
  writer.write<std::uint64_t>("doc_offsets", {Hdf5Type::u64, rows_of(offsets, 2), 2}, offsets);
  files_.commit(writer, file, made_of);
  ++summary_.made;
}

// --- The database --------------------------------------------------------------------------------

// Calls use(numbers) for these rows of a dataset's valid chunks, some at a time.
template <class Use>
void Build::for_rows(std::size_t dataset, ItemRange rows, const Use& use) const {
  const Source& source = sources_[dataset];
  std::int64_t at = 0;  // rows before the block
  for (const RetroBlock& block : source.blocks) {
    const Hdf5Reader reader(files_.path(source.file(block)));
    const std::int64_t count = reader.rows("chunks_valid", Hdf5Type::u32, kColumns);
    const ItemRange here = {std::max(rows.begin, at), std::min(rows.end, at + count)};
    for (std::int64_t begin = here.begin; begin < here.end; begin += kRowsAtATime)
      use(reader.read<std::uint32_t>("chunks_valid", begin - at,
                                     std::min(kRowsAtATime, here.end - begin)));
    at += count;
    if (at >= rows.end) return;
    context_.checkpoint();
  }
}

void Build::count(const Source& source, ChunkDbSummary::Dataset& info) const {
  info.documents = source.data.sequences();
  info.train_documents =
      static_cast<std::int64_t>(train_fraction() * static_cast<double>(info.documents));
  for (const RetroBlock& block : source.blocks) {
    const Hdf5Reader reader(files_.path(source.file(block)));
    info.chunks += reader.rows("chunks_valid", Hdf5Type::u32, kColumns);
    info.invalid += reader.rows("chunks_invalid", Hdf5Type::u32, kColumns);
    // Chunks of its documents for training: as many as the last one's offset.
    const std::int64_t last = std::min(info.train_documents, block.items.end) - 1;
    if (last >= block.items.begin) {
      reader.rows("doc_offsets", Hdf5Type::u64, 2);
      info.train += static_cast<std::int64_t>(
          reader.read<std::uint64_t>("doc_offsets", last - block.items.begin, 1)[1]);
    }
  }
}

void Build::count_samples() {
  double ratios = 0;
  for (const ChunkDbSummary::Dataset& info : summary_.datasets) ratios += info.ratio;
  for (ChunkDbSummary::Dataset& info : summary_.datasets) {
    info.sampled = static_cast<std::int64_t>(static_cast<double>(options_.index_samples) *
                                             info.ratio / ratios);
    if (info.sampled > info.train)
      fail(Exit::bad_config, "--retro-index-ntrain ", options_.index_samples, ": asks ",
           info.prefix, " for ", info.sampled, " chunks, and its documents for training have ",
           info.train);
  }
}

ItemRange Build::rows_of(const std::string& name, const ChunkDbSummary::Dataset& info) const {
  if (name == "sampled") return {0, info.sampled};
  if (name == "train") return {0, info.train};
  return {info.train, info.chunks};
}

void Build::merge(const std::string& name, bool with_documents) {
  const std::string file = concat("merged/", name, ".hdf5");
  std::int64_t rows = 0;
  Hasher hasher;
  for (std::size_t d = 0; d < sources_.size(); ++d) {
    const ChunkDbSummary::Dataset& info = summary_.datasets[d];
    const ItemRange range = rows_of(name, info);
    rows += range.size();
    hasher.update(concat(range.begin, " ", range.end, " ", info.train_documents, "\n"));
    for (const RetroBlock& block : sources_[d].blocks)
      hasher.update(files_.hash(sources_[d].file(block)));
  }
  if (files_.has(file, hasher.hex(), context_.log)) {
    ++summary_.found;
    return;
  }
  make_folder(files_.path("merged"));
  Hdf5Writer writer(files_.path(file), true);
  writer.begin("chunks", {Hdf5Type::u32, rows, kColumns + 1});
  for (std::size_t d = 0; d < sources_.size(); ++d)
    for_rows(d, rows_of(name, summary_.datasets[d]), [&](const std::vector<std::uint32_t>& some) {
      std::vector<std::uint32_t> numbered;
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (i % kColumns == 0) numbered.push_back(static_cast<std::uint32_t>(d));
        numbered.push_back(some[i]);
      }
      writer.append<std::uint32_t>(numbered);
    });
  if (with_documents) merge_documents(writer);
  const std::array<std::uint64_t, 1> written = {static_cast<std::uint64_t>(rows)};
  writer.write<std::uint64_t>("n_written", {Hdf5Type::u64, 1}, written);
  files_.commit(writer, file, hasher.hex());
  ++summary_.made;
}

// Writes `doc_offsets` of the documents for training, of all datasets.
void Build::merge_documents(Hdf5Writer& writer) {
  std::int64_t documents = 0;
  for (const ChunkDbSummary::Dataset& info : summary_.datasets) documents += info.train_documents;
  writer.begin("doc_offsets", {Hdf5Type::u64, documents, 3});
  std::uint64_t before = 0;  // chunks of the blocks before
  for (std::size_t d = 0; d < sources_.size(); ++d) {
    for (const RetroBlock& block : sources_[d].blocks) {
      const std::int64_t end = std::min(summary_.datasets[d].train_documents, block.items.end);
      if (end <= block.items.begin) break;
      const Hdf5Reader reader(files_.path(sources_[d].file(block)));
      reader.rows("doc_offsets", Hdf5Type::u64, 2);
      const auto offsets = reader.read<std::uint64_t>("doc_offsets", 0, end - block.items.begin);
      std::vector<std::uint64_t> rows;
      for (std::size_t i = 0; i < offsets.size(); i += 2)
        rows.insert(rows.end(),
                    {static_cast<std::uint64_t>(d), offsets[i], before + offsets[i + 1]});
      writer.append<std::uint64_t>(rows);
      before = rows.back();
    }
  }
}

ChunkDbSummary Build::run() {
  std::int64_t documents = 0;
  for (const Source& source : sources_) documents += source.data.sequences();
  Progress progress(context_.log, "cutting", "documents", static_cast<std::uint64_t>(documents));
  for (std::size_t d = 0; d < sources_.size(); ++d) {
    for (const RetroBlock& block : sources_[d].blocks) make_block(sources_[d], block, progress);
    summary_.datasets.push_back({.ratio = blend_.weights[d], .prefix = blend_.prefixes[d]});
    count(sources_[d], summary_.datasets.back());
  }
  progress.finish();
  count_samples();
  project_.add_settings(settings(), options_.force);
  merge("sampled", false);
  merge("train", true);
  merge("valid", false);
  JsonWriter json;
  json.begin_array();
  for (const ChunkDbSummary::Dataset& info : summary_.datasets) info.write(json);
  json.end_array();
  write_file_atomically(files_.path("indexed_dataset_infos.json"), indented_json(json.text()),
                        true);
  return summary_;
}

}  // namespace

RetroProject::Settings ChunkDbOptions::settings(const TokenizerOptions& gpt_tokenizer) const {
  const auto text = [](const std::string& value) {
    return value.empty() ? std::string("null") : JsonWriter().value(value).text();
  };
  std::string paths = "null";
  if (!data_path.empty()) {
    const Blend blend = blend_of(*this);
    JsonWriter words;
    words.begin_array();
    for (std::size_t i = 0; i < blend.prefixes.size(); ++i)
      words.value(JsonWriter().value(blend.weights[i]).text()).value(blend.prefixes[i]);
    words.end_array();
    paths = words.text();
  }
  RetroProject::Settings settings = run.settings();
  settings.insert({{"retro_bert_tokenizer_type", text(bert.type)},
                   {"retro_bert_vocab_file", text(bert.vocab_file)},
                   {"retro_block_size", chunk_block ? std::to_string(*chunk_block) : "null"},
                   {"retro_gpt_chunk_length", std::to_string(chunk_length)},
                   {"retro_gpt_data_path", paths},
                   {"retro_gpt_merge_file", text(gpt_tokenizer.merge_file)},
                   {"retro_gpt_split", text(split)},
                   {"retro_gpt_tokenizer_model", text(gpt_tokenizer.model)},
                   {"retro_gpt_tokenizer_type", text(gpt_tokenizer.type)},
                   {"retro_gpt_vocab_file", text(gpt_tokenizer.vocab_file)}});
  return settings;
}

ChunkDbSummary build_chunk_db(const ChunkDbOptions& options, const RunContext& context) {
  ChunkDbSummary summary;
  Workers(options.threads).run([&] { summary = Build(options, context).run(); });
  return summary;
}

}  // namespace mt
