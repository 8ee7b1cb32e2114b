// LineEncoder: the lines of a block to the documents of one token file for each key, as the file
// has them.  Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/input/line_reader.h"
#include "data/corpus/bad_lines.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/sentence_splitter.h"
#include "data/files/stored_tokens.h"
#include "data/files/token_type.h"
#include "text/tokenizer.h"

namespace mt {

// One key's share of a block, as IndexedDatasetWriter::add_documents() takes it.
struct EncodedKey {
  StoredTokens tokens;                 // of all sequences
  std::vector<std::int32_t> ids;       // the last of them, on their way there
  std::vector<std::int32_t> lengths;   // of all sequences, in tokens
  std::vector<std::size_t> documents;  // how many sequences each has
  // How long these three were before the line at work.
  std::size_t ids_before = 0, lengths_before = 0, documents_before = 0;
};

struct EncodedBlock {
  std::vector<EncodedKey> keys;
  std::vector<BadLine> bad;
  std::int64_t lines = 0;
  std::optional<JsonLineParser> parser = {};  // made for an earlier block, used again
};

class LineEncoder {
 public:
  struct Options {
    std::vector<std::string> json_keys = {"text"};
    bool text_lines = false;   // a line is a text, with its newline, and there is one key
    bool prepend_bos = false;  // begins every document that is not empty, unless its tokenizer did
    bool append_eod = false;   // ends every document that is not empty
    TokenType type = TokenType::i32;
    std::int64_t pad_to = 0;  // each document is one sequence; with append_eod it is cut or filled
                              // with end-of-document tokens to so many; 0: as it is
  };
  // The tokenizer and the splitter, which may be null, must outlive it.
  LineEncoder(const Options& options, const Tokenizer& tokenizer, const SentenceSplitter* splitter);

  void encode(const LineBlock& block, EncodedBlock& out) const;  // overwrites `out`

 private:
  void encode_json(const LineBlock& block, EncodedBlock& out) const;
  void encode_text(const LineBlock& block, EncodedBlock& out) const;
  // Runs add(), which adds a line's documents.  Says why the tokenizer does not take a text of the
  // line, of which nothing is added then; empty: it does.
  template <class Add>
  std::string add_line(EncodedBlock& out, const Add& add) const;
  // The texts are well-formed UTF-8.  add_document() returns how many tokens it has added.
  std::size_t add_document(std::span<const std::string_view> texts, EncodedKey& out) const;
  void add_padded(std::string_view text, EncodedKey& out) const;
  void store_ids(EncodedKey& out) const;
  // Appends a text's ids, and returns how many.
  std::size_t add_text(std::string_view text, std::vector<std::int32_t>& ids) const;

  Options options_;
  const Tokenizer& tokenizer_;
  const SentenceSplitter* splitter_;
  // Tokens at both ends of what the tokenizer makes of a text that a sentence does without.
  std::size_t in_front_ = 0, behind_ = 0;
};

}  // namespace mt
