#include "train/run/qk_clip.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/group.h"

namespace mt {

QkClip::QkClip(const QkClipOptions& options, const ModelConfig& model, const World& world)
    : options_(options), model_(model), world_(world) {
  const std::int64_t layers = model.num_layers + model.mtp_num_layers * model.further_layers(),
                     heads = model.num_attention_heads / world.tensor().size();
  storage_ = Buffer(Device::cpu, static_cast<std::size_t>(layers * heads) * sizeof(double));
  scores_ = storage_.tensor(DType::f64, {layers, heads});
}

void QkClip::begin() {
  std::fill_n(scores_.as<double>(), scores_.numel(), -std::numeric_limits<double>::infinity());
}

double QkClip::factor(std::int64_t layer, std::int64_t first_head, std::int64_t heads) const {
  const double* const found = scores_.as<double>() + layer * scores_.shape()[1] + first_head;
  const double most = *std::max_element(found, found + heads);
  return std::isfinite(most) && most > options_.threshold ? options_.threshold / most : 1;
}

// Multiplies rows [first, first + count) of this rank's part of a matrix.
static void scale_part(const Param& row, std::int64_t first, std::int64_t count, double factor) {
  if (factor == 1) return;
  const Tensor rows = row.value.rows(first, first + count);
  with_float_type(rows.dtype(), [&]<class T>() {
    T* const values = rows.as<T>();
    for (std::int64_t i = 0; i < rows.numel(); ++i) values[i] *= static_cast<T>(factor);
  });
}

void QkClip::clip(const Param& row) const {
  const std::int64_t layer = *row.place.layer, here = scores_.shape()[1];
  const auto part = [&](double g, double exponent) { return std::pow(g, exponent); };
  if (row.place.module == "self_attention.linear_qkv") {
    const std::int64_t group = model_.num_attention_heads / model_.kv_heads(),
                       width = model_.head_dim(), rows = (group + 2) * width;
    for (std::int64_t i = 0; i < here / group; ++i) {
      const double g = factor(layer, i * group, group);
      scale_part(row, i * rows, group * width, part(g, options_.alpha));
      scale_part(row, i * rows + group * width, width, part(g, 1 - options_.alpha));
    }
  } else if (row.place.module == "self_attention.linear_kv_up_proj") {
    const std::int64_t fixed = model_.qk_head_dim, rows = fixed + model_.v_head_dim;
    for (std::int64_t head = 0; head < here; ++head)
      scale_part(row, head * rows, fixed, part(factor(layer, head, 1), 1 - options_.alpha));
  } else if (row.place.module == "self_attention.linear_q_proj" ||
             row.place.module == "self_attention.linear_q_up_proj") {
    const std::int64_t fixed = model_.qk_head_dim, turning = model_.qk_pos_emb_head_dim,
                       rows = fixed + turning;
    for (std::int64_t head = 0; head < here; ++head) {
      const double g = factor(layer, head, 1);
      scale_part(row, head * rows, fixed, part(g, options_.alpha));
      scale_part(row, head * rows + fixed, turning, g);
    }
  }
}

double QkClip::end(const ParamTable& table) {
  world_.data_context().all_reduce(scores_, Reduction::max).wait();
  double most = *std::max_element(scores_.as<double>(), scores_.as<double>() + scores_.numel());
  // No rank changes weights before all have theirs.
  world_.all().all_reduce(Tensor(&most, DType::f64, {1}), Reduction::max).wait();
  if (!options_.clips) return most;
  for (const Param& row : table.rows())
    if (row.place.stack == "decoder" && row.place.layer && row.place.inner.empty() &&
        row.place.param == "weight")
      clip(row);
  return most;
}

}  // namespace mt
