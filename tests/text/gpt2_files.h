// Small vocabularies for tests, written into a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tests/base/scratch.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/gpt2_bpe.h"

namespace mt {

class Gpt2Files {
 public:
  Gpt2Files(const std::string& vocabulary, const std::string& merges) {
    write_file_atomically(vocab(), vocabulary, true);
    write_file_atomically(this->merges(), merges, true);
  }
  std::string vocab() const { return folder_.path("vocab.json"); }
  std::string merges() const { return folder_.path("merges.txt"); }
  Gpt2Bpe load() const { return Gpt2Bpe(vocab(), merges()); }
  // What loading throws, without the folder's name.
  std::string load_error() const {
    std::string line = error_of([&] { load(); });
    const std::string folder = folder_.path("");
    for (std::size_t at; (at = line.find(folder)) != std::string::npos;)
      line.erase(at, folder.size());
    return line;
  }

 private:
  Scratch folder_;
};

// The bytes with their value as id, then `tokens` and <|endoftext|>.
inline std::string vocabulary_of(const std::vector<std::string>& tokens) {
  JsonWriter json;
  json.begin_object();
  for (int byte = 0; byte < 256; ++byte)
    json.member(to_byte_chars(std::string(1, static_cast<char>(byte))), byte);
  int id = 256;
  for (const std::string& token : tokens) json.member(token, id++);
  return json.member("<|endoftext|>", id).end_object().text();
}

// Seven merges, for words like "lower" and "newer".
inline const std::vector<std::string> kLowTokens = {"lo", "low", "er", "Ġlow", "ne", "new", "Ġnew"};
inline const std::string kLowMerges = "#version: 0.2\nl o\nlo w\ne r\nĠ low\nn e\nne w\nĠ new\n";

// By both ways to encode, where both may be gone.
inline std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids, known;
  tokenizer.encode(text, ids);
  if (!is_valid_utf8(text)) return ids;
  tokenizer.encode_utf8(text, known);
  EXPECT_EQ(known, ids);
  return ids;
}

}  // namespace mt
