// Which tokenizer belongs to a token file: its manifest says so, and the command line may say it
// again, but they must not disagree.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace mt {

// A tokenizer and the options that load it.
struct LoadedTokenizer {
  TokenizerOptions options;
  std::unique_ptr<Tokenizer> tokenizer;
};

// The tokenizer of datasets that are read together: that of `options` where its type is given, else
// the one that the first manifest names.  Throws Exit::bad_config where neither is known, or where
// one of the datasets was made by another.  Messages name its options with `option_prefix`.
LoadedTokenizer shared_tokenizer(std::span<const std::string> prefixes,
                                 const TokenizerOptions& options,
                                 std::string_view option_prefix = "--");

// The tokenizer of one dataset, found as shared_tokenizer() does.
std::unique_ptr<Tokenizer> dataset_tokenizer(const std::string& prefix,
                                             const TokenizerOptions& options);

}  // namespace mt
