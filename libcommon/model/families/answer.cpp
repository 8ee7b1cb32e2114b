#include "model/families/answer.h"

#include "nn/step.h"
#include "ops/ops.h"

namespace mt {

void answer(Step& s, const Ends& ends, ConstTensor x, ConstTensor labels, const Norm* final_norm,
            const LmHead& head) {
  if (s.tokens.count() > 1 || ends.rows.numel() > 1) {
    const Tensor picked = s.scratch({ends.rows.numel(), x.shape()[1]});
    embedding_forward(picked, ends.rows, x, 0, false, s.stream);
    x = picked;
  }
  if (ends.logits) head.logits(s, ends.logits, x, final_norm);
  if (!ends.hidden && !ends.scores) return;
  ConstTensor normed = x;
  if (final_norm != nullptr) {
    const Tensor made = ends.hidden ? ends.hidden : s.scratch(x.shape());
    final_norm->forward(s, made, x, nullptr);
    normed = made;
  } else if (ends.hidden) {
    copy(ends.hidden, x, s.stream);
  }
  if (ends.scores) head.score(s, ends.scores, normed, labels, ends.vocab);
}

}  // namespace mt
