// PassRanks: the ranks that have a model's matrices in parts (model/tensor_part.h), of which each
// makes the same passes, with the same input, at the same time; all get all that a pass returns.
// Each has its part of every expert, which has no biases.
#pragma once

#include "model/tensor_part.h"

namespace mt {

class Group;
class Stream;

struct PassRanks {
  Group* group = nullptr;    // null: this rank has them whole
  Stream* stream = nullptr;  // that passes are queued on, as the group's operations are; with it

  int count() const;
  TensorPart part() const;
};

}  // namespace mt
