// Rows of a model in a torch_dist checkpoint, under their keys (model/keys.h): their values, and
// what an optimizer remembers of each, under prefixed keys.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "model/keys.h"
#include "tensor/param.h"

namespace mt {

class DistReader;
class DistWriter;

// Writes a tensor of a row's part here; what tensor-parallel ranks share becomes chunks of one
// tensor.
void write_row(DistWriter& writer, const Param& row, const std::string& state,
               const Tensor& tensor);
// `states`: what modules remember (ckpt/te_state.h), by keys; the others are empty.
void write_extra_states(DistWriter& writer, const ModelConfig& config,
                        const std::map<std::string, std::string>& states = {});
// What the linear module of a weight remembers; empty: nothing.
std::string read_extra_state(const DistReader& reader, const Param& weight);

// Reads parts of a row to where they are in `out`, host memory of this rank's part of it.  A
// missing key or another shape is Exit::bad_data, naming it; only of the vocabulary's rows may
// there be fewer or more, and rows that are missing become zeros.
void read_parts(const DistReader& reader, const Param& row, std::span<const KeyPart> parts,
                Tensor out);

// Fills a tensor of a row's part, on any device, with the row's state of this name.
void read_row(const DistReader& reader, const Param& row, const std::string& state,
              const Tensor& to);

// Exit::bad_data if the checkpoint has a tensor under another key, which is no optimizer's.
void check_all_used(const DistReader& reader, const std::set<std::string>& keys);
void check_all_used(const DistReader& reader, const ParamTable& table);

}  // namespace mt
