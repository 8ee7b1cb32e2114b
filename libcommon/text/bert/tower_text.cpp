#include "text/bert/tower_text.h"

#include <algorithm>

#include "base/error.h"
#include "text/put_in_front.h"

namespace mt {

TowerText::TowerText(const Tokenizer& tokenizer, std::int64_t max_length)
    : tokenizer_(tokenizer),
      max_length_(static_cast<std::size_t>(max_length)),
      special_(tokenizer.special_ids()),
      before_(put_in_front(tokenizer).size()) {
  if (std::min({special_.cls, special_.sep, special_.pad}) < 0)
    fail(Exit::bad_config, "--tokenizer-type ", tokenizer.type(),
         ": has no [CLS], [SEP] and padding, between which a tower reads texts");
  std::vector<std::int32_t> around;
  tokenizer.encode("", around);
  behind_ = around.size() - before_;
}

void TowerText::add(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto begin = std::ssize(ids);
  tokenizer_.encode(text, ids);
  ids.erase(ids.begin() + begin, ids.begin() + begin + static_cast<std::ptrdiff_t>(before_));
  ids.resize(ids.size() - behind_);
}

void TowerText::end(std::vector<std::int32_t>& ids) const {
  ids.resize(std::min(ids.size(), max_length_ - 1));
  ids.push_back(special_.sep);
}

std::vector<std::int32_t> TowerText::question(std::string_view text) const {
  std::vector<std::int32_t> ids = {special_.cls};
  add(text, ids);
  end(ids);
  return ids;
}

std::vector<std::int32_t> TowerText::passage(std::string_view title, std::string_view text) const {
  std::vector<std::int32_t> ids = {special_.cls};
  add(title, ids);
  ids.push_back(special_.sep);
  add(text, ids);
  end(ids);
  return ids;
}

}  // namespace mt
