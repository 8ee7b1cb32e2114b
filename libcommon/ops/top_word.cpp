#include "ops/top_word.h"

#include "kernels/top_word.h"
#include "ops/check.h"

namespace mt {

void top_words(Tensor tops, ConstTensor logits, std::int64_t first, std::int64_t vocab,
               Stream& stream) {
  const std::int64_t rows = logits.shape()[0];
  check_shape("top_words", "tops", tops, {2, rows});
  const VocabularyPart part{
      .rows = rows, .cols = logits.shape()[1], .first = first, .vocab = vocab};
  dispatch(
      Family::cross_entropy, logits, moves(logits), stream,
      [&]<class T>() { cpu::top_words(tops.as<T>(), logits.as<T>(), part); },
      [&]<class X>() { cuda::top_words(tops.as<float>(), logits.as<X>(), part, stream.handle()); });
}

void top_word_hits(Tensor hits, ConstTensor tops, ConstTensor labels, Stream& stream) {
  const std::int64_t rows = labels.shape()[0];
  check_shape("top_word_hits", "hits", hits, {rows});
  check_shape("top_word_hits", "tops", tops, {tops.shape()[0], 2, rows});
  const VocabularyPart part{.rows = rows, .ranks = static_cast<int>(tops.shape()[0])};
  const auto* words = labels.as<std::int32_t>();
  dispatch(
      Family::cross_entropy, tops, moves(tops), stream,
      [&]<class T>() { cpu::top_word_hits(hits.as<T>(), tops.as<T>(), words, part); },
      [&]<class X>() {
        if constexpr (std::is_same_v<X, float>)
          cuda::top_word_hits(hits.as<X>(), tops.as<X>(), words, part, stream.handle());
      });
}

}  // namespace mt
