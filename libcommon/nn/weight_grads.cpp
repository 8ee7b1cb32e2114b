#include "nn/weight_grads.h"

namespace mt {

Tensor WeightGrads::gradient_of(const Param& row, Stream& stream) const {
  if (sharing_ != nullptr) sharing_->add_to(row, stream);
  return row.grad;
}

void WeightGrads::accumulate(const WeightGrad& record, Stream& stream) {
  if (record.weight->trainable) {
    const std::size_t row = record.weight->index;
    if (row >= written_.size()) written_.resize(row + 1);
    const bool anew = sharing_ != nullptr && sharing_->add_to(*record.weight, stream);
    const bool narrow = static_cast<bool>(record.dy_codes),
               transposed = static_cast<bool>(record.codes);
    const bool only_turn = record.dy.shape()[0] == 0 && !record.weight->gradient_replaced;
    if (!only_turn)
      matmul({.out = record.weight->grad,
              .a = narrow ? record.dy_codes : record.dy,
              .b = narrow ? record.x_codes : record.x,
              .transpose_a = !transposed,
              .transpose_b = transposed,
              .accumulate = !record.weight->gradient_replaced || (written_[row] && !anew),
              .rows_vary = record.rows_vary,
              .codes = record.codes},
             stream);
    written_[row] = true;
  }
  if (record.bias != nullptr && record.bias->trainable)
    column_sum(gradient_of(*record.bias, stream), record.dy, stream);
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

void WeightGrads::push(const WeightGrad& record, Stream& stream) {
  const bool frozen =
      !record.weight->trainable && (record.bias == nullptr || !record.bias->trainable);
  if (!deferring_)
    accumulate(record, stream);
  else if (!frozen)
    queue_.push_back(record);
}

void WeightGrads::run(std::size_t count, Stream& stream) {
  for (; count > 0; --count) {
    accumulate(queue_.front(), stream);
    queue_.pop_front();
  }
}

}  // namespace mt
