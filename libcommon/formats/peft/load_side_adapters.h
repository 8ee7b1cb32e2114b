// load_side_adapters: adapters of PEFT's that a loaded model has beside its weights, for sequences
// to have one each (nn/side_adapters.h).
#pragma once

#include <string>
#include <vector>

#include "model/model.h"

namespace mt {

// An adapter that was read, to be one of the model's (SideAdapters::add()).
struct ReadAdapter {
  std::int64_t rank = 0;
  SideAdapters::Products products;
  std::vector<Buffer> memory;
};
// load: the path that the model was loaded from; folder: of PEFT's, or of a run that trains one.
// Exit::no_input where there is no adapter, Exit::bad_config for one of another model, or of more
// than A and B: DoRA's magnitudes, and the head of a task.
ReadAdapter read_side_adapter(const Model& model, const std::string& load,
                              const std::string& folder);

// Gives the model these adapters, which are numbered in their order, from 1, and, where a rank is
// given, room for others of at most that rank.  Exit::bad_config for a LLaVA.
void load_side_adapters(Model& model, const std::string& load,
                        const std::vector<std::string>& folders, std::int64_t rank_of_others = 0);

}  // namespace mt
