#include "infer/runner.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>

#include "infer/token_steps.h"
#include "model/config/model_config.h"
#include "nn/inference.h"
#include "ops/ops.h"

namespace mt {
namespace {

// Tokens of one sequence that a GPU takes at once: what lies between the layers stays small, and
// the products are large enough.
constexpr std::int64_t kPiece = 4096;

std::int64_t piece_of(const ModelConfig& config, Device device) {
  return device == Device::cpu ? config.max_position_embeddings
                               : std::min(config.max_position_embeddings, kPiece);
}

// `slot`: of a sequence that runs alone.
Tensor next_logits(const Gpt& model, Stream& stream, Arena& layer, const RunnerInput& input,
                   const KvCache& cache, std::int64_t longest, std::optional<std::int64_t> slot,
                   std::int64_t vocab_size) {
  Inference inference(stream, layer, model.table().dtype(), input.sequences(), input.positions);
  Step& s = inference.step;
  s.past = {.cache = &cache, .longest = longest};
  if (slot) {
    s.past.slot = slot;
  } else {
    s.past.slots = input.slots;
    s.past.lengths = input.lengths;
  }
  return model.logits(s, input.ids, input.last, vocab_size);
}

KvCache make_cache(const ModelConfig& c, Device device, DType dtype, std::int64_t sequences) {
  return {device,
          dtype,
          c.num_layers,
          {sequences, c.max_position_embeddings, c.kv_heads(), c.head_dim()}};
}

struct Memory {
  std::size_t layer, work;  // bytes of the arena and of a GPU's scratch
};

// For the longest input of one sequence and for a token of each.
Memory measure(const ModelConfig& config, DType dtype, Device device,
               const Runner::Options& options) {
  Stream meta(Device::meta);
  Gpt model(config);
  model.table().allocate(Device::meta, dtype, false);
  const KvCache cache = make_cache(config, Device::meta, dtype, options.sequences);
  Arena layer(Buffer(Device::meta, kMeasuring));
  const auto run = [&](std::int64_t sequences, std::int64_t length,
                       std::optional<std::int64_t> slot) {
    const ArenaScope scope(layer);
    const auto alloc = [&] {
      return layer.alloc(DType::i32, {RunnerInput::size(sequences, length)});
    };
    const RunnerInput input(alloc(), sequences, length);
    const Tensor logits = next_logits(model, meta, layer, input, cache,
                                      config.max_position_embeddings, slot, options.vocab_size);
    alloc();
    sample({.tokens = input.slots, .choices = input.choices, .logits = logits}, meta);
  };
  run(1, piece_of(config, device), 0);
  run(std::min(options.sequences, Runner::kTogether), 1, {});
  return {layer.peak_bytes(), meta.work_bytes()};
}

}  // namespace

Runner::~Runner() = default;

std::int64_t Runner::max_tokens() const { return model_.config().max_position_embeddings; }

Runner::Runner(const Gpt& model, const Options& options)
    : model_(model),
      vocab_size_(options.vocab_size),
      stream_(model.table().device(), options.threads),
      cache_(
          make_cache(model.config(), stream_.device(), model.table().dtype(), options.sequences)),
      lengths_(static_cast<std::size_t>(options.sequences)) {
  const Memory memory = measure(model.config(), model.table().dtype(), stream_.device(), options);
  layer_ = Arena(Buffer(stream_.device(), memory.layer));
  if (stream_.device() != Device::cuda) return;
  stream_.reserve_work(memory.work);
  const std::int64_t piece = piece_of(model.config(), Device::cuda);
  const std::int64_t together = std::min(options.sequences, kTogether);
  steps_ = std::make_unique<TokenSteps>(
      stream_, together, max_tokens(),
      [this](const RunnerInput& in, const Tensor& shown, std::int64_t longest) {
        layer_.rewind(0);
        const Tensor logits =
            mt::next_logits(model_, stream_, layer_, in, cache_, longest, {}, vocab_size_);
        sample({.tokens = in.ids,
                .choices = in.choices,
                .positions = in.positions,
                .lengths = in.lengths,
                .shown = shown,
                .logits = logits},
               stream_);
      });
  const std::int64_t input = std::max(RunnerInput::size(1, piece), RunnerInput::size(together, 1));
  input_ = Buffer::pinned(static_cast<std::size_t>(input) * sizeof(std::int32_t));
  logits_ = Buffer::pinned(static_cast<std::size_t>(together * vocab_size_) * sizeof(float));
}

ConstTensor Runner::next_logits(std::int64_t sequence, std::span<const std::int32_t> ids) {
  const auto piece = static_cast<std::size_t>(piece_of(model_.config(), stream_.device()));
  for (; ids.size() > piece; ids = ids.subspan(piece)) {
    run({&sequence, 1}, ids.first(piece));
    stream_.synchronize();  // the next input's place is that of this one
  }
  return on_host(run({&sequence, 1}, ids));
}

ConstTensor Runner::next_logits(std::span<const std::int64_t> sequences,
                                std::span<const std::int32_t> ids) {
  assert(sequences.size() == ids.size() && static_cast<std::int64_t>(ids.size()) <= kTogether);
  return on_host(run(sequences, ids));
}

std::span<const std::int32_t> Runner::next_tokens(std::span<const std::int64_t> sequences,
                                                  std::span<const std::int32_t> ids,
                                                  std::span<const Choice> choices) {
  assert(sequences.size() == ids.size() && sequences.size() == choices.size() &&
         static_cast<std::int64_t>(ids.size()) <= kTogether);
  if (steps_)
    return steps_->next({.sequences = {sequences.begin(), sequences.end()},
                         .ids = {ids.begin(), ids.end()},
                         .choices = {choices.begin(), choices.end()}},
                        lengths_);
  const Tensor logits = run(sequences, ids);
  const auto count = static_cast<std::int64_t>(ids.size());
  const RunnerInput input(layer_.alloc(DType::i32, {RunnerInput::size(count, 1)}), count, 1);
  std::memcpy(input.choices.data(), choices.data(), input.choices.bytes());
  sample({.tokens = input.ids, .choices = input.choices, .logits = logits}, stream_);
  return input.ids.span<std::int32_t>();
}

// Several sequences, or one that has a single token more, run by their slots and lengths in the
// input, which a GPU reads.
Tensor Runner::run(std::span<const std::int64_t> sequences, std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(sequences.size());
  const std::int64_t length = static_cast<std::int64_t>(ids.size()) / count;
  const Shape size{RunnerInput::size(count, length)};
  if (steps_) steps_->forget();
  layer_.rewind(0);
  const RunnerInput input(layer_.alloc(DType::i32, size), count, length);
  const bool gpu = stream_.device() == Device::cuda;
  const RunnerInput host(gpu ? input_.tensor(DType::i32, size) : input.block, count, length);
  std::ranges::copy(ids, host.ids.as<std::int32_t>());
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t slot = sequences[static_cast<std::size_t>(i)];
    std::int64_t& seen = lengths_[static_cast<std::size_t>(slot)];
    assert(length > 0 && seen + length <= max_tokens());
    std::int32_t* const positions = host.positions.as<std::int32_t>() + i * length;
    std::iota(positions, positions + length, static_cast<std::int32_t>(seen));
    seen += length;
    host.last.as<std::int32_t>()[i] = static_cast<std::int32_t>((i + 1) * length - 1);
    host.slots.as<std::int32_t>()[i] = static_cast<std::int32_t>(slot);
    host.lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(seen);
    longest = std::max(longest, seen);
  }
  if (gpu)
    device::copy(input.block.data(), host.block.data(), host.block.bytes(), stream_.handle());
  const auto slot = length > 1 ? std::optional(sequences.front()) : std::nullopt;
  return mt::next_logits(model_, stream_, layer_, input, cache_, longest, slot, vocab_size_);
}

ConstTensor Runner::on_host(const Tensor& logits) {
  if (stream_.device() != Device::cuda) return logits;
  const Tensor host = logits_.tensor(logits.dtype(), logits.shape());
  device::copy(host.data(), logits.data(), logits.bytes(), stream_.handle());
  stream_.synchronize();
  return host;
}

}  // namespace mt
