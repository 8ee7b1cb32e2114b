#include "infer/prompt_scores.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "infer/padding.h"

namespace mt {

static constexpr std::int64_t kMostLogits = std::int64_t{1} << 26;  // that are kept at a time

PromptScores::PromptScores(const Model& model, std::int64_t vocab_size, int threads)
    : stream_(model.table().device(), threads),
      pass_(model, stream_, vocab_size),
      most_rows_(std::max(kRowTile, kMostLogits / vocab_size / kRowTile * kRowTile)) {}

void PromptScores::reserve(std::int64_t length, std::int64_t rows) {
  if (length <= length_ && rows <= rows_) return;
  const std::int64_t longest = std::max(length, std::exchange(length_, 0)),
                     most = std::max(rows, std::exchange(rows_, 0));
  pass_.reserve([&](Pass& pass) {
    pass.input({.sequences = 1, .length = longest, .rows = most});
    pass.on_host(pass.logits());
  });
  length_ = longest;
  rows_ = most;
}

std::vector<LogProbs> PromptScores::score(std::span<const std::int32_t> ids,
                                          std::size_t alternatives, std::int64_t adapter) {
  std::vector<LogProbs> result;
  const std::int64_t inputs = std::ssize(ids) - 1;
  const std::int64_t length = round_up(inputs, kRowPeriod);  // padding, which no token sees
  if (inputs < 1) return result;
  reserve(length, std::min(round_up(inputs, kRowPeriod), most_rows_));
  std::vector<double> logits;
  for (std::int64_t first = 0; first < inputs; first += most_rows_) {
    const std::int64_t count = std::min(inputs - first, most_rows_);
    const std::int64_t rows = round_up(count, kRowPeriod);
    const PassInput in =
        pass_.input({.sequences = 1, .length = length, .rows = rows, .adapted = {{adapter, 1}}});
    std::ranges::fill(in.block.span<std::int32_t>(), 0);
    std::ranges::copy(ids.first(static_cast<std::size_t>(inputs)), in.ids.as<std::int32_t>());
    std::int32_t* const positions = in.positions.as<std::int32_t>();
    std::iota(positions, positions + inputs, 0);
    std::int32_t* const asked = in.rows.as<std::int32_t>();
    std::iota(asked, asked + count, static_cast<std::int32_t>(first));
    const ConstTensor all = pass_.on_host(pass_.logits());
    for (std::int64_t row = 0; row < count; ++row) {
      const ConstTensor one = all.rows(row, row + 1);
      logits.resize(static_cast<std::size_t>(one.numel()));
      with_float_type(one.dtype(),
                      [&]<class T>() { std::ranges::copy(one.span<T>(), logits.begin()); });
      result.push_back(
          log_probs(logits, ids[static_cast<std::size_t>(first + row + 1)], alternatives));
    }
  }
  return result;
}

}  // namespace mt
