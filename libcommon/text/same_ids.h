// same_ids: whether two tokenizers do the same, whatever their files are: a JSON that another
// program has written anew, or another type of the same vocabulary.
#pragma once

#include <functional>

#include "text/tokenizer.h"

namespace mt {

// They have as many tokens, the same text of every token that is no special one, and the same ids
// of each of these texts, of pairs of them, and of a page of odd scripts, spaces, digits and signs.
// A special token's text may be that token to one and letters to the other, and what they put
// around a text may differ.
bool same_vocabulary(const Tokenizer& a, const Tokenizer& b);

// Likewise, and they put the same tokens around a text, and the same one ends documents.
bool same_ids(const Tokenizer& a, const Tokenizer& b);

// They have as many tokens and cut these texts alike, whatever they put around one and which token
// ends documents.  The texts of tokens that are `passed_over` are left out.
bool same_words(const Tokenizer& a, const Tokenizer& b,
                const std::function<bool(std::int32_t id)>& passed_over);

// `more` has the same words with the same ids, and further ones behind them.
bool adds_words(const Tokenizer& base, const Tokenizer& more);

}  // namespace mt
