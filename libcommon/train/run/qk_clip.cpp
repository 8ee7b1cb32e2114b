#include "train/run/qk_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/group.h"
#include "ops/ops.h"

namespace mt {

QkClip::QkClip(const QkClipOptions& options, const ModelConfig& model, const World& world,
               Stream& stream)
    : options_(options), model_(model), world_(world), stream_(stream) {
  const std::int64_t layers = model.num_layers + model.mtp_num_layers * model.further_layers(),
                     heads = model.num_attention_heads / world.tensor().size();
  none_.assign(static_cast<std::size_t>(layers * heads), -std::numeric_limits<double>::infinity());
  found_ = none_;
  const std::size_t bytes = none_.size() * sizeof(double);
  storage_ = Buffer(stream.device(), bytes + sizeof(double));
  scores_ = storage_.tensor(DType::f64, {layers, heads});
  number_ = storage_.tensor(DType::f64, {1}, bytes);
}

void QkClip::begin() { transfer(scores_, {none_.data(), DType::f64, scores_.shape()}, stream_); }

double QkClip::factor(std::int64_t layer, std::int64_t first_head, std::int64_t heads) const {
  const double* const found = found_.data() + layer * scores_.shape()[1] + first_head;
  const double most = *std::max_element(found, found + heads);
  return std::isfinite(most) && most > options_.threshold ? options_.threshold / most : 1;
}

// Multiplies elements [begin, end) of this rank's part of a row, and of the copy of it with more
// bits that is trained.
static void scale_elements(const Param& row, std::span<const Optimizer::Piece> pieces,
                           std::int64_t begin, std::int64_t end, double factor, Stream& stream) {
  const Tensor all = row.value.reshape({row.value.numel()}), values = all.rows(begin, end);
  scale(values, values, factor, stream);
  for (const Optimizer::Piece& piece : pieces) {
    const std::int64_t first = std::max(begin, piece.begin), last = std::min(end, piece.end);
    if (piece.row != &row || !piece.has_master || first >= last) continue;
    const Tensor master = piece.master.rows(first - piece.begin, last - piece.begin);
    scale(master, master, factor, stream);
  }
}

void QkClip::clip(const Param& row, std::span<const Optimizer::Piece> pieces) const {
  const std::int64_t layer = *row.place.layer, here = scores_.shape()[1];
  const auto part = [&](double g, double exponent) { return std::pow(g, exponent); };
  // Rows [first, first + count) of this rank's part of the matrix.
  const auto scale_part = [&](std::int64_t first, std::int64_t count, double factor) {
    const std::int64_t cols = row.value.shape()[1];
    if (factor != 1)
      scale_elements(row, pieces, first * cols, (first + count) * cols, factor, stream_);
  };
  if (row.place.module == "self_attention.linear_qkv") {
    const std::int64_t group = model_.num_attention_heads / model_.kv_heads(),
                       width = model_.head_dim(), rows = (group + 2) * width;
    for (std::int64_t i = 0; i < here / group; ++i) {
      const double g = factor(layer, i * group, group);
      scale_part(i * rows, group * width, part(g, options_.alpha));
      scale_part(i * rows + group * width, width, part(g, 1 - options_.alpha));
    }
  } else if (row.place.module == "self_attention.linear_kv_up_proj") {
    const std::int64_t fixed = model_.qk_head_dim, rows = fixed + model_.v_head_dim;
    for (std::int64_t head = 0; head < here; ++head)
      scale_part(head * rows, fixed, part(factor(layer, head, 1), 1 - options_.alpha));
  } else if (row.place.module == "self_attention.linear_q_proj" ||
             row.place.module == "self_attention.linear_q_up_proj") {
    const std::int64_t fixed = model_.qk_head_dim, turning = model_.qk_pos_emb_head_dim,
                       rows = fixed + turning;
    for (std::int64_t head = 0; head < here; ++head) {
      const double g = factor(layer, head, 1);
      scale_part(head * rows, fixed, part(g, options_.alpha));
      scale_part(head * rows + fixed, turning, g);
    }
  }
}

double QkClip::most_of_ranks(double own) {
  const Tensor here(&own, DType::f64, {1});
  transfer(number_, here, stream_);
  world_.all().all_reduce(number_, Reduction::max).wait();
  transfer(here, number_, stream_);
  stream_.synchronize();
  return own;
}

double QkClip::end(const ParamTable& table, std::span<const Optimizer::Piece> pieces) {
  world_.data_context().all_reduce(scores_, Reduction::max).wait();
  transfer({found_.data(), DType::f64, scores_.shape()}, scores_, stream_);
  stream_.synchronize();
  // No rank changes weights before all have theirs.
  const double most = most_of_ranks(*std::ranges::max_element(found_));
  if (!options_.clips) return most;
  for (const Param& row : table.rows())
    if (row.place.stack == "decoder" && row.place.layer && row.place.inner.empty() &&
        row.place.param == "weight")
      clip(row, pieces);
  return most;
}

}  // namespace mt
