// Terms: the losses that an objective is a sum of, and what they come to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

// Term: a loss with a name of its own.
struct Term {
  const char* name;  // as Megatron-LM's logs have it
  // What it is reported as: the mean of all losses of a step or an evaluation that count, or the
  // mean of the values of its micro-batches in which some count.
  enum class Mean : std::uint8_t { of_losses, of_micro_batches } mean = Mean::of_losses;
  double weight = 1;  // in the objective
};

// The terms' values of a step or an evaluation, in the objective's order.
struct TermValue {
  const char* name = nullptr;
  double value = 0;
};
using TermValues = std::vector<TermValue>;

// How reports in JSON call the value of a term: the first is "loss", each further one is called
// after its name, as in "sop_loss".
std::string member_of(const TermValues& values, std::size_t term);

}  // namespace mt
