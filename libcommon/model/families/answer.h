// answer: what a model with an LM head says of some tokens.
#pragma once

#include "model/model.h"
#include "nn/lm_head.h"
#include "nn/norm.h"

namespace mt {

// Fills what `ends` ask of some of the Step's tokens, of all of which the stack gave x: logits,
// hidden states and scores.  The head has the whole vocabulary.
void answer(Step& s, const Ends& ends, ConstTensor x, ConstTensor labels, const Norm* final_norm,
            const LmHead& head);

}  // namespace mt
