// What Transformer Engine's linear modules remember of delayed scales, as a Megatron checkpoint has
// it beside each weight, MODULE._extra_state.  Of its version 2 that is a u8 tensor of a pickle, a
// dict:
//   recipe                a transformer_engine.common.recipe.DelayedScaling
//   scale_fwd             f32 [3], of what the module reads, its weight, and what it makes
//   scale_bwd             f32 [2], of the gradient of what it makes, and of what it reads
//   amax_history_fwd, _bwd   f32 [length, 3] and [length, 2]
//   extra_fp8_variables   a dict of what else it knows
// Row 0 of a history is of the step that comes next, and the steps before are in the rows behind
// it, the newest last.  A tensor's storage is inside, a file of torch.save before PyTorch 1.6
// (ckpt/torch_pickles.h).  Other recipes have neither scales nor histories, and a module that
// multiplies no codes is an empty tensor, or None.
//
// Version 1 has a BytesIO with a file of torch.save of such a dict, without a recipe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/torch_file.h"

namespace mt {

struct DelayedRecipe {
  bool hybrid = false;      // gradients are E5M2
  bool most_recent = true;  // else the largest number of a history counts
  int margin = 0;
};

// DelayedScales: what a module remembers of three tensors: what it reads, its weight, and the
// gradient of what it makes.
struct DelayedScales {
  std::array<float, 3> scales = {1, 1, 1};
  // Each has the largest numbers of the steps before, the newest first; all three are as long.
  std::array<std::vector<float>, 3> amaxes = {};
};

// A state is either the pickle or the file that a BytesIO has; empty: there is none.
// It has a row more than there are steps in `scales`.
std::string encode_te_state(const DelayedRecipe& recipe, const DelayedScales& scales);
// Nothing: the state is of no delayed scales.  Exit::bad_data, beginning with `name`.
std::optional<DelayedScales> decode_te_state(const std::string& state, const std::string& name);

// The state that a value of a file has: a tensor, a BytesIO, or None, alone or in a list.
std::string te_state_in(const PyValue& value, const TorchReader& file, const std::string& name);
// The value that has a state, of which `keep` puts a tensor into a file.
PyValue te_state_value(const std::string& state, const std::function<PyValue(ConstTensor)>& keep);

}  // namespace mt
