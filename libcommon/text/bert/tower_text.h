// TowerText: texts as the towers of retrieval read them (Megatron-LM core_v0.12.1,
// megatron/legacy/data/biencoder_dataset_utils.py):
//   a question   [CLS] text [SEP]
//   a passage    [CLS] title [SEP] text [SEP]
// What is too long loses its end, but for the last [SEP].  Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

class TowerText {
 public:
  // Of at most so many ids.  Exit::bad_config where the tokenizer lacks [CLS], [SEP] or padding.
  // It must outlive this.
  TowerText(const Tokenizer& tokenizer, std::int64_t max_length);

  std::vector<std::int32_t> question(std::string_view text) const;
  std::vector<std::int32_t> passage(std::string_view title, std::string_view text) const;
  std::int32_t padding() const { return special_.pad; }

 private:
  void add(std::string_view text, std::vector<std::int32_t>& ids) const;
  void end(std::vector<std::int32_t>& ids) const;

  const Tokenizer& tokenizer_;
  std::size_t max_length_;
  SpecialTokens special_;
  std::size_t before_, behind_;  // tokens that the tokenizer puts around a text by itself
};

}  // namespace mt
