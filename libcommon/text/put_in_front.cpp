#include "text/put_in_front.h"

#include <algorithm>
#include <optional>
#include <string>

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

// The ids behind those of a mark that no token has in front of something else; none where the
// mark's are not there as they are alone.
static std::optional<std::vector<std::int32_t>> behind_mark(const Tokenizer& tokenizer,
                                                            std::string_view text) {
  std::string marked = "☺";
  std::vector<std::int32_t> mark, all;
  encode_alone(tokenizer, marked, mark);
  encode_alone(tokenizer, marked.append(text), all);
  const auto behind = std::ranges::mismatch(mark, all);
  if (behind.in1 != mark.end()) return {};
  return std::vector(behind.in2, all.end());
}

void encode_inside(const Tokenizer& tokenizer, std::string_view text,
                   std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> alone;
  encode_alone(tokenizer, "0", alone);
  const auto inside = behind_mark(tokenizer, "0");
  if (inside && *inside != alone)
    if (const auto all = behind_mark(tokenizer, text))
      return void(ids.insert(ids.end(), all->begin(), all->end()));
  encode_alone(tokenizer, text, ids);
}

}  // namespace mt
