// A GPT in a torch_dist checkpoint: its parameters under their keys, and what an optimizer
// remembers of each under prefixed keys.  model/config/megatron_args.h has its settings.
#pragma once

#include <string>

#include "ckpt/megatron_checkpoint.h"
#include "tensor/param.h"

namespace mt {

struct ModelConfig;

// A tensor of a row's part here, its value or an optimizer's, under PREFIX + its key; stacked rows,
// and parts of those that ranks share, are chunks of one tensor.
void write_row(DistWriter& writer, const Param& row, const std::string& prefix,
               const Tensor& tensor);
// Megatron's shape of a distributed optimizer's state of a row: (layers, others, ..., cut, ...,
// others, last) of a stacked one, without layers of another; `cut` stands for the dimension that
// tensor-parallel ranks share.
Shape reformulated(const Param& row, std::int64_t layers, std::int64_t others, std::int64_t cut,
                   std::int64_t last);
// The empty objects that Megatron asks for beside the parameters: Transformer Engine's extra
// states.
void write_extra_states(DistWriter& writer, const ModelConfig& config);

bool is_vocabulary(const Param& row);  // has a row for each token

// A tensor in the checkpoint that is neither a row's nor an optimizer's is Exit::bad_data.
void check_all_used(const DistReader& reader, const ParamTable& table);

// Fills every row's value, this rank's part of it.  A missing key or another shape is
// Exit::bad_data, naming it; only of the vocabulary's rows may there be fewer or more, and rows
// that are missing become zeros.
void read_rows(const DistReader& reader, ParamTable& table, const std::string& prefix = {});
void read_row(const DistReader& reader, const Param& row, const std::string& prefix,
              const Tensor& to);

}  // namespace mt
