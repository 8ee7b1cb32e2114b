#include "text/put_in_front.h"

#include <algorithm>

namespace mt {

std::vector<std::int32_t> put_in_front(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> none, one;
  tokenizer.encode("", none);
  tokenizer.encode("0", one);  // a number, which all types take
  none.erase(std::ranges::mismatch(none, one).in1, none.end());
  return none;
}

void encode_alone(const Tokenizer& tokenizer, std::string_view text,
                  std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> around, all;
  tokenizer.encode("", around);
  const std::size_t front = put_in_front(tokenizer).size(), back = around.size() - front;
  tokenizer.encode(text, all);
  ids.insert(ids.end(), all.begin() + static_cast<std::ptrdiff_t>(front),
             all.end() - static_cast<std::ptrdiff_t>(back));
}

}  // namespace mt
