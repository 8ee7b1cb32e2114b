// A step's report, for tests of what is made of it.
#pragma once

#include "train/run/step_report.h"

namespace mt {

inline const StepReport kReport{.iteration = 20,
                                .consumed_samples = 320,
                                .global_batch_size = 16,
                                .tokens = 1024,
                                .losses = {{"lm loss", 3.25}},
                                .grad_norm = 0.75,
                                .learning_rate = 0.0005,
                                .next_learning_rate = 0.00025,
                                .seconds = 0.5};

}  // namespace mt
