// What a training step, an evaluation and a save have to tell.  The same on every rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/run/term.h"

namespace mt {

// Of a layer's experts: how often the one that is chosen most often is, over the mean of all; and
// the part of all choices that were dropped, as their expert had no room.
struct ExpertReport {
  std::int64_t layer = 0;
  double load = 0, dropped = 0;
};

inline double most(const std::vector<ExpertReport>& layers, double ExpertReport::*number) {
  return (*std::ranges::max_element(layers, {}, number)).*number;
}

struct StepReport {
  std::int64_t iteration = 0, consumed_samples = 0, skipped_samples = 0;
  std::int64_t global_batch_size = 0, tokens = 0;
  double flops = 0;  // of the model, by Megatron's formula
  TermValues losses = {};
  std::vector<ExpertReport> experts = {};  // of each layer that has some
  double grad_norm = 0;
  double learning_rate = 0;       // of this step
  double next_learning_rate = 0;  // after it, which is what Megatron prints
  std::optional<double> next_decoupled_learning_rate = {};
  double loss_scale = 1;                       // after the step
  bool skipped = false;                        // nothing was updated; grad_norm says nothing
  std::optional<std::int64_t> num_zeros = {};  // in the gradient
  std::optional<double> params_norm = {};
  std::optional<double> max_attention_logit = {};  // the largest score of attention
  double seconds = 0;                              // by StepClock
};

struct EvaluationReport {
  std::string split = {};  // "valid", "test"
  std::string set = {};    // which, of several of the split
  std::string where = {};  // "" during training, " on validation set" and " on test set" after it
  std::int64_t iteration = 0, consumed_samples = 0;  // of the training so far
  TermValues losses = {};
};

// What a task says where it is validated: of texts that it has drawn, or of images.
struct DrawnReport {
  std::int64_t iteration = 0;  // of the training so far
  std::vector<std::pair<std::string, double>> numbers = {};
};

// What a task says at the end of an epoch of one of its sets, or of all: a line, and its numbers.
struct EpochReport {
  using Number = std::variant<std::int64_t, double>;
  std::string line = {};
  std::string set = {};  // "": of all
  std::vector<std::pair<std::string, Number>> numbers = {};
  std::vector<std::pair<std::string, std::string>> tables = {};  // further members, as JSON
};

struct SaveReport {
  std::string folder = {};  // of checkpoints
  std::int64_t iteration = 0;
  double seconds = 0;            // that training waited for it
  double flops = 0, tokens = 0;  // of the training so far
  bool async = false;            // written while training went on
};

}  // namespace mt
