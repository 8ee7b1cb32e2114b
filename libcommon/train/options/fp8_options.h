// Fp8Options: whether, and how, linear layers multiply codes of eight bits (nn/fp8_layers.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nn/fp8_layers.h"
#include "tensor/tensor.h"

namespace mt {

class CommandLine;
struct ModelConfig;

struct Fp8Options {
  std::string format;  // empty: they multiply numbers
  std::string recipe = "delayed";
  std::int64_t margin = 0, history = 1;  // of delayed, as is the next
  std::string algorithm = "most_recent";
  bool weight_gradients = true;
  bool param_gather = false;
  bool first_last_bf16 = false;
  std::int64_t layers_at_start = 1, layers_at_end = 1;

  bool is_delayed() const { return !format.empty() && recipe == "delayed"; }
  void add_to(CommandLine& cl);
  // Checks what must fit together, on this device, which may be supposed to be another.
  void complete(Device device, DType dtype, bool supposed) const;
  // ... and, for a model of so many stages, what cannot be cast.
  void check(const ModelConfig& model, int stages) const;
  // What a step does with a model; nothing: it multiplies numbers.
  std::optional<Fp8Rules> rules(const ModelConfig& model, bool keeps_weights) const;
};

}  // namespace mt
