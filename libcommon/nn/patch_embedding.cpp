#include "nn/patch_embedding.h"

#include "nn/context_parallel.h"
#include "ops/ops.h"

namespace mt {

std::int64_t PatchEmbedding::class_tokens() const {
  return rows_.classes != nullptr ? rows_.classes->shape[0] : 0;
}

std::int64_t PatchEmbedding::first_position() const {
  return rows_.classes_have_positions ? class_tokens() : 0;
}

// What all images add to W pixels is one table, which is made anew: it has a row for each token of
// one.
void PatchEmbedding::embed(Step& s, Tensor y, ConstTensor pixels, ConstTensor places) const {
  product_.forward(s, y, pixels);
  {
    const ArenaScope scope(s.layer);
    const ConstTensor positions = s.weight(*rows_.positions);
    const std::int64_t first = class_tokens();
    const ConstTensor of_patches = positions.rows(first_position(), positions.shape()[0]);
    const std::int64_t length = first + of_patches.shape()[0];
    const Tensor table = s.scratch({length, positions.shape()[1]});
    if (first > 0) {
      const ConstTensor classes = s.weight(*rows_.classes);
      if (rows_.classes_have_positions)
        add(table.rows(0, first), positions.rows(0, first), classes, s.stream);
      else
        copy(table.rows(0, first), classes, s.stream);
      s.done(*rows_.classes);
    }
    if (rows_.bias != nullptr) {
      bias_dropout_add(table.rows(first, length), {}, of_patches, s.weight(*rows_.bias), {},
                       s.stream);
      s.done(*rows_.bias);
    } else {
      copy(table.rows(first, length), of_patches, s.stream);
    }
    embedding_forward(y, places, table, 0, true, s.stream);
    s.done(*rows_.positions);
  }
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) add_dropout(s, y, {}, y, {}, dropout);
}

void PatchEmbedding::forward(Step& s, Tensor y, ConstTensor pixels, ConstTensor places,
                             Saved* saved) const {
  const std::int64_t begin = s.first_row(), end = begin + s.rows();
  const Tensor x = s.kept(saved, {s.rows(), pixels.shape()[1]});
  const ConstTensor own = places.rows(begin, end);
  copy(x, pixels.rows(begin, end), s.stream);
  const Tensor embedded = norm_ ? s.kept(saved, y.shape()) : y;
  embed(s, embedded, x, own);
  if (saved) *saved = {own, x, embedded, {}};
  if (norm_) norm_->forward(s, y, embedded, saved ? &saved->norm : nullptr);
}

// The gradient of that table is that of its three parts.
void PatchEmbedding::backward(Step& s, ConstTensor dy, const Saved& v) const {
  const ArenaScope scope(s.layer);
  if (norm_) {
    const Tensor d_embedded = s.scratch(dy.shape());
    norm_->backward(s, d_embedded, dy, v.embedded, v.norm);
    dy = d_embedded;
  }
  const Tensor d_rows = s.gradient(dy.shape());
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0)
    add_dropout_backward(s, d_rows, dy, dropout);
  else
    copy(d_rows, dy, s.stream);
  const Tensor of_positions = s.gradient_of(*rows_.positions);
  const std::int64_t first = class_tokens(), without = first - first_position(),
                     length = of_positions.shape()[0] + without, width = of_positions.shape()[1];
  const Tensor d_table = s.scratch_sums({length, width});
  set_zero(d_table, s.stream);
  embedding_backward(d_table, v.places, d_rows, 0, s.stream);
  add(of_positions, of_positions, d_table.rows(without, length), s.stream);
  if (first > 0) {
    const Tensor of_classes = s.gradient_of(*rows_.classes);
    add(of_classes, of_classes, d_table.rows(0, first), s.stream);
  }
  if (rows_.bias != nullptr) {
    const Tensor one = s.layer.alloc(DType::i32, {length - first});  // it is a table of one row
    set_zero(one, s.stream);
    embedding_backward(s.gradient_of(*rows_.bias).reshape({1, width}), one,
                       d_table.rows(first, length), 0, s.stream);
  }
  product_.backward(s, {}, d_rows, v.pixels);
}

}  // namespace mt
