// check_before_data: what a run's options contradict is told before its data is read, which may
// take long, and may have to say how long the run is.
#pragma once

#include <cstdint>

namespace mt {

// After take_vocabulary(), on options that are completed when the data is there.
template <class Options>
void check_before_data(Options options) {
  auto& length = options.run.length;
  if (length.train_iters == 0 && length.train_samples == 0)
    length.data_samples = std::int64_t{1} << 40;
  options.complete();
}

}  // namespace mt
