#include "infer/score_pass.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "infer/padding.h"

namespace mt {

ScorePass::ScorePass(const Model& model, const Options& options)
    : scored_(options.scored),
      temperature_(options.temperature),
      window_(options.window),
      tokens_(room_for(options.batch, options.window)),
      judged_rows_(std::clamp(options.host_logits / options.vocab_size / kRowTile * kRowTile,
                              kRowTile, tokens_)),
      stream_(model.table().device(), options.threads),
      pass_(model, stream_, options.vocab_size) {
  pass_.reserve([&](Pass& pass) {  // when all tokens are scored, of the longest and the shortest
    for (const auto& [sequences, length] : extreme_batches(tokens_, window_)) {
      pass.input({.sequences = sequences, .length = length, .rows = tokens_});
      pass.on_host(pass.scores(temperature_));
    }
  });
}

static std::int64_t room_of(std::size_t scored) {
  return round_up(static_cast<std::int64_t>(scored), kRowPeriod);
}

void ScorePass::score(std::span<const std::span<const std::int32_t>> ids,
                      std::span<const std::span<double>> nll) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    assert(nll[i].size() < ids[i].size() && ids[i].size() <= static_cast<std::size_t>(window_) + 1);
    if (!nll[i].empty()) items.push_back({ids[i], nll[i]});
  }
  score_all(std::move(items), std::numeric_limits<std::int64_t>::max());
}

void ScorePass::score(std::span<const std::span<const std::int32_t>> ids,
                      std::span<const std::span<double>> nll,
                      std::span<const std::span<std::uint8_t>> likeliest) {
  assert(temperature_ == 1);
  if (!std::exchange(judges_, true))
    pass_.reserve([&](Pass& pass) {
      for (const auto& [sequences, length] : extreme_batches(tokens_, window_)) {
        pass.input({.sequences = sequences, .length = length, .rows = tokens_});
        pass.on_host(pass.scores());
        pass.input({.sequences = sequences, .length = length, .rows = judged_rows_});
        pass.on_host(pass.logits());
      }
    });
  // A sequence of which more is asked than there is room for is several, each of which sees all
  // that stands before what is asked of it.
  std::vector<Item> items;
  const auto most = static_cast<std::size_t>(judged_rows_);
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t begin = 0; begin < nll[i].size(); begin += most) {
      const std::size_t end = std::min(begin + most, nll[i].size());
      items.push_back({ids[i].first(ids[i].size() - (nll[i].size() - end)),
                       nll[i].subspan(begin, end - begin),
                       likeliest[i].subspan(begin, end - begin)});
    }
  score_all(std::move(items), judged_rows_);
}

void ScorePass::score_all(std::vector<Item> items, std::int64_t most_rows) {
  std::ranges::stable_sort(items, std::greater(), [](const Item& x) { return x.ids.size(); });
  for (std::span<const Item> left(items); !left.empty();) {
    std::int64_t rows = 0;
    const std::size_t sequences =
        best_together(left.size(), tokens_, tokens_of_start(stream_.device()), [&](std::size_t i) {
          rows += room_of(left[i].nll.size());
          return i > 0 && rows > most_rows ? 0 : std::ssize(left[i].ids) - 1;
        });
    score_batch(left.first(sequences),
                padded_batch(static_cast<std::int64_t>(sequences), std::ssize(left.front().ids) - 1)
                    .length);
    if (scored_) {
      std::int64_t tokens = 0;
      for (const Item& item : left.first(sequences)) tokens += std::ssize(item.nll);
      scored_(tokens);
    }
    left = left.subspan(sequences);
  }
}

// The padding's tokens have id and position 0, and what is scored in between is thrown away.
void ScorePass::score_batch(std::span<const Item> items, std::int64_t length) {
  const std::int64_t count = std::ssize(items);
  std::int64_t scored = 0;
  for (const Item& item : items) scored += room_of(item.nll.size());
  const PassInput in = pass_.input({.sequences = round_up(count, tile_sequences(length)),
                                    .length = length,
                                    .rows = round_up(scored, kRowTile)});
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Item& item = items[static_cast<std::size_t>(i)];
    const std::int64_t inputs = std::ssize(item.ids) - 1;
    std::ranges::copy(item.ids.first(item.ids.size() - 1), in.ids.as<std::int32_t>() + i * length);
    std::int32_t* const positions = in.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + inputs, 0);
    std::ranges::copy(item.ids.last(item.nll.size()), in.labels.as<std::int32_t>() + at);
    std::int32_t* const rows = in.rows.as<std::int32_t>() + at;
    std::iota(rows, rows + item.nll.size(),
              static_cast<std::int32_t>(i * length + inputs - std::ssize(item.nll)));
    at += room_of(item.nll.size());
  }
  if (items.front().likeliest.empty())
    take(items, pass_.on_host(pass_.scores(temperature_)));
  else
    judge(items, pass_.on_host(pass_.logits()));
}

void ScorePass::take(std::span<const Item> items, ConstTensor scores) const {
  with_float_type(scores.dtype(), [&]<class T>() {
    const T* value = scores.as<T>();
    for (const Item& item : items) {
      std::copy_n(value, item.nll.size(), item.nll.begin());
      value += room_of(item.nll.size());
    }
  });
}

void ScorePass::judge(std::span<const Item> items, ConstTensor logits) const {
  struct Row {
    std::int64_t at;
    const Item* item;
    std::size_t token;
  };
  std::vector<Row> rows;
  std::int64_t at = 0;
  for (const Item& item : items) {
    for (std::size_t i = 0; i < item.nll.size(); ++i)
      rows.push_back({at + static_cast<std::int64_t>(i), &item, i});
    at += room_of(item.nll.size());
  }
  with_float_type(logits.dtype(), [&]<class T>() {
    parallel_for(std::ssize(rows), [&](std::int64_t k) {
      const auto& [row, item, i] = rows[static_cast<std::size_t>(k)];
      const auto all = logits.rows(row, row + 1).span<T>();
      const auto top = std::ranges::max_element(all);
      double sum = 0;
      for (const T x : all) sum += std::exp(static_cast<double>(x) - static_cast<double>(*top));
      const auto token =
          static_cast<std::size_t>(item->ids[item->ids.size() - item->nll.size() + i]);
      item->nll[i] = std::log(sum) + static_cast<double>(*top) - static_cast<double>(all[token]);
      item->likeliest[i] = static_cast<std::size_t>(top - all.begin()) == token;
    });
  });
}

}  // namespace mt
