#include "train/run/run_checkpoint.h"

#include <algorithm>
#include <map>

#include "formats/model_source.h"
#include "model/config/megatron_args.h"
#include "model/row_checkpoint.h"
#include "tensor/host_copy.h"
#include "train/run/foreign_model.h"

namespace mt {

RunCheckpoint::~RunCheckpoint() = default;

void RunCheckpoint::read_common_tensor(const PyValue& value, Tensor out) const {
  const StoredTensor stored = common_tensors().tensor(value);
  if (stored.dtype != out.dtype() || !(stored.shape == out.shape()))
    fail(Exit::bad_data, where(), ": a tensor is ", name_of(stored.dtype), stored.shape,
         ", expected ", name_of(out.dtype()), out.shape());
  stored.copy_to(out);
}

namespace {

class DistRun : public RunCheckpoint {
 public:
  DistRun(const std::string& folder, MegatronCheckpoint::Part verified)
      : RunCheckpoint(folder, folder + ": common.pt"), checkpoint_(folder, verified) {}

  ModelConfig settings() const override {
    const auto has_tensor = [&](const std::string& name) {
      return checkpoint_.tensors().find(name) != nullptr;
    };
    return model_config_of(checkpoint_.common().at("args", where()), has_tensor, where());
  }
  PyValue common() const override { return checkpoint_.common(); }
  std::string manifest_extra() const override { return checkpoint_.manifest_extra(); }
  void take_rows(ParamTable table) override { check_all_used(checkpoint_.tensors(), table); }
  void read(const Param& row, const std::string& state, const Tensor& to) const override {
    read_row(checkpoint_.tensors(), row, state, to);
  }
  std::string extra_state(const Param& weight) const override {
    return read_extra_state(checkpoint_.tensors(), weight);
  }
  std::string master_of(const Param& row) const override {
    const std::string key = key_of(row, {.of_state = true});
    for (const char* state : {"param", kMaster})  // the former in fully_reshardable
      if (checkpoint_.tensors().find(state_prefix(state) + key) != nullptr) return state;
    return {};
  }
  const TorchReader& common_tensors() const override { return *checkpoint_.common_tensors(); }

 private:
  MegatronCheckpoint checkpoint_;
};

class SourceRun : public RunCheckpoint {
 public:
  explicit SourceRun(const std::string& folder)
      : RunCheckpoint(folder, folder), source_(open_model(folder, {.with_optimizer = true})) {}

  ModelConfig settings() const override { return source_->config(); }
  PyValue common() const override { return source_->common(); }
  std::string manifest_extra() const override { return source_->manifest_extra(); }
  void take_rows(ParamTable table) override {
    source_->check_all_used(table);
    table_ = std::move(table);
    for (const Param& row : table_.rows()) rows_[row.name()] = &row;
  }
  void read(const Param& row, const std::string& state, const Tensor& to) const override {
    const Param& whole = *rows_.at(row.name());
    const Buffer buffer(Device::cpu,
                        static_cast<std::size_t>(whole.shape.numel()) * size_of(to.dtype()));
    const Tensor all = buffer.tensor(to.dtype(), whole.shape);
    source_->read(whole, state, all);
    const HostCopy here = HostCopy::for_writing(to);
    copy_part(row, all, here.tensor());
    here.upload();
  }
  std::string extra_state(const Param& weight) const override {
    return source_->extra_state(*rows_.at(weight.name()));
  }
  std::string master_of(const Param& /*row*/) const override {
    const std::vector<std::string> states = source_->states();
    return std::ranges::find(states, kMaster) != states.end() ? kMaster : "";
  }
  const TorchReader& common_tensors() const override { return *source_->common_tensors(); }

 private:
  std::unique_ptr<ModelSource> source_;
  ParamTable table_;
  std::map<std::string, const Param*> rows_;
};

}  // namespace

std::unique_ptr<RunCheckpoint> open_run_checkpoint(const std::string& folder,
                                                   MegatronCheckpoint::Part verified) {
  if (detect_checkpoint_format(folder) == CheckpointFormat::torch_dist)
    return std::make_unique<DistRun>(folder, verified);
  return std::make_unique<SourceRun>(folder);
}

}  // namespace mt
