#include "data/files/rearrange.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "data/files/indexed_dataset_writer.h"
#include "data/samples/split.h"

namespace mt {
namespace {

constexpr std::int64_t kStepDocuments = 1 << 16;  // between two looks at signals

void check_output(const std::string& prefix) {
  if (prefix.empty()) fail(Exit::usage, "--output-prefix: expected a name");
  if (prefix == "-")
    fail(Exit::usage, "--output-prefix -: token files are two, which stdout cannot take");
}

// The files of token files.
std::vector<std::string> files_of(const std::vector<std::string>& prefixes) {
  std::vector<std::string> files;
  for (const std::string& prefix : prefixes)
    files.insert(files.end(), {bin_path(prefix), idx_path(prefix), manifest_path(prefix)});
  return files;
}

// What the sources' manifests say together.
Manifest merged_manifest(const std::vector<std::string>& prefixes, const RunContext& context) {
  Manifest merged;
  merged.version = context.version;
  merged.arguments = context.arguments;
  std::string known, unknown;  // whose tokenizer it is, and whose nobody knows
  for (const std::string& prefix : prefixes) {
    const std::optional<Manifest> manifest = find_manifest(prefix);
    if (manifest)
      merged.inputs.insert(merged.inputs.end(), manifest->inputs.begin(), manifest->inputs.end());
    if (!manifest || !manifest->tokenizer) {
      if (unknown.empty()) unknown = prefix;
      continue;
    }
    if (!merged.tokenizer) {
      merged.tokenizer = manifest->tokenizer;
      known = prefix;
    } else if (merged.tokenizer->identity != manifest->tokenizer->identity) {
      fail(Exit::bad_config, manifest_path(prefix), ": made by the ", manifest->tokenizer->type,
           " ", manifest->tokenizer->identity, ", ", known, " by the ", merged.tokenizer->type, " ",
           merged.tokenizer->identity);
    }
  }
  if (merged.tokenizer && !unknown.empty())
    context.log.warn(
        concat(unknown, ": no manifest names its tokenizer, taken to be that of ", known));
  return merged;
}

// The token files of a folder, without .bin or .idx; manifests may stand beside them.
std::vector<std::string> prefixes_in(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    fail(Exit::no_input, folder, ": not a folder, expected one with token files");
  std::set<std::string> prefixes;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string(), end = entry.path().extension().string();
    std::error_code none;
    if (entry.is_directory(none) || path.ends_with(manifest_path(""))) continue;
    if (end != ".bin" && end != ".idx")
      fail(Exit::bad_data, path, ": neither .bin, .idx nor .manifest.json");
    if (!entry.exists(none)) fail(Exit::no_input, path, ": is a link to nothing");
    const std::string prefix = path.substr(0, path.size() - end.size());
    const std::string other = end == ".bin" ? idx_path(prefix) : bin_path(prefix);
    if (!std::filesystem::exists(other)) fail(Exit::no_input, other, ": missing beside ", path);
    prefixes.insert(prefix);
  }
  if (prefixes.empty()) fail(Exit::no_input, folder, ": no token files");
  return {prefixes.begin(), prefixes.end()};
}

void copy(const IndexedDataset& from, ItemRange documents, IndexedDatasetWriter& writer,
          Progress& progress, const RunContext& context) {
  for (std::int64_t at = documents.begin; at < documents.end; at += kStepDocuments) {
    const ItemRange step = {at, std::min(documents.end, at + kStepDocuments)};
    writer.add_documents(from, step);
    progress.add(static_cast<std::uint64_t>(step.size()));
    context.checkpoint();
  }
}

// The ranges of the parts and their names behind OUTPUT_.
struct Part {
  std::string name;
  ItemRange documents;
};
std::vector<Part> parts_of(const SplitOptions& options, std::int64_t documents) {
  std::vector<Part> parts;
  if (options.weights.empty() == !options.documents)
    fail(Exit::usage, "expected --split or --documents, and one of them");
  if (!options.weights.empty()) {
    const auto ranges = split_ranges("--split", options.weights, documents);
    for (std::size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i]) parts.push_back({i == 0 ? "train" : i == 1 ? "valid" : "test", *ranges[i]});
    return parts;
  }
  for (std::int64_t at = 0; at < documents || at == 0; at += *options.documents) {
    const std::string number = std::to_string(parts.size());
    parts.push_back({std::string(number.size() < 5 ? 5 - number.size() : 0, '0') + number,
                     {at, std::min(documents, at + *options.documents)}});
  }
  return parts;
}

}  // namespace

void MergeOptions::add_to(CommandLine& cl) {
  cl.positionals("PREFIX", &prefixes, "token files, without .bin or .idx, in the order wanted", 0);
  cl.option("--input", &input, "DIR", "all token files of a folder instead, in the order of names");
  cl.option("--output-prefix", &output_prefix, "PREFIX", "write PREFIX.bin, .idx, .manifest.json");
  cl.required("--output-prefix");
  cl.flag("--force", &overwrite, "overwrite existing files");
  cl.implied("--multimodal", "a token file's size says whether it has modes");
}

void merge_datasets(const MergeOptions& options, const RunContext& context) {
  check_output(options.output_prefix);
  if (options.input.empty() == options.prefixes.empty())
    fail(Exit::usage, "expected token files or --input with their folder, and one of them");
  const std::vector<std::string> prefixes =
      options.input.empty() ? options.prefixes : prefixes_in(options.input);
  refuse_inputs(files_of({options.output_prefix}), files_of(prefixes));
  std::vector<IndexedDataset> sources;
  std::int64_t documents = 0;
  for (const std::string& prefix : prefixes) {
    sources.emplace_back(prefix);
    documents += sources.back().documents();
  }
  const Manifest manifest = merged_manifest(prefixes, context);
  // A file without sequences does not say whether it is of those with modes.
  const auto tells = std::ranges::find_if(
      sources, [](const IndexedDataset& source) { return source.sequences() > 0; });
  IndexedDatasetWriter writer(options.output_prefix, sources.front().type(),
                              {.overwrite = options.overwrite,
                               .multimodal = tells != sources.end() && tells->multimodal()});
  Progress progress(context.log, "merge", "documents", static_cast<std::uint64_t>(documents));
  for (const IndexedDataset& source : sources)
    copy(source, {0, source.documents()}, writer, progress, context);
  progress.finish();
  writer.finish();
  writer.commit(manifest);
}

void SplitOptions::add_to(CommandLine& cl) {
  cl.positional("PREFIX", &input_prefix, "token file, without .bin or .idx");
  cl.option("--output-prefix", &output_prefix, "PREFIX", "what the names of the parts begin with");
  cl.required("--output-prefix");
  cl.option("--split", &weights, "A,B,C",
            "proportions of PREFIX_train, PREFIX_valid and PREFIX_test, as 98,1,1");
  cl.option("--documents", &documents, "N", "documents in each of PREFIX_00000, PREFIX_00001 ...",
            at_least(1));
  cl.flag("--force", &overwrite, "overwrite existing files");
}

void split_dataset(const SplitOptions& options, const RunContext& context) {
  check_output(options.output_prefix);
  const IndexedDataset source(options.input_prefix);
  const std::vector<Part> parts = parts_of(options, source.documents());
  for (const Part& part : parts)
    refuse_inputs(files_of({options.output_prefix + "_" + part.name}),
                  files_of({options.input_prefix}));
  const Manifest manifest = merged_manifest({options.input_prefix}, context);
  Progress progress(context.log, "split", "documents",
                    static_cast<std::uint64_t>(source.documents()));
  std::vector<IndexedDatasetWriter> writers;
  for (const Part& part : parts) {
    writers.emplace_back(options.output_prefix + "_" + part.name, source.type(),
                         IndexedDatasetWriter::Options{.overwrite = options.overwrite,
                                                       .multimodal = source.multimodal()});
    copy(source, part.documents, writers.back(), progress, context);
    writers.back().finish();
    writers.back().set_aside();
  }
  progress.finish();
  for (IndexedDatasetWriter& writer : writers) writer.commit(manifest);
}

}  // namespace mt
