#include "infer/encoder_pass.h"

#include <algorithm>
#include <cassert>
#include <functional>

#include "infer/padding.h"
#include "model/config/model_config.h"

namespace mt {

static Tensor queue(Pass& pass, EncoderPass::Wanted wanted) {
  switch (wanted) {
    case EncoderPass::Wanted::hidden:
      return pass.hidden();
    case EncoderPass::Wanted::pooled:
      return pass.pooled();
    case EncoderPass::Wanted::queries:
    case EncoderPass::Wanted::contexts:
      return pass.vectors(wanted == EncoderPass::Wanted::contexts);
    case EncoderPass::Wanted::logits:
      break;
  }
  return pass.logits();
}

EncoderPass::EncoderPass(const Model& model, const Options& options)
    : wanted_(options.wanted),
      window_(model.config().max_position_embeddings),
      tokens_(room_for(options.batch, window_)),
      stream_(model.table().device(), options.threads),
      pass_(model, stream_, options.vocab_size) {
  pass_.reserve([&](Pass& pass) {  // when all tokens are asked of, of the longest and the shortest
    for (const auto& [sequences, length] : extreme_batches(tokens_, window_)) {
      pass.input({.sequences = sequences, .length = length, .rows = tokens_, .types = true});
      pass.on_host(queue(pass, wanted_));
    }
  });
}

static std::int64_t room(const EncoderPass::Text& text) {
  return round_up(std::ssize(text.asked), kRowPeriod);
}

void EncoderPass::run(std::span<const Text> texts,
                      const std::function<void(std::size_t text, ConstTensor said)>& take) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](auto i) { return texts[i].ids.size(); });
  for (std::span<const std::size_t> left(order); !left.empty();) {
    std::int64_t asked = 0;
    const std::size_t count =
        best_together(left.size(), tokens_, tokens_of_start(stream_.device()), [&](std::size_t i) {
          asked += room(texts[left[i]]);
          return i > 0 && asked > tokens_ ? 0 : std::ssize(texts[left[i]].ids);
        });
    run_batch(
        texts, left.first(count),
        padded_batch(static_cast<std::int64_t>(count), std::ssize(texts[left.front()].ids)).length,
        take);
    left = left.subspan(count);
  }
}

// The padding behind a text is a text of its own, and what is said in between is thrown away.
void EncoderPass::run_batch(std::span<const Text> texts, std::span<const std::size_t> which,
                            std::int64_t length,
                            const std::function<void(std::size_t text, ConstTensor said)>& take) {
  std::int64_t asked = 0;
  for (const std::size_t i : which) asked += room(texts[i]);
  const PassInput in =
      pass_.input({.sequences = round_up(std::ssize(which), tile_sequences(length)),
                   .length = length,
                   .rows = round_up(std::max<std::int64_t>(asked, 1), kRowTile),
                   .types = true});
  std::ranges::fill(in.block.span<std::int32_t>(), 0);
  std::int64_t begin = 0, at = 0;
  for (const std::size_t i : which) {
    const Text& text = texts[i];
    const std::int64_t count = std::ssize(text.ids);
    assert(0 < count && count <= window_);
    std::ranges::copy(text.ids, in.ids.as<std::int32_t>() + begin);
    std::ranges::copy(text.types, in.types.as<std::int32_t>() + begin);
    std::int32_t* const positions = in.positions.as<std::int32_t>() + begin;
    std::iota(positions, positions + count, 0);
    std::fill_n(in.first_key.as<std::int32_t>() + begin + count, length - count,
                static_cast<std::int32_t>(count));
    for (std::size_t k = 0; k < text.asked.size(); ++k)
      in.rows.as<std::int32_t>()[at + static_cast<std::int64_t>(k)] =
          static_cast<std::int32_t>(begin) + text.asked[k];
    begin += length;
    at += room(text);
  }
  const ConstTensor said = pass_.on_host(queue(pass_, wanted_));
  at = 0;
  for (const std::size_t i : which) {
    take(i, said.rows(at, at + std::ssize(texts[i].asked)));
    at += room(texts[i]);
  }
}

}  // namespace mt
