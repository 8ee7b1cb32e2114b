// The arrays of Megatron-LM's indexes, as goldens have their hashes, from what readers of an index
// ask it for.
#pragma once

#include <cstdint>
#include <vector>

#include "data/samples/blend_index.h"
#include "data/samples/gpt_index.h"

namespace mt {

inline std::vector<std::int32_t> sample_index_of(const GptIndex& index) {
  std::vector<std::int32_t> rows;
  for (std::int64_t row = 0; row <= index.size(); ++row) {
    const SamplePlace place = index.sample(row);
    rows.push_back(static_cast<std::int32_t>(place.position));
    rows.push_back(static_cast<std::int32_t>(place.offset));
  }
  return rows;
}

inline std::vector<std::uint32_t> shuffle_index_of(const GptIndex& index) {
  std::vector<std::uint32_t> order;
  for (std::int64_t k = 0; k < index.size(); ++k)
    order.push_back(static_cast<std::uint32_t>(index.shuffled(k)));
  return order;
}

inline std::vector<std::int64_t> dataset_sample_index_of(const BlendIndex& index) {
  std::vector<std::int64_t> samples;
  for (std::int64_t k = 0; k < index.size(); ++k) samples.push_back(index.place(k).sample);
  return samples;
}

}  // namespace mt
