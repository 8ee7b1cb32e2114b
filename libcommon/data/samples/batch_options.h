// BatchOptions: how many sequences a step takes, and how data-parallel ranks divide them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/batch_schedule.h"

namespace mt {

class CommandLine;

struct BatchOptions {
  std::int64_t micro_batch_size = 0;
  std::optional<std::int64_t> global_batch_size;  // default: micro-batch size x data-parallel size
  std::optional<std::int64_t> eval_global_batch_size;  // default: the largest step's
  std::vector<std::int64_t> rampup_batch_size;         // start, increment, samples
  std::string step_batch_size_schedule;                // instead of both
  bool decrease_batch_size_if_needed = false;          // to what the ranks can divide
  bool calculate_per_token_loss = false;

  void add_to(CommandLine& cl);
  // Checks a micro-batch's sequences, of so many tokens, and makes the schedule for so many ranks
  // that divide a step's.
  void complete(std::int64_t seq_length, int data_parallel_ranks);
  void complete_schedule(std::int64_t seq_length);

  // A step's sequences over all ranks: what the schedule asks for, and what the ranks compute,
  // which is less where --decrease-batch-size-if-needed rounds it down.
  struct StepSize {
    std::int64_t asked = 0, computed = 0;
    int micro_batches = 0;
  };
  StepSize divided(std::int64_t sequences) const;
  StepSize step_size(std::int64_t consumed_samples) const {
    return divided(schedule.at(consumed_samples));
  }
  // Exit::bad_config if a step of so many sequences cannot be divided among the ranks.
  void check_step(std::int64_t sequences) const;

  // Exit::bad_config if an evaluation's batch cannot be.
  void check_evaluation() const;

  // The sequences of the largest step: --global-batch-size, or the last of a step schedule.
  std::int64_t largest() const { return schedule.final_size(); }
  int micro_batches() const { return divided(largest()).micro_batches; }
  std::vector<int> micro_batches_of_steps() const;  // those that there are in a run
  // The sequences and micro-batches of a batch of an evaluation; it computes evaluated() of them.
  std::int64_t largest_evaluated() const { return eval_global_batch_size.value_or(largest()); }
  std::int64_t evaluated() const { return divided(largest_evaluated()).computed; }
  int evaluated_micro_batches() const { return divided(largest_evaluated()).micro_batches; }

  // Set by complete().
  BatchSchedule schedule;
  int ranks = 1;  // that divide a step's sequences
};

}  // namespace mt
