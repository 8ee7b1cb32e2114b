// Looking into token files: `mt-preprocess cat`, `check` and `verify`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "data/files/indexed_dataset.h"
#include "text/tokenizer.h"

namespace mt {

// One document as a line of JSON.  Without a tokenizer its ids: [1,2], of a document of several
// sequences [[1,2],[3]].  With one its texts, without a final end-of-document token, {"text":"..."}
// or {"text":["...","..."]}, which preprocess() turns into the same document again; of texts with
// images {"text":"...","image_bytes":123}.
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

// What `check` prints of a token file, without the newline; as JSON of schema mt-check/1.
std::string summary_text(const IndexedDataset& data);
std::string summary_json(const IndexedDataset& data);

// What `verify` finds wrong, a line each: hashes, counts and type that differ from the manifest,
// and tokens outside of the tokenizer's vocabulary.  Throws as IndexedDataset and read_manifest()
// do.
std::vector<std::string> differences_from_manifest(const std::string& prefix, const Log& log = {});

// What it prints of them, without the last newline; as JSON of schema mt-verify/1.
std::string verdict_text(const std::string& prefix, const std::vector<std::string>& differences);
std::string verdict_json(const std::string& prefix, const std::vector<std::string>& differences);

}  // namespace mt
