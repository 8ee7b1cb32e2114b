#include "infer/reward_pass.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "infer/padding.h"

namespace mt {

// Each text's row begins where the matrix products begin their round of rows.
static PassSize size_of(std::int64_t texts, std::int64_t length) {
  return {.sequences = round_up(texts, tile_sequences(length)),
          .length = length,
          .rows = round_up(texts * kRowPeriod, kRowTile)};
}

RewardPass::RewardPass(const Model& model, const Options& options)
    : tokens_(room_for(options.batch, options.longest)),
      stream_(model.table().device(), options.threads),
      pass_(model, stream_, 1) {
  pass_.reserve([&](Pass& pass) {  // of the longest and of the shortest
    for (const auto& [texts, length] : extreme_batches(tokens_, options.longest)) {
      pass.input(size_of(texts, length));
      pass.on_host(pass.logits());
    }
  });
}

void RewardPass::judge(std::span<const std::span<const std::int32_t>> texts,
                       std::span<double> rewards) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < texts.size(); ++i) items.push_back({texts[i], &rewards[i]});
  std::ranges::stable_sort(items, std::greater(), [](const Item& x) { return x.text.size(); });
  for (std::span<const Item> left(items); !left.empty();) {
    const std::size_t count =
        best_together(left.size(), tokens_, tokens_of_start(stream_.device()),
                      [&](std::size_t i) { return std::ssize(left[i].text); });
    judge_batch(
        left.first(count),
        padded_batch(static_cast<std::int64_t>(count), std::ssize(left.front().text)).length);
    left = left.subspan(count);
  }
}

// The padding's tokens have id and position 0, and what is said of them is thrown away.
void RewardPass::judge_batch(std::span<const Item> items, std::int64_t length) {
  const PassInput in = pass_.input(size_of(std::ssize(items), length));
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i) * length, tokens = std::ssize(items[i].text);
    std::ranges::copy(items[i].text, in.ids.as<std::int32_t>() + first);
    std::int32_t* const positions = in.positions.as<std::int32_t>() + first;
    std::iota(positions, positions + tokens, 0);
    in.rows.as<std::int32_t>()[static_cast<std::int64_t>(i) * kRowPeriod] =
        static_cast<std::int32_t>(first + tokens - 1);
  }
  const ConstTensor scores = pass_.on_host(pass_.logits());
  with_float_type(scores.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < items.size(); ++i)
      *items[i].reward =
          static_cast<double>(scores.as<T>()[static_cast<std::int64_t>(i) * kRowPeriod]);
  });
}

}  // namespace mt
