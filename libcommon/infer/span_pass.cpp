#include "infer/span_pass.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "infer/padding.h"

namespace mt {

SpanPass::SpanPass(const Model& model, const Options& options)
    : read_(round_up(options.batch * padded_length(options.read), kRowTile)),
      tokens_(round_up(options.batch * padded_length(options.length), kRowTile)),
      stream_(model.table().device(), options.threads),
      pass_(model, stream_, options.vocab_size) {
  pass_.reserve([&](Pass& pass) {
    const std::int64_t sequences = tokens_ / kRowPeriod;
    for (const std::int64_t count : {sequences, std::int64_t{1}}) {
      pass.input({.sequences = count,
                  .length = tokens_ / count,
                  .rows = tokens_,
                  .read = round_up(read_, count) / count});
      pass.on_host(pass.logits());
    }
  });
}

void SpanPass::run(std::span<const Sample> samples,
                   const std::function<void(std::size_t sample, ConstTensor logits)>& take) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](auto i) { return samples[i].read.size(); });
  for (std::span<const std::size_t> left(order); !left.empty();) {
    std::int64_t read = padded_length(std::ssize(samples[left.front()].read)), length = 0;
    std::size_t count = 0;
    for (; count < left.size(); ++count) {
      const std::int64_t own = padded_length(std::ssize(samples[left[count]].ids)),
                         longer = std::max(length, own),
                         unit = std::max(tile_sequences(read), tile_sequences(longer)),
                         sequences = round_up(static_cast<std::int64_t>(count) + 1, unit);
      if (sequences * read > read_ || sequences * longer > tokens_) break;
      length = longer;
    }
    if (count == 0) {  // too few of its kind fit for all rows to fill tiles: this one alone does
      read = round_up(read, kRowTile);
      length = round_up(std::ssize(samples[left.front()].ids), kRowTile);
      count = 1;
    }
    run_batch(samples, left.first(count), read, length, take);
    left = left.subspan(count);
  }
}

// Behind a text is padding, which nothing sees; samples that fill the batch up are of one token.
void SpanPass::run_batch(std::span<const Sample> samples, std::span<const std::size_t> which,
                         std::int64_t read, std::int64_t length,
                         const std::function<void(std::size_t sample, ConstTensor logits)>& take) {
  const std::int64_t unit = std::max(tile_sequences(read), tile_sequences(length)),
                     sequences = round_up(std::ssize(which), unit);
  const PassInput in = pass_.input(
      {.sequences = sequences, .length = length, .rows = sequences * length, .read = read});
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  const auto put = [](std::span<const std::int32_t> ids, std::int32_t* to, std::int32_t* position) {
    std::ranges::copy(ids, to);
    std::iota(position, position + ids.size(), 0);
  };
  std::ranges::fill(in.memory_lengths.span<std::int32_t>(), 1);
  std::int64_t i = 0;
  for (const std::size_t k : which) {
    put(samples[k].ids, in.ids.as<std::int32_t>() + i * length,
        in.positions.as<std::int32_t>() + i * length);
    put(samples[k].read, in.read.as<std::int32_t>() + i * read,
        in.read_positions.as<std::int32_t>() + i * read);
    in.memory_lengths.as<std::int32_t>()[i++] = static_cast<std::int32_t>(samples[k].read.size());
  }
  const auto rows = in.rows.span<std::int32_t>();
  std::iota(rows.begin(), rows.end(), 0);
  const ConstTensor logits = pass_.on_host(pass_.logits());
  i = 0;
  for (const std::size_t k : which) {
    take(k, logits.rows(i * length, i * length + std::ssize(samples[k].ids)));
    ++i;
  }
}

}  // namespace mt
