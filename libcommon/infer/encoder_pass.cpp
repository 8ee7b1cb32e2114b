#include "infer/encoder_pass.h"

#include <algorithm>
#include <cassert>
#include <functional>

#include "infer/padding.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "ops/text_means.h"
#include "tensor/device.h"

namespace mt {

static Tensor queue(Pass& pass, EncoderPass::Wanted wanted) {
  switch (wanted) {
    case EncoderPass::Wanted::hidden:
    case EncoderPass::Wanted::means:
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
  if (wanted_ != Wanted::means) return;
  const auto texts = static_cast<std::size_t>(tokens_ / kRowPeriod),
             columns = static_cast<std::size_t>(model.config().hidden_size);
  spans_ = Buffer(stream_.device(), 2 * texts * sizeof(std::int32_t));
  means_ = Buffer(stream_.device(), texts * columns * size_of(sum_dtype(model.table().dtype())));
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
  std::vector<std::int32_t> spans;
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
    spans.push_back(static_cast<std::int32_t>(at));
    begin += length;
    at += room(text);
  }
  const Tensor states = queue(pass_, wanted_);
  if (wanted_ == Wanted::means) {
    for (const std::size_t i : which)
      spans.push_back(static_cast<std::int32_t>(texts[i].asked.size()));
    const ConstTensor said = pass_.on_host(means(states, spans));
    for (std::int64_t i = 0; i < std::ssize(which); ++i)
      take(which[static_cast<std::size_t>(i)], said.rows(i, i + 1));
    return;
  }
  const ConstTensor said = pass_.on_host(states);
  at = 0;
  for (const std::size_t i : which) {
    take(i, said.rows(at, at + std::ssize(texts[i].asked)));
    at += room(texts[i]);
  }
}

Tensor EncoderPass::means(ConstTensor states, const std::vector<std::int32_t>& spans) {
  const std::int64_t texts = std::ssize(spans) / 2;
  const Tensor here = spans_.tensor(DType::i32, {2, texts});
  if (stream_.device() == Device::cuda)
    device::copy(here.data(), spans.data(), here.bytes(), stream_.handle());
  else
    std::ranges::copy(spans, here.as<std::int32_t>());
  const Tensor means = means_.tensor(states.dtype(), {texts, states.shape()[1]});
  text_means(means, states, here.rows(0, 1).reshape({texts}), here.rows(1, 2).reshape({texts}),
             stream_);
  return means;
}

}  // namespace mt
