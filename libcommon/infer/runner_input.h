// RunnerInput: what the host tells a step of a Runner, in one block of i32, so that a GPU gets it
// in one copy: of `sequences` sequences, `length` tokens each.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/sample.h"
#include "tensor/tensor.h"

namespace mt {

struct RunnerInput {
  Tensor block;           // all of it
  Tensor choices;         // [sequences] Choice, as bytes: of next_tokens()
  Tensor ids, positions;  // [sequences length]
  Tensor last;            // [sequences]: the rows of their last tokens
  Tensor slots, lengths;  // [sequences]: as in CachedPast

  static std::int64_t size(std::int64_t sequences, std::int64_t length) {
    return sequences * (kOfChoice + 3 + 2 * length);
  }
  RunnerInput(const Tensor& all, std::int64_t sequences, std::int64_t length) : block(all) {
    std::int64_t at = 0;
    const auto take = [&](std::int64_t count) {
      const std::int64_t begin = std::exchange(at, at + count);
      return block.rows(begin, at);
    };
    const Tensor words = take(sequences * kOfChoice);  // first, as they are aligned to 8 bytes
    choices = {words.data(), DType::u8, {static_cast<std::int64_t>(words.bytes())}, all.device()};
    ids = take(sequences * length);
    positions = take(sequences * length);
    last = take(sequences);
    slots = take(sequences);
    lengths = take(sequences);
  }
  std::int64_t sequences() const { return last.numel(); }

 private:
  static constexpr std::int64_t kOfChoice = sizeof(Choice) / sizeof(std::int32_t);
  static_assert(sizeof(Choice) % sizeof(std::int32_t) == 0);
};

}  // namespace mt
