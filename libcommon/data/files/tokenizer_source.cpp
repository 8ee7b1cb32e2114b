#include "data/files/tokenizer_source.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/files/indexed_dataset.h"
#include "data/files/manifest.h"

namespace mt {

LoadedTokenizer shared_tokenizer(std::span<const std::string> prefixes,
                                 const TokenizerOptions& options, std::string_view option_prefix) {
  std::vector<std::optional<Manifest>> manifests;
  for (const std::string& prefix : prefixes) {
    require_token_files(prefix);
    manifests.push_back(find_manifest(prefix));
  }
  const auto known = [](const auto& manifest) { return manifest && manifest->tokenizer; };
  const auto first = std::ranges::find_if(manifests, known);
  check_no_files_without_type(options, option_prefix);
  if (options.type.empty() && first == manifests.end())
    fail(Exit::bad_config, manifest_path(prefixes.front()), ": names no tokenizer; give ",
         option_prefix, "tokenizer-type and its files");
  LoadedTokenizer result{options, nullptr};
  if (options.type.empty()) {
    result.options = tokenizer_options(*(*first)->tokenizer);
    result.options.extra_ids = options.extra_ids;  // which no token file depends on
  }
  result.tokenizer = make_tokenizer(result.options, option_prefix);
  for (std::size_t i = 0; i < manifests.size(); ++i)
    if (known(manifests[i]) && result.tokenizer->identity() != manifests[i]->tokenizer->identity)
      fail(Exit::bad_config, manifest_path(prefixes[i]), ": the dataset was made by the ",
           manifests[i]->tokenizer->type, " ", manifests[i]->tokenizer->identity, ", this is the ",
           result.tokenizer->type(), " ", result.tokenizer->identity());
  return result;
}

std::unique_ptr<Tokenizer> dataset_tokenizer(const std::string& prefix,
                                             const TokenizerOptions& options) {
  return shared_tokenizer({&prefix, 1}, options).tokenizer;
}

}  // namespace mt
