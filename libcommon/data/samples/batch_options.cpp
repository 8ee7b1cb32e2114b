#include "data/samples/batch_options.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/command.h"

namespace mt {

static constexpr std::int64_t kMaxMicroBatches = 1 << 20;  // of a step, on a rank

void BatchOptions::add_to(CommandLine& cl) {
  cl.option("--micro-batch-size", &micro_batch_size, "N", "sequences that a rank computes at once",
            at_least(1));
  cl.option("--global-batch-size", &global_batch_size, "N",
            "sequences of a step over all ranks; default micro-batch size x data-parallel ranks",
            at_least(1));
  cl.option("--eval-global-batch-size", &eval_global_batch_size, "N",
            "sequences of a batch of an evaluation; default as many as of a step, at its largest",
            at_least(1));
  cl.option("--rampup-batch-size", &rampup_batch_size, "START INCREMENT SAMPLES",
            "begin with START sequences a step and add INCREMENT again and again, so that "
            "--global-batch-size is reached after SAMPLES; needs --train-samples");
  cl.option("--step-batch-size-schedule", &step_batch_size_schedule, "TOKENS:SEQUENCES ...",
            "sequences of a step from so many tokens on, instead of --global-batch-size: \"0:768 "
            "250B:1536\" (K, M, B, T: thousands, ...); needs --train-samples");
  cl.flag("--decrease-batch-size-if-needed", &decrease_batch_size_if_needed,
          "round a step's sequences down to what the ranks can divide");
  cl.flag("--calculate-per-token-loss", &calculate_per_token_loss,
          "every token of a step weighs the same, instead of every micro-batch");
}

void BatchOptions::complete_schedule(std::int64_t seq_length) {
  if (step_batch_size_schedule.empty()) {
    schedule = {global_batch_size.value_or(micro_batch_size * ranks), rampup_batch_size};
    return;
  }
  for (const auto& [given, name] :
       {std::pair(global_batch_size.has_value(), "global-batch-size"),
        std::pair(!rampup_batch_size.empty(), "rampup-batch-size"),
        std::pair(decrease_batch_size_if_needed, "decrease-batch-size-if-needed")})
    if (given) fail(Exit::usage, "--step-batch-size-schedule and --", name, " exclude each other");
  schedule = BatchSchedule::by_tokens(step_batch_size_schedule, seq_length);
}

void BatchOptions::complete(std::int64_t seq_length, int data_parallel_ranks) {
  constexpr std::int64_t kMaxTokens = 1 << 30;  // of a micro-batch; positions in it are 32 bits
  if (seq_length > kMaxTokens)
    fail(Exit::bad_config, "--seq-length ", seq_length, ": expected at most ", kMaxTokens);
  if (micro_batch_size > kMaxTokens / seq_length)
    fail(Exit::bad_config, "--micro-batch-size ", micro_batch_size, ": expected at most ",
         kMaxTokens / seq_length, " sequences of ", seq_length, " tokens");
  ranks = data_parallel_ranks;
  complete_schedule(seq_length);
}

BatchOptions::StepSize BatchOptions::divided(std::int64_t sequences) const {
  const std::int64_t at_once = micro_batch_size * ranks;
  const std::int64_t micro_batches = sequences / at_once;
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();  // more than any run may have
  return {sequences, micro_batches * at_once, static_cast<int>(std::min(micro_batches, kMost))};
}

void BatchOptions::check_step(std::int64_t sequences) const {
  const StepSize size = divided(sequences);
  const auto refuse = [&](const auto&... parts) {
    fail(Exit::bad_config, "--global-batch-size ", largest(), ": ", parts...);
  };
  const std::string step = sequences == largest() ? "" : concat("a step of ", sequences, " is ");
  if (size.computed != sequences && !decrease_batch_size_if_needed)
    refuse(step, "not a multiple of --micro-batch-size ", micro_batch_size, " x ", ranks, " ranks");
  if (size.micro_batches < 1)
    refuse(step, "less than --micro-batch-size ", micro_batch_size, " x ", ranks, " ranks");
  if (size.micro_batches > kMaxMicroBatches)
    refuse(step, "more than ", kMaxMicroBatches, " micro-batches of ", micro_batch_size,
           " on each of ", ranks, " ranks");
}

void BatchOptions::check_evaluation() const {
  const std::int64_t wanted = largest_evaluated();
  if (!eval_global_batch_size) return;
  if (evaluated() != wanted || evaluated_micro_batches() < 1)
    fail(Exit::bad_config, "--eval-global-batch-size ", wanted,
         ": not a multiple of --micro-batch-size ", micro_batch_size, " x ", ranks, " ranks");
  if (evaluated_micro_batches() > kMaxMicroBatches)
    fail(Exit::bad_config, "--eval-global-batch-size ", wanted, ": more than ", kMaxMicroBatches,
         " micro-batches of ", micro_batch_size, " on each of ", ranks, " ranks");
}

std::vector<int> BatchOptions::micro_batches_of_steps() const {
  std::vector<int> all;
  for (const std::int64_t sequences : schedule.sizes_from(0))
    all.push_back(divided(sequences).micro_batches);
  return all;
}

}  // namespace mt
