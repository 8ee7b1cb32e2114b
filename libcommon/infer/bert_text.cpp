#include "infer/bert_text.h"

#include "base/error.h"

namespace mt {

BertText::BertText(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), cls_(tokenizer.special_ids().cls), sep_(tokenizer.special_ids().sep) {
  if (cls_ < 0 || sep_ < 0)
    fail(Exit::bad_config, "the tokenizer has no ", cls_ < 0 ? "[CLS]" : "[SEP]",
         ", which a BERT's texts stand between");
}

std::vector<std::int32_t> BertText::ids(std::string_view text) const {
  std::vector<std::int32_t> ids;
  tokenizer_.encode(text, ids);
  if (ids.size() >= 2 && ids.front() == cls_ && ids.back() == sep_) return ids;
  ids.insert(ids.begin(), cls_);
  ids.push_back(sep_);
  return ids;
}

}  // namespace mt
