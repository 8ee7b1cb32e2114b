#include "kernels/cross_entropy.h"
#include "kernels/dft_loss.h"
#include "kernels/score_loss.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

void cross_entropy_sums(Tensor sums, ConstTensor logits, ConstTensor labels, std::int64_t first,
                        std::int64_t vocab, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], cols = logits.shape()[1];
  check_shape("cross_entropy_sums", "sums", sums, {4, rows});
  check_shape("cross_entropy_sums", "labels", labels, {rows});
  const VocabularyPart part{.rows = rows, .cols = cols, .first = first, .vocab = vocab};
  dispatch(
      Family::cross_entropy, logits, moves(logits), stream,
      [&]<class T>() {
        cpu::cross_entropy_sums(sums.as<T>(), logits.as<T>(), labels.as<std::int32_t>(), part);
      },
      [&]<class T>() {
        cuda::cross_entropy_sums(sums.as<float>(), logits.as<T>(), labels.as<std::int32_t>(), part,
                                 stream.handle());
      });
}

void cross_entropy_part(const CrossEntropyPart& p, Stream& stream) {
  const std::int64_t rows = p.logits.shape()[0], cols = p.logits.shape()[1];
  const std::int64_t ranks = p.sums.shape()[0];
  check_shape("cross_entropy_part", "loss", p.loss, {rows});
  check_shape("cross_entropy_part", "labels", p.labels, {rows});
  check_shape("cross_entropy_part", "sums", p.sums, {ranks, 4, rows});
  if (p.row_weight) check_shape("cross_entropy_part", "row_weight", p.row_weight, {rows});
  const VocabularyPart part{.rows = rows,
                            .cols = cols,
                            .first = p.first,
                            .vocab = p.vocab,
                            .ranks = static_cast<int>(ranks)};
  const auto* labels = p.labels.as<std::int32_t>();
  dispatch(
      Family::cross_entropy, p.logits, p.row_weight ? moves(p.logits, p.logits) : moves(p.sums),
      stream,
      [&]<class T>() {
        cpu::cross_entropy_part(p.loss.as<T>(), p.logits.as<T>(), labels, or_null<T>(p.row_weight),
                                p.sums.as<T>(), part, p.smoothing);
      },
      [&]<class T>() {
        cuda::cross_entropy_part(p.loss.as<float>(), p.logits.as<T>(), labels,
                                 or_null<float>(p.row_weight), p.sums.as<float>(), part,
                                 p.smoothing, stream.handle());
      });
}

void cross_entropy(Tensor loss, Tensor logits, ConstTensor labels, ConstTensor row_weight,
                   std::int64_t vocab, double smoothing, Stream& stream) {
  const std::int64_t rows = logits.shape()[0], cols = logits.shape()[1];
  check_shape("cross_entropy", "loss", loss, {rows});
  check_shape("cross_entropy", "labels", labels, {rows});
  if (row_weight) check_shape("cross_entropy", "row_weight", row_weight, {rows});
  dispatch(
      Family::cross_entropy, logits,
      {.bytes = (row_weight ? 2.0 : 1.0) * static_cast<double>(logits.bytes())}, stream,
      [&]<class T>() {
        cpu::cross_entropy(loss.as<T>(), logits.as<T>(), labels.as<std::int32_t>(),
                           or_null<T>(row_weight), rows, cols, vocab, smoothing);
      },
      [&]<class T>() {
        cuda::cross_entropy(loss.as<float>(), logits.as<T>(), labels.as<std::int32_t>(),
                            or_null<float>(row_weight), rows, cols, vocab, smoothing,
                            stream.handle());
      });
}

void dft_loss(Tensor loss, Tensor x, ConstTensor weight, Stream& stream) {
  check_shape("dft_loss", "loss", loss, {x.numel()});
  if (weight) check_shape("dft_loss", "weight", weight, {x.numel()});
  dispatch(
      Family::cross_entropy, x, moves(loss, x), stream,
      [&]<class T>() { cpu::dft_loss(loss.as<T>(), x.as<T>(), or_null<T>(weight), x.numel()); },
      [&]<class T>() {
        if constexpr (std::is_same_v<T, float>)
          cuda::dft_loss(loss.as<T>(), x.as<T>(), or_null<T>(weight), x.numel(), stream.handle());
      });
}

void score_loss(Tensor loss, Tensor x, ConstTensor targets, ConstTensor row_weight, ScoreLoss kind,
                Stream& stream) {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  check_shape("score_loss", "loss", loss, {rows});
  check_shape("score_loss", "targets", targets, {rows, cols});
  if (row_weight) check_shape("score_loss", "row_weight", row_weight, {rows});
  dispatch(
      Family::cross_entropy, x, moves(x, targets), stream,
      [&]<class T>() {
        cpu::score_loss(loss.as<T>(), x.as<T>(), targets.as<T>(), or_null<T>(row_weight), rows,
                        cols, kind);
      },
      [&]<class T>() {
        cuda::score_loss(loss.as<float>(), x.as<T>(), targets.as<float>(),
                         or_null<float>(row_weight), rows, cols, kind, stream.handle());
      });
}

}  // namespace mt
