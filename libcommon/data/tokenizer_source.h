// Which tokenizer belongs to a token file: its manifest says so, and the command line may say it
// again, but they must not disagree.
#pragma once

#include <memory>
#include <string>

#include "data/manifest.h"
#include "text/tokenizer.h"

namespace mt {

// What a manifest keeps of a tokenizer; its files by their absolute paths.
Manifest::Tokenizer describe_tokenizer(const TokenizerOptions& options, const Tokenizer& tokenizer);

// The options that load it again.
TokenizerOptions tokenizer_options(const Manifest::Tokenizer& tokenizer);

// The tokenizer of the dataset `prefix`: that of `options` where its type is given, else the one
// that the manifest names.  Throws Exit::bad_config where neither is known, or where the tokenizer
// is not the one that made the dataset.
std::unique_ptr<Tokenizer> dataset_tokenizer(const std::string& prefix,
                                             const TokenizerOptions& options);

}  // namespace mt
