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

}  // namespace mt
