// Weights that gpt-oss has in four bits (MXFP4: Open Compute Project, OCP Microscaling Formats
// v1.0, section 6.3), as the bf16 tensors of the same model: NAME of [experts, in, out] is there as
//   NAME_blocks  [experts, out, in / 32, 16] u8: two numbers each, the low four bits the first's
//   NAME_scales  [experts, out, in / 32] u8
// A number is E2M1's, of which bit 3 is the sign, times 2^(scale - 127): exact in bf16, but for
// those beyond its largest, which become infinite.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ckpt/tensor_source.h"

namespace mt {

class Mxfp4Tensors : public TensorSource {
 public:
  // Exit::bad_data for blocks and scales that do not belong together.
  explicit Mxfp4Tensors(std::unique_ptr<TensorSource> stored);
  // Whether any tensor is in four bits.
  static bool are_in(const TensorSource& stored);

  const std::string& path() const override { return stored_->path(); }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  std::optional<MappedTensor> view(const std::string& key, const Shape& offset,
                                   const Shape& shape) const override;

 private:
  bool is_packed(const std::string& key) const { return stored_->find(key) == nullptr; }

  std::unique_ptr<TensorSource> stored_;
  std::map<std::string, DistTensor> tensors_;
};

}  // namespace mt
