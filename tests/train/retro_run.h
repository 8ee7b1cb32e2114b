// What a run needs to train a Retro, for tests: neighbours without a project, and its options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "train/options/pretrain_options.h"

namespace mt {

// A database of seventy chunks, and neighbours for as many chunks as samples may have: functions of
// their numbers, with none here and there.
class MadeNeighbors final : public RetrievedChunks {
 public:
  std::int64_t size() const override { return 70; }
  void read(std::int64_t chunk, std::span<std::int32_t> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(
          (31 * chunk + 17 * static_cast<std::int64_t>(i) + chunk * chunk % 13) % 200);
  }
  std::int64_t queried(Split) const override { return 1 << 20; }
  std::vector<std::int64_t> neighbors(Split which, std::int64_t first, std::int64_t count,
                                      std::int64_t each) const override {
    std::vector<std::int64_t> found;
    for (std::int64_t i = first; i < first + count; ++i)
      for (std::int64_t n = 0; n < each; ++n) {
        const std::int64_t at = (7 * i + 23 * n + static_cast<std::int64_t>(which)) % 71;
        found.push_back(at == 70 ? -1 : at);
      }
    return found;
  }
};

// Makes a GPT's options those of a Retro whose chunks have so many tokens.
inline void make_retro(PretrainOptions& o, std::int64_t chunk_length) {
  o.retro.add_retriever = true;
  o.retro.project_dir = "made up";
  o.retro.chunk_length = chunk_length;
  o.retro.verify_neighbor_count = false;
  o.choose_type();
  o.data.retro->retrieved = std::make_shared<MadeNeighbors>();
}

}  // namespace mt
