#include "data/tokenizer_source.h"

#include <filesystem>

#include "base/error.h"

namespace mt {
namespace {

// The options that name files, as a manifest calls them.
template <class Options, class Body>
void for_each_file(Options& options, Body&& body) {
  body("vocab-file", options.vocab_file);
  body("merge-file", options.merge_file);
}

}  // namespace

Manifest::Tokenizer describe_tokenizer(const TokenizerOptions& options,
                                       const Tokenizer& tokenizer) {
  Manifest::Tokenizer result{std::string(tokenizer.type()),
                             tokenizer.identity(),
                             tokenizer.vocab_size(),
                             tokenizer.eod(),
                             {}};
  for_each_file(options, [&](const char* name, const std::string& path) {
    if (!path.empty())
      result.files.emplace_back(name, std::filesystem::absolute(path).lexically_normal().string());
  });
  return result;
}

TokenizerOptions tokenizer_options(const Manifest::Tokenizer& tokenizer) {
  TokenizerOptions options;
  options.type = tokenizer.type;
  for_each_file(options, [&](const std::string& name, std::string& path) {
    for (const auto& [option, value] : tokenizer.files)
      if (option == name) path = value;
  });
  return options;
}

std::unique_ptr<Tokenizer> dataset_tokenizer(const std::string& prefix,
                                             const TokenizerOptions& options) {
  const std::optional<Manifest> manifest = find_manifest(prefix);
  const bool known = manifest && manifest->tokenizer;
  check_no_files_without_type(options);
  if (options.type.empty() && !known)
    fail(Exit::bad_config, manifest_path(prefix),
         ": names no tokenizer; give --tokenizer-type and its files");
  auto tokenizer =
      make_tokenizer(options.type.empty() ? tokenizer_options(*manifest->tokenizer) : options);
  if (known && tokenizer->identity() != manifest->tokenizer->identity)
    fail(Exit::bad_config, manifest_path(prefix), ": the dataset was made by the ",
         manifest->tokenizer->type, " ", manifest->tokenizer->identity, ", this is the ",
         tokenizer->type(), " ", tokenizer->identity());
  return tokenizer;
}

}  // namespace mt
