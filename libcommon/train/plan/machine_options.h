// MachineOptions: what a plan supposes of the GPUs.
#pragma once

#include <optional>
#include <string>

namespace mt {

class CommandLine;
struct Machine;

struct MachineOptions {
  std::string name;  // or "": see machine(); "here": see measure_machine()
  std::optional<double> tflops, memory_bandwidth, launch, link_bandwidth, link_latency,
      network_bandwidth, network_latency, memory;
  std::optional<int> gpus_per_node;

  void add_to(CommandLine& cl);
  bool is_named() const { return !name.empty() || memory; }
  bool gives_rates() const;
  bool is_given() const { return is_named() || gives_rates(); }
  Machine machine() const;  // h200 if none is named
};

}  // namespace mt
