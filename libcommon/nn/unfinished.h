// Unfinished: what is told of a use of parameters that another of the same micro-batch follows: all
// but that their gradients are complete.
#pragma once

#include "tensor/param.h"

namespace mt {

class Unfinished final : public ParamSharing {
 public:
  explicit Unfinished(ParamSharing* told) : told_(told) {}
  void use(const Param& row) override { told_->use(row); }
  bool add_to(const Param& row, Stream& stream) override { return told_->add_to(row, stream); }
  void complete(RowRange, bool) override {}

 private:
  ParamSharing* told_;
};

}  // namespace mt
