// Parts of BERT's basic tokenizer that look at whole words of any script: lower case as Python's
// str.lower() has it, canonical decomposition, and no marks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/bert/bert_tables.h"

namespace mt {

// Lower-cases, decomposes (NFD) and drops the marks (category Mn) of `word`, and overwrites `out`.
// `after_cased`: does the last character before the word that is not case-ignorable have a case?
// That decides, at the word's beginning, which small letter a capital sigma becomes.
void bert_lower(std::u32string_view word, bool after_cased, std::u32string& out);

// Whether `text` ends with a cased letter, but for what is case-ignorable.  `so_far`: the answer
// where all of it is that.
bool bert_ends_cased(std::u32string_view text, bool so_far);

}  // namespace mt
