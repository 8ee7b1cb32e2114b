// The texts of an evaluation, one after another: the documents of a token file PREFIX.{bin,idx};
// the `text` members of JSON lines (recognised by a "{" in front); or a plain text file as one
// text.  Text may be packed with gzip, bzip2 or zstd, and "-" is stdin.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace mt {

struct EvalText {
  std::span<const std::int32_t> tokens;
  std::int64_t words = 0, bytes = 0;  // of the text; of a list the sums
  std::uint64_t read = 0;             // of input_bytes(), with this text
};

// The bytes of an input as it is stored, 0 where it is not a file.
std::uint64_t input_bytes(const std::string& input);

// The words of a text as Megatron counts them: the parts between single blanks (two blanks in a row
// hold an empty one, a line end none) once white space at both ends is gone; none in white space.
std::int64_t count_words(std::string_view text);

// Exit::bad_config where the token file's manifest names another tokenizer.
void refuse_other_tokenizer(const std::string& prefix, const Tokenizer& tokenizer);

// Calls `visit` for every text.  Bad JSON and tokens beyond the first `vocab_size` are
// Exit::bad_data and name file and line or document.
void for_each_text(const std::string& input, const Tokenizer& tokenizer, std::int64_t vocab_size,
                   const std::function<void(const EvalText&)>& visit);

}  // namespace mt
