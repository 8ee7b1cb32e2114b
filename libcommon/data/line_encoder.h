// LineEncoder: the lines of a block to the documents of one token file for each key.  Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/bad_lines.h"
#include "data/line_reader.h"
#include "data/sentence_splitter.h"
#include "text/tokenizer.h"

namespace mt {

// One key's share of a block: documents[i] sequences of document i, lengths of all, tokens of all.
struct EncodedKey {
  std::vector<std::int32_t> tokens, lengths;
  std::vector<std::size_t> documents;
};

struct EncodedBlock {
  std::vector<EncodedKey> keys;
  std::vector<BadLine> bad;
  std::int64_t lines = 0;
};

class LineEncoder {
 public:
  struct Options {
    std::vector<std::string> json_keys = {"text"};
    bool text_lines = false;   // a line is a text, with its newline, and there is one key
    bool prepend_bos = false;  // begins every document that is not empty, unless its tokenizer did
    bool append_eod = false;   // ends every document that is not empty
    std::int64_t pad_to = 0;   // each document is one sequence; with append_eod it is cut or filled
                               // with end-of-document tokens to so many; 0: as it is
  };
  // The tokenizer and the splitter, which may be null, must outlive it.
  LineEncoder(const Options& options, const Tokenizer& tokenizer, const SentenceSplitter* splitter)
      : options_(options), tokenizer_(tokenizer), splitter_(splitter) {}

  EncodedBlock encode(const LineBlock& block) const;

 private:
  void encode_json(const LineBlock& block, EncodedBlock& out) const;
  void encode_text(const LineBlock& block, EncodedBlock& out) const;
  void add_document(const std::vector<std::string_view>& texts, EncodedKey& out) const;
  void add_padded(std::string_view text, EncodedKey& out) const;

  Options options_;
  const Tokenizer& tokenizer_;
  const SentenceSplitter* splitter_;
};

}  // namespace mt
