#include "ops/retrieval_loss.h"

#include "ops/check.h"

namespace mt {

void retrieval_loss(Tensor loss, Tensor hits, Tensor scores, ConstTensor weight,
                    const RetrievalTops& tops, Stream& stream) {
  const std::int64_t n = scores.shape()[0];
  const RetrievalShape shape{.n = n, .each = n > 0 ? scores.shape()[1] / n : 1};
  check_shape("retrieval_loss", "scores", scores, {n, shape.contexts()});
  check_shape("retrieval_loss", "loss", loss, {n});
  if (weight) check_shape("retrieval_loss", "weight", weight, {n});
  if (tops.count > 0) check_shape("retrieval_loss", "hits", hits, {tops.count, n});
  dispatch(
      Family::cross_entropy, scores, moves(scores), stream,
      [&]<class T>() {
        cpu::retrieval_loss(loss.as<T>(), hits ? hits.as<T>() : nullptr, scores.as<T>(),
                            weight ? weight.as<T>() : nullptr, shape, tops);
      },
      [&]<class X>() {
        if constexpr (std::is_same_v<X, float>)
          cuda::retrieval_loss(loss.as<X>(), hits ? hits.as<X>() : nullptr, scores.as<X>(),
                               weight ? weight.as<X>() : nullptr, shape, tops, stream.handle());
      });
}

}  // namespace mt
