#include "infer/text_states.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/gemm.h"
#include "model/config/model_config.h"

namespace mt {

TextStates::TextStates(const Model& model, int threads)
    : stream_(model.table().device(), threads), pass_(model, stream_, model.config().vocab_size) {}

std::vector<float> TextStates::of(std::span<const std::int32_t> ids, Pooling pooling,
                                  std::int64_t adapter) {
  const std::int64_t count = std::ssize(ids), rows = pooling == Pooling::mean ? count : 1;
  // Padding, which no token sees.
  const std::int64_t length = (count + kRowPeriod - 1) / kRowPeriod * kRowPeriod;
  if (length > length_ || rows > rows_) {
    const std::int64_t longest = std::max(length, std::exchange(length_, 0)),
                       most = std::max(rows, std::exchange(rows_, 0));
    pass_.reserve([&](Pass& pass) {
      pass.input({.length = longest, .rows = most});
      pass.on_host(pass.hidden());
    });
    length_ = longest;
    rows_ = most;
  }
  const PassInput in = pass_.input({.length = length, .rows = rows, .adapted = {{adapter, 1}}});
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  std::ranges::copy(ids, in.ids.as<std::int32_t>());
  std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + count, 0);
  std::iota(in.rows.as<std::int32_t>(), in.rows.as<std::int32_t>() + rows,
            pooling == Pooling::last ? static_cast<std::int32_t>(count - 1) : 0);
  const ConstTensor states = pass_.on_host(pass_.hidden());
  const auto columns = static_cast<std::size_t>(states.shape()[1]);
  std::vector<double> sum(columns);
  with_float_type(states.dtype(), [&]<class T>() {
    const auto all = states.span<T>();
    for (std::size_t i = 0; i < all.size(); ++i) sum[i % columns] += static_cast<double>(all[i]);
  });
  double square = 0;
  for (const double x : sum) square += x * x;
  std::vector<float> made;
  for (const double x : sum)
    made.push_back(square > 0 ? static_cast<float>(x / std::sqrt(square)) : 0.0f);
  return made;
}

}  // namespace mt
