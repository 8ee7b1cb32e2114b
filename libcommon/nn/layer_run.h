// LayerRun: consecutive layers of a stack that are made again together in the backward, or are not.
#pragma once

#include <cstddef>

namespace mt {

struct LayerRun {
  std::size_t begin = 0, end = 0;
  bool again = false;  // their forward is run again before their backward; else it is one layer
};

}  // namespace mt
