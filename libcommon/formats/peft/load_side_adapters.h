// load_side_adapters: adapters of PEFT's that a loaded model has beside its weights, for sequences
// to have one each (nn/side_adapters.h).
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace mt {

// Gives the model these adapters, which are numbered in their order, from 1.  load: the path that
// the model was loaded from; folders: of PEFT's, or of runs that train one.  Exit::no_input where
// there is no adapter, Exit::bad_config for one of another model, or of more than A and B: DoRA's
// magnitudes, and the head of a task.
void load_side_adapters(Model& model, const std::string& load,
                        const std::vector<std::string>& folders);

}  // namespace mt
