// Neighbours as a Retro reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mt {

class Tokenizer;
struct RetroConfig;

// Texts as the neighbours of a chunk, [retro_num_neighbors, retrieved_length]: of each the first
// tokens, and ends of document behind them and for those that there are less.  Exit::bad_data where
// there are none, or more than the model's, and for tokens that are none of its `vocab_size`.
std::vector<std::int32_t> neighbor_input(const RetroConfig& config, const Tokenizer& tokenizer,
                                         std::int64_t vocab_size,
                                         std::span<const std::string> texts);

}  // namespace mt
