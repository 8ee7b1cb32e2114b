#include "text/same_ids.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

// Words, spaces, digits, signs, line ends, and letters of scripts that normalizers treat apart.
constexpr std::string_view kPages[] = {
    "The quick brown fox JUMPS over 12345 lazy dogs, doesn't it?  It's 3.14159 -- or 2,000,000!",
    "  two  spaces\tand\ta tab \n\n a line \r\n another\n   indented(code); x+=1; // \"quoted\" "
    "<b>",
    "caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m \ufb01ne \u2460 \uff21\uff22\uff23 "
    "\u0130stanbul \u00df",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 "
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u4f60\u597d\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca "
    "\uc548\ub155\ud558\uc138\uc694 \U0001f600\U0001f468\u200d\U0001f469 \u2581x \u00a0y \u2028z",
};

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  try {
    tokenizer.encode(text, ids);
  } catch (const Error&) {
    return {-1};  // a text that the type does not take
  }
  return ids;
}

std::vector<std::int32_t> special_of(const Tokenizer& a, const Tokenizer& b) {
  std::vector<std::int32_t> all;
  for (const Tokenizer* tokenizer : {&a, &b}) {
    const SpecialTokens ids = tokenizer->special_ids();
    for (const std::int32_t id :
         {tokenizer->eod(), ids.cls, ids.sep, ids.mask, ids.pad, ids.bos, ids.eos, ids.unk})
      all.push_back(id);
    all.insert(all.end(), ids.extra.begin(), ids.extra.end());
  }
  std::ranges::sort(all);
  return all;
}

// The ids of texts without what the tokenizer puts around each.
class Words {
 public:
  explicit Words(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        before_(put_in_front(tokenizer).size()),
        after_(ids_of(tokenizer, "").size() - before_) {}

  std::vector<std::int32_t> of(std::string_view text) const {
    const std::vector<std::int32_t> ids = ids_of(tokenizer_, text);
    if (ids.size() < before_ + after_) return {-1};
    return {ids.begin() + static_cast<std::ptrdiff_t>(before_),
            ids.end() - static_cast<std::ptrdiff_t>(after_)};
  }

 private:
  const Tokenizer& tokenizer_;
  std::size_t before_, after_;
};

// Whether they cut these texts, and those of the first tokens, alike.
bool cut_alike(const Tokenizer& a, const Tokenizer& b, std::int32_t count,
               const std::function<bool(std::int32_t id)>& passed_over) {
  const Words of_a(a), of_b(b);
  const auto alike = [&](std::string_view text) { return of_a.of(text) == of_b.of(text); };
  if (!std::ranges::all_of(kPages, alike)) return false;
  std::string before;
  for (std::int32_t id = 0; id < count; ++id) {
    if (passed_over(id)) continue;
    const std::string text = b.decode({&id, 1});
    if (!alike(text) || !alike(before + text)) return false;
    before = text;
  }
  return true;
}

constexpr std::string_view kUnknown = " \u2047 ";  // SentencePiece's

// Whether they have the same text for a token, alone or behind the one before: in front of all
// stands no space with some.  SentencePiece says nothing for a token that begins or ends a text,
// and a sign of its own for the unknown one, where Hugging Face has their names.
bool same_text(const Tokenizer& a, const Tokenizer& b, std::int32_t id) {
  const std::string of_a = a.decode({&id, 1}), of_b = b.decode({&id, 1});
  if (of_a == of_b || of_a == kUnknown || of_b == kUnknown) return true;
  const std::int32_t both[] = {id - 1, id};
  return id > 0 && of_a.empty() != of_b.empty() && a.decode(both) == b.decode(both);
}

// The first tokens have the same texts, and these the same ids.
bool same_first(const Tokenizer& a, const Tokenizer& b, std::int32_t count) {
  const std::vector<std::int32_t> special = special_of(a, b);
  const auto is_special = [&](std::int32_t id) { return std::ranges::binary_search(special, id); };
  for (std::int32_t id = 0; id < count; ++id)
    if (!is_special(id) && !same_text(a, b, id)) return false;
  return cut_alike(a, b, count, [&](std::int32_t id) {
    return is_special(id) || a.decode({&id, 1}) == kUnknown;
  });
}

}  // namespace

bool same_words(const Tokenizer& a, const Tokenizer& b,
                const std::function<bool(std::int32_t id)>& passed_over) {
  return a.vocab_size() == b.vocab_size() && cut_alike(a, b, a.vocab_size(), passed_over);
}

bool same_vocabulary(const Tokenizer& a, const Tokenizer& b) {
  return a.vocab_size() == b.vocab_size() && same_first(a, b, a.vocab_size());
}

bool adds_words(const Tokenizer& base, const Tokenizer& more) {
  return base.vocab_size() < more.vocab_size() && same_first(base, more, base.vocab_size());
}

bool same_ids(const Tokenizer& a, const Tokenizer& b) {
  return a.eod() == b.eod() && ids_of(a, "") == ids_of(b, "") &&
         put_in_front(a) == put_in_front(b) && same_vocabulary(a, b);
}

}  // namespace mt
