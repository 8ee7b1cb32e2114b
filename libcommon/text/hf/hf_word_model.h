// HfWordModel: a model whose words are cut one by one, short ones once and then found in a cache.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_merges.h"
#include "text/bpe/piece_cache.h"
#include "text/hf/hf_model.h"
#include "text/sentencepiece/unigram.h"

namespace mt {

class HfWordModel : public HfModel {
 public:
  using HfModel::encode;
  void encode(const HfWords& words, std::vector<std::int32_t>& ids) const override;

 protected:
  // What one thread needs for its words; reused, it allocates nothing more.
  struct Scratch {
    std::vector<BpeMerges::Symbol> symbols;
    Unigram<double>::Scratch unigram;
    std::vector<TextSegment> segments;
  };
  // Appends the ids of one word.
  virtual void cut(std::string_view word, Scratch& scratch,
                   std::vector<std::int32_t>& ids) const = 0;

 private:
  mutable PieceCachePool caches_;
};

// The id of each byte's token <0xHH>; -1 where there is none.
std::vector<std::int32_t> hf_byte_tokens(const HfVocabulary& vocabulary);

}  // namespace mt
