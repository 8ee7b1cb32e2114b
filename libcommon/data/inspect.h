// Looking into token files: `mt-preprocess cat`, `check` and `verify`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/indexed_dataset.h"
#include "text/tokenizer.h"

namespace mt {

// One document as a line of JSON.  Without a tokenizer its ids: [1,2], of a document of several
// sequences [[1,2],[3]].  With one its texts, without a final end-of-document token: {"text":"..."}
// or
// {"text":["...","..."]}, which preprocess() turns into the same document again.
std::string document_line(const IndexedDataset& data, std::int64_t document,
                          const Tokenizer* tokenizer);

struct DocumentChoice {
  std::optional<std::int64_t> head;    // the first so many
  std::optional<std::int64_t> sample;  // so many, uniformly from those, in their order
  std::uint32_t seed = 1234;
};

// Calls body(document) for the chosen ones, all by default.
void for_each_document(std::int64_t documents, const DocumentChoice& choice,
                       const std::function<void(std::int64_t)>& body);

// What verify() finds wrong, a line each: hashes, counts and type that differ from the manifest,
// and tokens outside of the tokenizer's vocabulary.  Throws as IndexedDataset and read_manifest()
// do.
std::vector<std::string> differences_from_manifest(const std::string& prefix);

}  // namespace mt
