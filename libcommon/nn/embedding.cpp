#include "nn/embedding.h"

#include <algorithm>

#include "base/half.h"
#include "nn/context_parallel.h"
#include "nn/tensor_parallel.h"
#include "ops/ops.h"
#include "ops/text_noise.h"

namespace mt {

void Embedding::look_up(Step& s, Tensor y, ConstTensor ids) const {
  const Param& words = *tables_.words;
  const ConstTensor table = s.weight(words);
  if (words.packed_as == PackedAs::blocks) return packed_embedding(y, ids, table, 0, s.stream);
  if (words.packed_as == PackedAs::tiles)
    return tiles_embedding(y, ids, table, *words.tiles, 0, s.stream);
  if (!words.is_cut()) return embedding_forward(y, ids, table, 0, false, s.stream);
  const ArenaScope scope(s.layer);
  const Tensor part = part_of_sum(s, y);
  embedding_forward(part, ids, table, words.cuts[0].global, false, s.stream);
  sum_parts(s, y, part).wait();
}

double Embedding::multiplier(DType dtype) const {
  const auto as_float = static_cast<float>(options_.multiplier);
  return dtype == DType::bf16  ? static_cast<float>(Bf16(as_float))
         : dtype == DType::f16 ? static_cast<float>(Fp16(as_float))
                               : options_.multiplier;
}

// A text is as long on a rank that has a part of it as it is on one that has all of it.
static void add_noise(Step& s, Tensor y, TextNoise noise) {
  const ConstTensor first_key = s.tokens.first_key, lengths = s.tokens.lengths;
  if (!first_key) noise.lengths = lengths.as<std::int32_t>();
  if (s.context == nullptr) return add_text_noise(y, first_key, noise, s.stream);
  const ArenaScope scope(s.layer);
  const ConstTensor of_all = of_whole_sequences(s, first_key);
  noise.seq_length = whole_length(s);
  for (const TokenRun& run : token_runs(s, s.first_row(), s.first_row() + s.rows())) {
    noise.first_row = run.first;
    add_text_noise(y.rows(run.begin, run.end), of_all, noise, s.stream);
  }
}

// Calls body(hidden states, their tokens' row_of, inserted rows) for each sequence that has some of
// this rank's rows, `own`; `inserted`: those of all sequences.
static void for_sequences(const Step& s, Tensor own, const auto& inserted, const auto& body) {
  const std::int64_t length = s.tokens.length, rows = inserted.shape()[0] / s.tokens.sequences,
                     first = s.first_row(), last = first + s.rows();
  for (std::int64_t i = 0; i < s.tokens.sequences; ++i) {
    const std::int64_t begin = std::max(first, i * length), end = std::min(last, (i + 1) * length);
    if (begin < end)
      body(own.rows(begin - first, end - first), s.inserted.row_of.rows(begin, end),
           inserted.rows(i * rows, (i + 1) * rows));
  }
}

void Embedding::forward(Step& s, Tensor y, ConstTensor ids, ConstTensor types, Saved* saved) const {
  const ArenaScope scope(s.layer);
  const Tensor x = options_.norm ? s.kept(saved, y.shape()) : y;
  look_up(s, x, ids);
  s.done(*tables_.words);
  if (options_.multiplier != 1) scale(x, x, multiplier(x.dtype()), s.stream);
  const auto add = [&](const Param* table, ConstTensor of_tokens, std::int64_t first) {
    if (table == nullptr) return ConstTensor();
    const ConstTensor rows = of_tokens.rows(s.first_row(), s.first_row() + s.rows());
    embedding_forward(x, rows, s.weight(*table).rows(first, table->shape[0]), 0, true, s.stream);
    s.done(*table);
    return rows;
  };
  Saved read{ids, add(tables_.positions, s.tokens.positions, options_.first_position),
             add(tables_.types, types, 0)};
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (options_.noise > 0 && s.training)
    add_noise(s, x,
              {.alpha = options_.noise,
               .key = dropout.key,
               .seq_length = dropout.seq_length,
               .first_row = dropout.first_row,
               .record = s.record});
  if (options_.norm) {
    read.x = x;
    options_.norm->forward(s, y, x, saved ? &read.norm : nullptr);
  }
  if (dropout.p > 0) add_dropout(s, y, {}, y, {}, dropout);
  if (s.inserted.row_of)
    for_sequences(s, y, s.inserted.hidden, [&](auto own, auto row_of, auto rows) {
      embedding_forward(own, row_of, rows, 0, true, s.stream);
    });
  s.show(*tables_.words, "output", y);
  if (saved) *saved = read;
}

void Embedding::backward(Step& s, Tensor dy, const Saved& v) const {
  const Param& words = *tables_.words;
  const ArenaScope scope(s.layer);
  if (s.inserted.gradient)
    for_sequences(s, dy, s.inserted.gradient, [&](auto own, auto row_of, auto rows) {
      embedding_backward(rows, row_of, own, 0, s.stream);
    });
  const Dropout dropout = s.dropout(dropout_, 0, Purpose::embedding_dropout);
  if (dropout.p > 0) add_dropout_backward(s, dy, dy, dropout);
  if (options_.norm) {
    const Tensor dx = s.scratch(dy.shape());
    options_.norm->backward(s, dx, dy, v.x, v.norm);
    dy = dx;
  }
  ConstTensor of_words = dy;
  if (options_.multiplier != 1) {
    const Tensor scaled = s.scratch(dy.shape());
    scale(scaled, dy, multiplier(dy.dtype()), s.stream);
    of_words = scaled;
  }
  ConstTensor of_all = of_words;
  Pending gathered;
  if (s.shares_rows() && words.trainable) {
    const Tensor all = s.scratch({s.tokens.count(), dy.shape()[1]});
    gathered = gather_rows(s, all, of_words);
    of_all = all;
  }
  const auto add_to = [&](const Param* table, ConstTensor rows, std::int64_t first) {
    if (table != nullptr && table->trainable)
      embedding_backward(s.gradient_of(*table).rows(first, table->shape[0]), rows, dy, 0, s.stream);
  };
  add_to(tables_.positions, v.positions, options_.first_position);
  add_to(tables_.types, v.types, 0);
  gathered.wait();
  if (words.trainable)
    embedding_backward(s.gradient_of(words), v.ids, of_all,
                       words.is_cut() ? words.cuts[0].global : 0, s.stream);
}

}  // namespace mt
