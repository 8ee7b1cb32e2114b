// What models with an LM head say of tokens.
#pragma once

#include "model/model.h"
#include "nn/lm_head.h"
#include "nn/norm.h"
#include "nn/value_head.h"

namespace mt {

// Fills what `ends` ask of some of the Step's tokens, of all of which the stack gave x: logits,
// hidden states and scores.  The head has the whole vocabulary.
void answer(Step& s, const Ends& ends, ConstTensor x, ConstTensor labels, const Norm* final_norm,
            const LmHead& head);

// Fills the losses of all tokens, of which the final norm gave `normed`, as the ends' criterion has
// them, or as they are; of learnt tokens of the ends, a row each.  With `saved`, for a backward.
void find_losses(Step& s, const Ends& ends, ConstTensor normed, const Fields& batch,
                 const LmHead& head, LmHead::Saved* saved);

// Makes the losses of a policy with a value head: as the function above, and the criterion is given
// the values that the head says of each token, too.
void find_losses(Step& s, const Ends& ends, ConstTensor normed, const Fields& batch,
                 const LmHead& head, LmHead::Saved* saved, const ValueHead& value,
                 ValueHead::Saved* saved_value);

}  // namespace mt
