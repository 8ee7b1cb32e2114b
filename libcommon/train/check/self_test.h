// The self-test of a device: small models are trained on it and, in fp64, on the CPU, and what
// comes out is put side by side.
#pragma once

#include <string>
#include <vector>

#include "train/check/small_run.h"

namespace mt {

// Tensors of one kind that were compared: the worst of them.
struct Comparison {
  std::string model, dtype, what = {};
  int tensors = 0;
  double worst_error = 0;  // relative_error() of the tensor named
  double allowed = 0;
  std::string worst = {};
  bool passed() const { return worst_error <= allowed; }
};

// Logits, losses and gradients of `got` beside those of `expected`.
struct Allowed {
  double values = 0, losses = 0;
};
std::vector<Comparison> compare(const std::string& model, const std::string& dtype,
                                const SmallRunResult& got, const SmallRunResult& expected,
                                const Allowed& allowed);

// A GPT-2 and a Llama on the device, in fp32 and 16 bits or, on the CPU, which serves to test this,
// in fp32; and once more, with the same bits.  Exit::unavailable where there is no GPU.
std::vector<Comparison> self_test(Device device);

// A table; and one object a line, schema "mt-selftest/1".
std::string self_test_text(const std::vector<Comparison>& comparisons);
std::string self_test_json(const std::vector<Comparison>& comparisons);

// Exit::difference with the first comparison that did not pass.
void check_self_test(const std::vector<Comparison>& comparisons);

}  // namespace mt
