// CheckpointPlace: where one checkpoint of a folder of them lies (ckpt/megatron_checkpoint.h).
#pragma once

#include <cstdint>
#include <string>

namespace mt {

struct CheckpointPlace {
  std::string folder;          // SAVE/iter_0001000 or SAVE/release
  std::int64_t iteration = 0;  // 0 for a release
  bool release = false;
};

}  // namespace mt
