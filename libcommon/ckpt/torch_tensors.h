// The tensors of a torch.save file (ckpt/torch_file.h) by name: a state dict, as Hugging Face's
// pytorch_model.bin and Meta's consolidated.00.pth are.  A tensor in nested dicts, lists and tuples
// is called by its keys and places, joined by dots; a key of several types is "(torch.bfloat16,
// torch.float32)".
#pragma once

#include <map>
#include <string>

#include "ckpt/tensor_source.h"
#include "ckpt/torch_file.h"

namespace mt {

class TorchTensors : public TensorSource {
 public:
  explicit TorchTensors(const std::string& path);  // Exit::bad_data if there are no tensors
  const std::string& path() const override { return file_.path(); }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  // Whether both are there, and stand for the same elements of the file.
  bool are_one(const std::string& a, const std::string& b) const;

 private:
  void add(const std::string& name, const PyValue& value);

  MappedFile file_;
  TorchReader archive_;
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, PyValue> values_;
};

// A checkpoint of Megatron's torch format, or of Meta's, as it lies in its files: tensors of each
// rank by themselves, under the rank's folder or file and the tensor's keys:
// mp_rank_00_001/model.decoder.…, mp_rank_00_001/distrib_optim.0.…, consolidated.00/layers.…
class RankTensors : public TensorSource {
 public:
  explicit RankTensors(const std::string& folder);
  const std::string& path() const override { return folder_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;

 private:
  // `beginning` stands before the names of its tensors.
  void add(const std::string& file, const std::string& beginning);

  std::string folder_;
  std::map<std::string, std::unique_ptr<TorchTensors>> files_;  // by what names begin with
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, std::string> beginnings_;  // of the names
};

}  // namespace mt
