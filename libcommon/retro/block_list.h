// Blocks: the files that a stage of Retro's preprocessing divides its items among, as Megatron-LM
// core_v0.12.1 names them (megatron/core/datasets/retro/utils.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/item_range.h"

namespace mt {

struct RetroBlock {
  ItemRange items;
  std::string file;  // "00000-10000.hdf5"
};

// All blocks of `count` items, at least 1, with `size` each, but for the last.
std::vector<RetroBlock> retro_blocks(std::int64_t count, std::int64_t size);

}  // namespace mt
