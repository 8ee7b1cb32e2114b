// Tensors spread over files of one folder, which an index names:
//   {"metadata": {...}, "weight_map": {TENSOR: FILE, ...}}
// Each FILE is a safetensors file or one of torch.save, beside the index; together they hold just
// the tensors of the map.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ckpt/tensor_source.h"

namespace mt {

class IndexedTensors : public TensorSource {
 public:
  explicit IndexedTensors(const std::string& path);

  const std::string& path() const override { return path_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  std::optional<MappedTensor> view(const std::string& key, const Shape& offset,
                                   const Shape& shape) const override;

 private:
  std::string path_;
  std::map<std::string, std::unique_ptr<TensorSource>> files_;  // by name
  std::map<std::string, DistTensor> tensors_;
};

}  // namespace mt
