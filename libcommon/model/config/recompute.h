// RecomputeOptions: which activations are made again in the backward instead of kept since the
// forward, in Megatron's words.
//   full       blocks: of each run of them only the input is kept.  uniform: all blocks in runs of
//              N; block: the first N blocks of a stage, one by one.
//   selective  parts of every block: core_attn (what the queries attend to), mlp (what its
//              activation reads and makes), layernorm (the two norms' outputs), moe_act (what
//              experts' activations make).
// A recomputation runs the forward's own code on the same numbers, so the gradients are the same
// bit for bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

class CommandLine;
struct LayerRun;  // nn/layer_run.h

struct RecomputeOptions {
  bool activations = false;      // selective
  std::string granularity = {};  // selective, full or none of them
  std::string method = {};       // of full: uniform or block
  std::optional<std::int64_t> num_layers = {};
  std::vector<std::string> modules = {};  // of selective; none: core_attn

  void add_to(CommandLine& cl);
  void complete(std::int64_t layers);  // checks what must fit together, of one stage of so many

  bool part(std::string_view module) const;               // is this part of a block recomputed?
  std::vector<LayerRun> runs(std::int64_t layers) const;  // all blocks of a stage, in order
};

}  // namespace mt
