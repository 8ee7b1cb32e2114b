#include "nn/asked_rows.h"

#include "nn/tensor_parallel.h"
#include "ops/ops.h"

namespace mt {

void pick_rows(Step& s, Tensor picked, ConstTensor x, ConstTensor asked) {
  const ArenaScope scope(s.layer);
  if (s.shares_rows()) {
    const Tensor gathered = s.scratch({s.tokens.count(), x.shape()[1]});
    gather_rows(s, gathered, x).wait();
    x = gathered;
  }
  embedding_forward(picked, asked, x, 0, false, s.stream);
}

// Ranks that share the rows of hidden states each know the gradient of all that were asked of.
void put_rows_back(Step& s, Tensor dx, ConstTensor d_picked, ConstTensor row_of) {
  const ConstTensor own = row_of.rows(s.first_row(), s.first_row() + s.rows());
  embedding_forward(dx, own, d_picked, 0, false, s.stream);
}

}  // namespace mt
