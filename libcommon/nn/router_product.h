// RouterProduct: the logits W x + b of a router, of the Step's type; or of the type of sums, where
// what they are made of is cast to a wider one before it is multiplied, as is what their gradient
// is multiplied with (Megatron-LM's --moe-router-dtype).  x: [rows, hidden_size]; logits: [rows,
// experts].
#pragma once

#include <cstdint>

#include "nn/step.h"

namespace mt {

// What a router multiplies in: the Step's type, or this one where that is narrower.
enum class RouterType : std::uint8_t { own, f32, f64 };

class RouterProduct {
 public:
  RouterProduct(const Param& weight, const Param* bias, RouterType type)
      : weight_(&weight), bias_(bias), type_(type) {}

  const Param& weight() const { return *weight_; }
  std::int64_t experts() const { return weight_->shape[0]; }
  DType dtype(const Step& s) const;  // of the logits

  void forward(Step& s, Tensor logits, ConstTensor x) const;
  // dx = W^T d_logits, or dx plus that.  When weight gradients are deferred, d_logits and x must
  // live until they are run.
  void backward(Step& s, Tensor dx, ConstTensor d_logits, ConstTensor x, bool accumulate) const;

 private:
  bool is_wide(const Step& s) const;  // whether anything is cast
  DType sums() const { return type_ == RouterType::f64 ? DType::f64 : DType::f32; }

  const Param* weight_;
  const Param* bias_;  // or null
  RouterType type_;
};

}  // namespace mt
