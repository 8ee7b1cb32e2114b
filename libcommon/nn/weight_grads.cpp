#include "nn/weight_grads.h"

#include <utility>

#include "ops/wide_product.h"

namespace mt {

Tensor WeightGrads::gradient_of(const Param& row, Stream& stream) const {
  if (sharing_ != nullptr) sharing_->add_to(row, stream);
  return row.grad;
}

void WeightGrads::accumulate(std::span<const WeightGrad> records, Stream& stream) {
  std::vector<Matmul> products;
  for (const WeightGrad& record : records) {
    if (!record.weight->trainable) continue;
    const std::size_t row = record.weight->index;
    if (row >= written_.size()) written_.resize(row + 1);
    const bool anew = sharing_ != nullptr && sharing_->add_to(*record.weight, stream);
    const bool accumulate = !record.weight->gradient_replaced || (written_[row] && !anew);
    written_[row] = true;
    if (record.cast_to) {
      wide_matmul({.out = record.weight->grad,
                   .a = record.dy,
                   .b = record.x,
                   .transpose_a = true,
                   .accumulate = accumulate,
                   .sums = *record.cast_to},
                  stream);
      continue;
    }
    const bool narrow = static_cast<bool>(record.codes);
    products.push_back({.out = record.weight->grad,
                        .a = narrow ? record.dy_codes : record.dy,
                        .b = narrow ? record.x_codes : record.x,
                        .transpose_a = !narrow,
                        .transpose_b = narrow,
                        .accumulate = accumulate,
                        .rows_vary = record.rows_vary,
                        .codes = record.codes,
                        .group = record.group});
  }
  grouped_matmul(products, stream);
  for (const WeightGrad& record : records)
    if (record.bias != nullptr && record.bias->trainable) {
      const Tensor gradient = gradient_of(*record.bias, stream);
      if (record.dy.numel() > 0) column_sum(gradient, record.dy, stream);
    }
}

WeightGrads::Written WeightGrads::written_by(const std::function<void()>& body) {
  const Written before = written_;
  body();
  Written rows = written_;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i]) rows[i] = false;
  return rows;
}

void WeightGrads::add_written(const Written& rows) {
  if (rows.size() > written_.size()) written_.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i]) written_[i] = true;
}

void WeightGrads::push(std::span<const WeightGrad> records, Stream& stream) {
  if (!deferring_) return accumulate(records, stream);
  std::vector<WeightGrad> learning;
  for (const WeightGrad& record : records)
    if (record.weight->trainable || (record.bias != nullptr && record.bias->trainable))
      learning.push_back(record);
  if (!learning.empty()) queue_.push_back(std::move(learning));
}

void WeightGrads::run(std::size_t count, Stream& stream) {
  for (; count > 0; --count) {
    accumulate(queue_.front(), stream);
    queue_.pop_front();
  }
}

}  // namespace mt
