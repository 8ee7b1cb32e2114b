// PipelineOptions: how layers are divided among the stages of a pipeline, and in which order these
// work, in Megatron's words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

class CommandLine;

struct PipelineOptions {
  std::string schedule = "1f1b";  // with several chunks a rank: interleaved
  std::optional<std::int64_t> first_layers = {}, last_layers = {};  // of the first, the last rank
  std::optional<std::int64_t> layers_per_virtual_stage = {};
  std::optional<int> virtual_stages_per_rank = {};
  std::optional<int> microbatch_group_size = {};
  bool account_for_embedding = false, account_for_loss = false;  // each is worth a layer
  std::string layout = {};
  std::vector<std::int64_t> segments = {};  // layers of each stage, as a hybrid's pattern has them
  // In front of the others, for an encoder's layers alone; 0: one pipeline goes over all layers.
  int encoder_ranks = 0;
  const char* size_flag = "--pipeline-model-parallel-size";  // says how many ranks there are

  void add_to(CommandLine& cl);
};

}  // namespace mt
