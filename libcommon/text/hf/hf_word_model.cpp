#include "text/hf/hf_word_model.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

void HfWordModel::encode(const HfWords& words, std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(caches_);
  Scratch scratch;
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    const std::string_view word = std::string_view(words.text).substr(begin, end - begin);
    if (word.size() > PieceCache::kMaxBytes) {
      cut(word, scratch, ids);
      begin = end;
      continue;
    }
    const PieceCache::Key key = PieceCache::key(words.text, begin, word.size());
    PieceCache::Entry& entry = (*cache).entry(key);
    begin = end;
    if (entry.key == key) {
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
      continue;
    }
    const std::size_t before = ids.size();
    cut(word, scratch, ids);
    if (ids.size() - before > PieceCache::kMaxIds) continue;
    entry.key = key;
    entry.count = static_cast<std::int32_t>(ids.size() - before);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
  }
}

std::vector<std::int32_t> hf_byte_tokens(const HfVocabulary& vocabulary) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::vector<std::int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto token =
        vocabulary.ids.find(concat("<0x", kDigits[byte >> 4], kDigits[byte & 15], ">"));
    ids.push_back(token == vocabulary.ids.end() ? -1 : token->second);
  }
  return ids;
}

}  // namespace mt
