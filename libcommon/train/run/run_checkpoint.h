// RunCheckpoint: a checkpoint that a run goes on from, in Megatron's format torch_dist, torch or
// torch_dcp: its common state, and each row's values as the ranks of the run share them.
#pragma once

#include <memory>
#include <string>

#include "ckpt/megatron_checkpoint.h"
#include "model/config/model_config.h"
#include "tensor/param.h"

namespace mt {

// The state that is the fp32 copy of a weight.
inline constexpr const char* kMaster = "fp32_param";

class RunCheckpoint {
 public:
  virtual ~RunCheckpoint();

  const std::string& folder() const { return folder_; }
  const std::string& where() const { return where_; }  // of common(), for errors
  virtual ModelConfig settings() const = 0;            // completed
  virtual PyValue common() const = 0;                  // a dict
  virtual std::string manifest_extra() const = 0;      // JSON
  // Says which rows will be read, all of a model's as one rank alone has them.  Exit::bad_data for
  // a tensor here that is no row's.
  virtual void take_rows(ParamTable table) = 0;
  // Fills this rank's part of a row, on any device, with the weight or a state of the optimizer's.
  virtual void read(const Param& row, const std::string& state, const Tensor& to) const = 0;
  // What a weight's module remembers (ckpt/te_state.h); empty: nothing.
  virtual std::string extra_state(const Param& weight) const = 0;
  // The state that has the fp32 copy of a row's weight; empty where the weight itself is.
  virtual std::string master_of(const Param& row) const = 0;
  virtual const TorchReader& common_tensors() const = 0;  // that the common state refers to
  // Copies a tensor of the common state (a gradient scaler's) to `out` of equal dtype and shape.
  void read_common_tensor(const PyValue& value, Tensor out) const;

 protected:
  RunCheckpoint(std::string folder, std::string where)
      : folder_(std::move(folder)), where_(std::move(where)) {}

 private:
  std::string folder_, where_;
};

// Of torch_dist each reader checks its part of the files (MegatronCheckpoint); of the others each
// checks all.
std::unique_ptr<RunCheckpoint> open_run_checkpoint(const std::string& folder,
                                                   MegatronCheckpoint::Part verified);

}  // namespace mt
