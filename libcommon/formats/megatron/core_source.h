// A model in a torch_dist checkpoint of Megatron (model/row_checkpoint.h), as a ModelSource.
#pragma once

#include <set>

#include "ckpt/megatron_checkpoint.h"
#include "formats/megatron/bucket_states.h"
#include "formats/model_source.h"
#include "model/row_checkpoint.h"

namespace mt {

class CoreSource : public ModelSource {
 public:
  CoreSource(const std::string& folder, const ModelSourceOptions& options);

  PyValue common() const override { return common_; }
  const TorchReader* common_tensors() const override {
    return with_buckets_ ? &*with_buckets_ : checkpoint_.common_tensors();
  }
  std::vector<std::string> states() const override { return states_; }
  bool has_states(const Param& row) const override;
  bool is_reformulated() const override { return is_reformulated_ || buckets_; }
  bool is_reshardable() const override { return is_reshardable_; }
  bool has_gaps() const override { return buckets_.has_value(); }
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::string extra_state(const Param& weight) const override {
    return read_extra_state(checkpoint_.tensors(), weight);
  }
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override { checkpoint_.finish_reading(); }
  void check_all_used(const ParamTable& table) const override;

 private:
  // The args, or what says the same of a checkpoint of Megatron Bridge's.
  PyValue read_args();
  void find_buckets();
  void check_buckets(const std::string& type) const;
  // Where a row's state lies, under the keys as this checkpoint spells them.
  std::vector<KeyPart> parts_of(const Param& row, const std::string& state) const;
  // What a state has under a key of the weights.
  std::string key_of(const std::string& state, const std::string& key) const;

  MegatronCheckpoint checkpoint_;
  PyValue common_;
  std::vector<std::string> states_ = {""};
  std::set<std::string> chains_;  // what stands before "optimizer.state."
  bool is_reformulated_ = false, is_reshardable_ = false;
  std::optional<BucketStates> buckets_;
  std::string
      common_file_;  // the common state with the optimizer of buckets_, as torch.save has it
  std::optional<TorchReader> with_buckets_;
};

// `args` with a vocabulary, which Megatron leaves to the tokenizer: the one given, or else its
// padded number.  Exit::bad_config if more is given than that.
PyValue with_vocabulary(const PyValue& args, std::optional<std::int64_t> given,
                        const std::string& where);

}  // namespace mt
