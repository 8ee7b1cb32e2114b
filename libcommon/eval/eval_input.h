// The texts of an evaluation, one after another: the documents of a token file PREFIX.{bin,idx};
// the `text` members of JSON lines (recognised by a "{" in front); or a plain text file as one
// text.  Text may be packed with gzip or zstd, and "-" is stdin.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace mt {

struct EvalText {
  std::span<const std::int32_t> tokens;
  std::int64_t bytes = 0;  // of the text
};

// Calls `visit` for every text.  Bad JSON and tokens that the tokenizer does not have are
// Exit::bad_data and name file and line or document.
void for_each_text(const std::string& input, const Tokenizer& tokenizer,
                   const std::function<void(const EvalText&)>& visit);

}  // namespace mt
