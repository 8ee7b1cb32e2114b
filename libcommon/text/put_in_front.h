// put_in_front: which tokens a tokenizer puts in front of every text, BOS of most: context, and no
// part of what a text says.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

// What the ids of any two texts begin with alike, found by tokenizing none and one.
std::vector<std::int32_t> put_in_front(const Tokenizer& tokenizer);

// Appends the ids of a text alone, without those that the tokenizer puts around every text: it may
// have its own, as what a chat template makes has.
void encode_alone(const Tokenizer& tokenizer, std::string_view text,
                  std::vector<std::int32_t>& ids);
// encode_alone() of what goes on with a text: without the space that a tokenizer of SentencePiece's
// puts in front of one.
void encode_inside(const Tokenizer& tokenizer, std::string_view text,
                   std::vector<std::int32_t>& ids);

}  // namespace mt
