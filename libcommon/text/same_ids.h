// same_ids: whether two tokenizers do the same, whatever their files are: a JSON that another
// program has written anew, or another type of the same vocabulary.
#pragma once

#include "text/tokenizer.h"

namespace mt {

// They have as many tokens, the same one that ends documents, the same text of every token, and the
// same ids of each of these texts, of pairs of them, and of a page of odd scripts, spaces, digits
// and signs.  A special token's text may be that token to one and letters to the other.
bool same_ids(const Tokenizer& a, const Tokenizer& b);

}  // namespace mt
