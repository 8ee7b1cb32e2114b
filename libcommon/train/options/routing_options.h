// RoutingOptions: files of the experts that a run's routers choose (train/run/routing_files.h).
#pragma once

#include <string>

namespace mt {

class CommandLine;
struct ModelConfig;

struct RoutingOptions {
  // As Megatron-LM's flag says, which needs one of the files, or texts that bring experts.
  bool enabled = false, of_texts = false;
  std::string trace, replay;  // empty: none

  bool is_on() const { return !trace.empty() || !replay.empty(); }
  void add_to(CommandLine& cl);
  // Exit::usage or Exit::bad_config where a model may not have them.
  void check(const ModelConfig& model) const;
};

}  // namespace mt
