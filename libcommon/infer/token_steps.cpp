#include "infer/token_steps.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/device.h"

namespace mt {

static std::size_t bytes_of(std::int64_t words) {
  return static_cast<std::size_t>(words) * sizeof(std::int32_t);
}

TokenSteps::TokenSteps(Stream& stream, std::int64_t together, std::int64_t max_tokens,
                       Forward forward)
    : stream_(stream),
      max_tokens_(max_tokens),
      forward_(std::move(forward)),
      input_(Device::cuda, bytes_of(RunnerInput::size(together, 1))),
      host_(Buffer::pinned(bytes_of(RunnerInput::size(together, 1) + 2 * together))),
      shown_(host_.tensor(DType::i32, {together, 2}, input_.bytes())) {
  for (EventHandle& done : done_) done = device::make_event();
}

TokenSteps::~TokenSteps() {
  for (const EventHandle done : done_) device::destroy_event(done);
}

void TokenSteps::send(const Turn& turn, std::span<const std::int64_t> lengths) {
  const auto count = static_cast<std::int64_t>(turn.sequences.size());
  const Shape size{RunnerInput::size(count, 1)};
  stream_.synchronize();  // the input before has left
  const RunnerInput host(host_.tensor(DType::i32, size), count, 1);
  std::memcpy(host.choices.data(), turn.choices.data(), host.choices.bytes());
  std::ranges::copy(turn.ids, host.ids.as<std::int32_t>());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t slot = turn.sequences[static_cast<std::size_t>(i)];
    const auto seen = static_cast<std::int32_t>(lengths[static_cast<std::size_t>(slot)]);
    host.positions.as<std::int32_t>()[i] = seen;
    host.last.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
    host.slots.as<std::int32_t>()[i] = static_cast<std::int32_t>(slot);
    host.lengths.as<std::int32_t>()[i] = seen + 1;
  }
  device::copy(input_.data(), host.block.data(), host.block.bytes(), stream_.handle());
}

void TokenSteps::queue(std::int64_t sequences, std::int64_t longest) {
  constexpr std::int64_t kFewest = 256;  // keys of a graph
  const auto rounded = std::bit_ceil(static_cast<std::uint64_t>(std::max(longest, kFewest)));
  const std::int64_t keys = std::min(max_tokens_, static_cast<std::int64_t>(rounded));
  const RunnerInput input(input_.tensor(DType::i32, {RunnerInput::size(sequences, 1)}), sequences,
                          1);
  graphs_.run(stream_, {sequences, keys}, [&] { forward_(input, shown_, keys); });
  device::record(done_[queued_++ % 2], stream_.handle());
}

std::span<const std::int32_t> TokenSteps::next(const Turn& turn, std::span<std::int64_t> lengths) {
  const auto count = static_cast<std::int64_t>(turn.sequences.size());
  const bool runs = running_ahead_ && turn == ahead_;
  if (!runs) send(turn, lengths);
  std::int64_t longest = 0;
  for (const std::int64_t slot : turn.sequences)
    longest = std::max(longest, ++lengths[static_cast<std::size_t>(slot)]);
  if (!runs) queue(count, longest);
  const EventHandle done = done_[(queued_ - 1) % 2];
  running_ahead_ = longest < max_tokens_;
  if (running_ahead_) queue(count, longest + 1);
  device::wait(done);
  const auto* const shown = shown_.as<std::int32_t>();
  tokens_.resize(turn.choices.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    tokens_[i] = shown[2 * i + turn.choices[i].place.token % 2];
  if (std::ranges::find(tokens_, -1) != tokens_.end())
    fail(Exit::bad_data, "the model's logits are not numbers");
  if (!running_ahead_) return tokens_;
  ahead_ = turn;
  ahead_.ids = tokens_;
  for (Choice& choice : ahead_.choices) ++choice.place.token;
  return tokens_;
}

}  // namespace mt
