// TrainOptions: everything that mt-pretrain can be told.
#pragma once

#include <optional>
#include <string>

#include "base/command.h"
#include "kernels/adam.h"
#include "model/gpt_config.h"
#include "optim/lr_schedule.h"
#include "train/train_data.h"

namespace mt {

struct TrainOptions {
  GptConfig model;
  DataOptions data;
  LrSchedule lr;
  AdamOptions adam;
  double weight_decay = 0.01, clip_grad = 1;
  std::int64_t micro_batch_size = 0, train_iters = 0;
  std::optional<std::int64_t> global_batch_size;  // default: micro-batch size x ranks
  std::int64_t eval_iters = 100, eval_interval = 1000, log_interval = 100;
  std::string dtype = "fp32";  // or fp64
  std::uint64_t seed = 1234;
  int ranks = 1, threads = 0;
  std::string save, load, run_log;
  std::optional<std::int64_t> save_interval;
  bool load_optimizer = true, save_optimizer = true;
  bool json = false, plan = false;

  void add_to(CommandLine& cl);
  // The model's vocabulary is the tokenizer's unless --vocab-size says otherwise, which must not be
  // less.
  void take_vocabulary(const Tokenizer& tokenizer);
  // Checks what must fit together and derives what was not given.
  void complete();

  void check_batch() const;

  DType compute_dtype() const { return dtype == "fp64" ? DType::f64 : DType::f32; }
  std::int64_t batch_size() const { return global_batch_size.value_or(micro_batch_size * ranks); }
  int micro_batches() const { return static_cast<int>(batch_size() / (micro_batch_size * ranks)); }
  TrainingLength length() const {
    return {.train_iters = train_iters,
            .eval_iters = eval_iters,
            .eval_interval = eval_interval,
            .global_batch_size = batch_size()};
  }
};

}  // namespace mt
