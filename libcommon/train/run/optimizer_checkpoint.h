// What a training checkpoint keeps of the optimizer and its schedule, in Megatron's form.
//
// Tensors, for every trainable row (core_v0.12.1):
//   without --use-distributed-optimizer, and of Muon   optimizer.state.NAME.KEY, like the row
//   itself with it                                            the same keys and fp32_param, in
//   Megatron's
//       `fully_sharded_model_space`: shape (layers, 1, ..., elements of a row), which chunks of any
//       length tile; mcore_data keeps the shape that it stands for.  Of a row that tensor-parallel
//       ranks share, a 1 is the number of its parts, and the last axis has the elements of one
// NAME: exp_avg and exp_avg_sq (Adam), momentum_buffer (SGD, Muon).  Either is read on any number
// of ranks, with the distributed optimizer or without,
// and from the other formats as RunCheckpoint reads them.
#pragma once

#include "optim/optimizer.h"
#include "optim/param_schedule.h"
#include "train/run/run_checkpoint.h"

namespace mt {

// This rank's part: of the distributed optimizer its pieces, else all of its rows.
void write_optimizer(DistWriter& writer, const Optimizer& optimizer);

// `optimizer` of the common state: groups of parameters, steps, loss scale.
PyValue make_optimizer(const Optimizer& optimizer, const ParamTable& table,
                       const ParamSchedule& schedule, std::int64_t scheduled_samples,
                       TorchWriter& tensors);
// `opt_param_scheduler` of the common state.
PyValue make_scheduler(const ParamSchedule& schedule, std::int64_t scheduled_samples);
// The original shapes of reformulated tensors.
PyValue make_mcore_data(const Optimizer& optimizer, const ParamTable& table);

// Every rank reads its pieces.  Exit::bad_data names what is missing.
void load_optimizer(const RunCheckpoint& checkpoint, Optimizer& optimizer);
// Merges the checkpoint's schedule into this one and returns the samples that it has consumed.
std::int64_t load_scheduler(const RunCheckpoint& checkpoint, ParamSchedule& schedule);

}  // namespace mt
