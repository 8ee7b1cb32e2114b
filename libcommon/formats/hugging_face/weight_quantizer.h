// Matrices as the tensors that stand for them in the formats of weight_scheme.h.
#pragma once

#include <map>
#include <span>
#include <string>

#include "formats/hugging_face/weight_scheme.h"
#include "tensor/buffer.h"

namespace mt {

// What matrices that are computed with together have in common.
struct SharedRange {
  float weights = 0;  // the largest |x| of all of them
  float inputs = 0;   // and of what they read, where the scheme is of static inputs
};

// QuantizedMatrix: those tensors, made of the matrix.
class QuantizedMatrix : public TensorSource {
 public:
  // The matrix holds finite numbers alone, which the caller has seen to.
  QuantizedMatrix(const WeightScheme& scheme, const std::string& name, ConstTensor matrix,
                  const SharedRange& range);

  const std::string& path() const override { return name_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  ConstTensor value(const std::string& key) const;

 private:
  std::string name_;
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, Buffer> values_;
};

// The largest |x| of a matrix.
float largest_of(ConstTensor matrix);

// The scale of numbers that have one together, and which of -8 ... 7 one of them is.
float scale_of_four_bits(std::span<const float> numbers, DType dtype = DType::f32);
int four_bits_of(float number, float scale);
// The bits of the number of E2M1 that is nearest to one, the even of two.
unsigned e2m1_of(float number);

// Fills `out`, which may be the matrix itself, with what is read of a QuantizedMatrix of it.
void round_to_format(const WeightScheme& scheme, const std::string& name, Tensor out,
                     ConstTensor matrix, const SharedRange& range);

// Exit::bad_config where what is read of a QuantizedMatrix of finite numbers is not finite, as what
// is rounded away from zero near its type's largest number.
void check_room(const WeightScheme& scheme, const std::string& name, ConstTensor matrix,
                const SharedRange& range);

}  // namespace mt
