// A model in a plain distributed checkpoint of PyTorch: what torch.distributed.checkpoint.save()
// makes of a Megatron-Core model's state_dict(), and of Megatron-LM's state with --ckpt-format
// torch_dcp.  Keys are the parameters' names, each layer's with its number, below a common prefix
// ("model."); the settings are the object `args`, or a config.json of Hugging Face's beside it.
// One with Hugging Face's names is a HuggingFaceSource.  Of Megatron-LM's state there may be the
// optimizer, as a single rank in the torch format has it (formats/megatron/rank_optimizer.h).
#pragma once

#include "ckpt/dist_checkpoint.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/model_source.h"

namespace mt {

// Whether a folder is a plain distributed checkpoint of a Megatron-Core model.
bool is_core_dcp(const std::string& folder);
bool is_core_dcp_with_args(const std::string& folder);  // and says what its settings are

class DcpSource : public ModelSource {
 public:
  DcpSource(const std::string& folder, const ModelSourceOptions& options);

  PyValue common() const override { return common_; }
  const TorchReader* common_tensors() const override { return args_ ? &*args_ : nullptr; }
  std::vector<std::string> states() const override { return states_; }
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::string extra_state(const Param& weight) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void check_all_used(const ParamTable& table) const override;

 private:
  void read_args(const ModelSourceOptions& options);
  void read_config_json();
  void read_common(bool with_optimizer);
  void take_optimizer(const PyValue& optimizer);
  PyValue item(const std::string& key) const;
  const DistTensor& stored(const Param& row, const std::string& state) const;

  // Whether the row is a bias that the model here does not have: zeros.
  bool is_lacking(const Param& row) const;

  DistReader tensors_;
  LackingBiases lacking_;
  std::string prefix_;
  PyValue common_;
  std::optional<TorchReader> args_;
  std::vector<std::string> states_ = {""};
  std::map<std::pair<std::size_t, std::string>, std::string> state_keys_;  // by the row's number
};

}  // namespace mt
