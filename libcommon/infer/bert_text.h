// BertText: texts as a BERT reads them, [CLS] text [SEP].
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

class BertText {
 public:
  // Exit::bad_config where the tokenizer has no [CLS] or [SEP].  It must outlive this.
  explicit BertText(const Tokenizer& tokenizer);

  // Some tokenizers put both around a text themselves.
  std::vector<std::int32_t> ids(std::string_view text) const;

 private:
  const Tokenizer& tokenizer_;
  std::int32_t cls_, sep_;
};

}  // namespace mt
