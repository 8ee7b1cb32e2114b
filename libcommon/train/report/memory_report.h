// What Megatron-LM prints of memory after the first log line (core_v0.12.1,
// theoretical_memory_usage.py and report_memory), line for line.
#pragma once

#include <string>

namespace mt {

struct ModelConfig;

// The estimate of weights, gradients and optimizer of a rank by its formula, which takes 16-bit
// weights with fp32 gradients and state, 18 bytes a parameter; with the distributed optimizer 6,
// and 12 shared by all ranks.  What a run in fp32 allocates is in memory_text().
std::string theoretical_memory_text(const ModelConfig& model, int ranks,
                                    bool distributed_optimizer);

// "[Rank 0] (after 10 iterations) memory (MB) | allocated: ... | max allocated: ... |": `allocated`
// bytes of a rank, which never change, and as reserved what the process holds of memory.
std::string memory_text(std::int64_t iteration, std::size_t allocated);

double resident_bytes();  // of this process

}  // namespace mt
