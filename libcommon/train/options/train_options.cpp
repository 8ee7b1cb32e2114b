#include "train/options/train_options.h"

#include "ckpt/megatron_checkpoint.h"
#include "tensor/device.h"
#include "text/null_tokenizer.h"
#include "train/options/megatron_flags.h"
#include "train/run/checkpoint.h"

namespace mt {

static void add_batch_and_length(TrainOptions& o, CommandLine& cl) {
  cl.section("Training");
  cl.option("--micro-batch-size", &o.micro_batch_size, "N",
            "sequences that a rank computes at once", at_least(1));
  cl.option("--global-batch-size", &o.global_batch_size, "N",
            "sequences of a step over all ranks; default micro-batch size x data-parallel ranks",
            at_least(1));
  cl.option("--rampup-batch-size", &o.rampup_batch_size, "START INCREMENT SAMPLES",
            "begin with START sequences a step and add INCREMENT again and again, so that "
            "--global-batch-size is reached after SAMPLES; needs --train-samples");
  cl.option("--step-batch-size-schedule", &o.step_batch_size_schedule, "TOKENS:SEQUENCES ...",
            "sequences of a step from so many tokens on, instead of --global-batch-size: \"0:768 "
            "250B:1536\" (K, M, B, T: thousands, ...); needs --train-samples");
  cl.flag("--decrease-batch-size-if-needed", &o.decrease_batch_size_if_needed,
          "round a step's sequences down to what the ranks can divide");
  cl.flag("--calculate-per-token-loss", &o.calculate_per_token_loss,
          "every token of a step weighs the same, instead of every micro-batch");
  cl.option("--train-iters", &o.train_iters, "N", "steps of the whole run", at_least(1));
  cl.option("--train-samples", &o.train_samples, "N",
            "samples of the whole run, instead of --train-iters", at_least(1));
  cl.option("--seed", &o.seed, "N", "seed of data order, initial weights and dropout",
            between(1, 4294967295.0));
  o.compute.add_to(cl, ", with sums, gradients and the optimizer in fp32",
                   ", with a dynamic loss scale unless --loss-scale is given");
  cl.off_switch(
      "--no-cuda-graphs", &o.cuda_graphs,
      "a GPU's forwards and backwards are queued kernel by kernel, not as graphs captured "
      "once; the same bits");
  cl.option("--threads,-j", &o.threads, "N", "worker threads of all ranks together; 0: one a core",
            at_least(0));
}

static void add_ranks(TrainOptions& o, CommandLine& cl) {
  cl.section("Ranks");
  cl.option("--ranks", &o.ranks, "N",
            "CPU ranks, threads of this process; data-parallel where nothing else is said",
            between(1, 1 << 20));
  o.launch.add_to(cl);
  o.parallel.add_to(cl);
  o.pipeline.add_to(cl);
}

static void add_checkpoints(TrainOptions& o, CommandLine& cl) {
  cl.section("Checkpoints");
  cl.option("--save", &o.save, "DIR", "where checkpoints go");
  cl.option("--save-interval,--persistent-save-interval", &o.save_interval, "N",
            "steps between checkpoints; default: only at the end", at_least(1));
  cl.option("--save-retain-interval", &o.save_retain_interval, "N",
            "once a checkpoint is complete, delete those before it but for multiples of N",
            at_least(1));
  cl.option("--keep-last", &o.keep_last, "N",
            "once a checkpoint is complete, delete all but the N newest (and multiples of "
            "--save-retain-interval)",
            at_least(1));
  cl.flag("--async-save", &o.async_save,
          "copy what is saved, and write it while training goes on; the next save, and the end, "
          "wait for it");
  cl.off_switch("--no-ckpt-fully-parallel-save", &o.fully_parallel_save,
                "of the ranks with the same weights, one writes them all");
  cl.option("--non-persistent-save-interval", &o.non_persistent_save_interval, "N",
            "steps between checkpoints of which each replaces the one before", at_least(1));
  cl.option("--non-persistent-ckpt-type", &o.non_persistent_ckpt_type, "TYPE",
            "global: write them, and go on from one that is not older than what --load finds",
            one_of({"global"}));
  cl.option("--non-persistent-global-ckpt-dir", &o.non_persistent_global_ckpt_dir, "DIR",
            "where they are; default non_persistent in the folder of --save, and of --load");
  cl.option("--load", &o.load, "DIR",
            "folder of checkpoints to go on from the latest, or of one; where there is none, a new "
            "run begins");
  cl.option("--ckpt-convert-format", &o.ckpt_convert_format, "FORMAT",
            "write what --load has in this format, for this layout, and end",
            one_of({"torch_dist", "torch"}));
  cl.option("--ckpt-convert-save", &o.ckpt_convert_save, "DIR",
            "where to, in a folder DIR/FORMAT; see mt-convert(1)");
  cl.option("--ckpt-step", &o.ckpt_step, "N", "load this iteration, not the latest", at_least(1));
  cl.flag("--finetune", &o.finetune,
          "load only the weights: a new run, from iteration 0 and the first sample");
  cl.option("--pretrained-checkpoint", &o.pretrained_checkpoint, "DIR",
            "as --finetune from there, while there is no checkpoint in --load");
  cl.flag("--exit-on-missing-checkpoint", &o.exit_on_missing_checkpoint,
          "a --load folder without a checkpoint ends the program");
  cl.off_switch("--no-load-optim", &o.load_optimizer,
                "start with a fresh optimizer and its schedule");
  cl.off_switch("--no-save-optim", &o.save_optimizer, "checkpoints without the optimizer's state");
}

static void add_evaluation_and_end(TrainOptions& o, CommandLine& cl) {
  cl.section("Evaluation and end");
  cl.option("--eval-iters", &o.eval_iters, "N", "global batches of an evaluation; 0: none",
            at_least(0));
  cl.option("--eval-interval", &o.eval_interval, "N", "steps between evaluations", at_least(1));
  cl.flag("--skip-train", &o.skip_train, "only evaluate, on validation and test samples");
  cl.option("--exit-interval", &o.exit_interval, "N",
            "save and end after every N-th step, to go on in another job", at_least(1));
  cl.option("--exit-duration-in-mins", &o.exit_duration_in_mins, "F",
            "save and end after the step in which so much time has passed", at_least(0));
  cl.flag("--check-layout", &o.check_layout,
          "run the first steps, two in fp64, in this layout and by one rank, compare losses and "
          "gradients, and stop");
  cl.flag(
      "--selftest", &o.selftest,
      "train small models on the GPU and on the CPU, print how far logits, losses and gradients "
      "are apart, and stop; exit code 1 if that is too far");
}

static void add_plan(TrainOptions& o, CommandLine& cl) {
  cl.section("Plan");
  cl.flag("--plan", &o.plan,
          "print parameters, FLOPs, memory and messages of a step, for GPUs its time, and stop");
  cl.option("--plan-svg", &o.plan_svg, "FILE",
            "with --plan: draw the schedule of the pipeline's stages as an SVG image");
  cl.option("--plan-search", &o.plan_search, "N",
            "propose how N GPUs share the run, by the plans of all layouts that fit into their "
            "memory, say why, and stop",
            between(1, 1 << 20));
  o.machine.add_to(cl);
}

void TrainOptions::add_to(CommandLine& cl) {
  model.add_to(cl);
  model.recompute.add_to(cl);
  data.add_to(cl);
  add_batch_and_length(*this, cl);
  add_ranks(*this, cl);
  optimizer.add_to(cl);
  schedule.add_to(cl);
  add_checkpoints(*this, cl);
  add_evaluation_and_end(*this, cl);
  add_plan(*this, cl);
  checks.add_to(cl);
  report.add_to(cl);
  add_megatron_flags(cl);
}

bool TrainOptions::names_a_vocabulary() const {
  const bool null = data.tokenizer.type == NullTokenizer::kType ||
                    (data.tokenizer.type.empty() && data.sources.mock_data);
  return null ||
         (model.vocab_size == 0 && (names_a_source(data.sources) || !data.tokenizer.type.empty()));
}

void TrainOptions::take_vocabulary(const Tokenizer& tokenizer) {
  if (model.vocab_size == 0 || tokenizer.type() == NullTokenizer::kType)
    model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size())
    fail(Exit::bad_config, "--vocab-size ", model.vocab_size, ": less than the tokenizer's ",
         tokenizer.vocab_size(), " tokens");
}

void TrainOptions::check_step(std::int64_t sequences) const {
  constexpr std::int64_t kMaxMicroBatches = 1 << 20;
  const StepSize size = divided(sequences);
  const int sharing = parallel_sizes().dp;
  const auto refuse = [&](const auto&... parts) {
    fail(Exit::bad_config, "--global-batch-size ", batch_size(), ": ", parts...);
  };
  const std::string step = sequences == batch_size() ? "" : concat("a step of ", sequences, " is ");
  if (size.computed != sequences && !decrease_batch_size_if_needed)
    refuse(step, "not a multiple of --micro-batch-size ", micro_batch_size, " x ", sharing,
           " ranks");
  if (size.micro_batches < 1)
    refuse(step, "less than --micro-batch-size ", micro_batch_size, " x ", sharing, " ranks");
  if (size.micro_batches > kMaxMicroBatches)
    refuse(step, "more than ", kMaxMicroBatches, " micro-batches of ", micro_batch_size,
           " on each of ", sharing, " ranks");
  pipeline_layout.check_step(size.micro_batches);
}

void TrainOptions::check_steps_from(std::int64_t consumed_samples) const {
  for (const std::int64_t sequences : batches.sizes_from(consumed_samples)) check_step(sequences);
}

// The schedule of batches and the number of steps.
void TrainOptions::complete_length() {
  constexpr std::int64_t kMaxTokens = 1 << 30;  // of a micro-batch; positions in it are 32 bits
  if (data.seq_length > kMaxTokens)
    fail(Exit::bad_config, "--seq-length ", data.seq_length, ": expected at most ", kMaxTokens);
  if (micro_batch_size > kMaxTokens / data.seq_length)
    fail(Exit::bad_config, "--micro-batch-size ", micro_batch_size, ": expected at most ",
         kMaxTokens / data.seq_length, " sequences of ", data.seq_length, " tokens");
  if (train_iters > 0 && train_samples > 0)
    fail(Exit::usage, "--train-iters and --train-samples exclude each other");
  if (!step_batch_size_schedule.empty()) {
    for (const auto& [given, name] :
         {std::pair(global_batch_size.has_value(), "global-batch-size"),
          std::pair(!rampup_batch_size.empty(), "rampup-batch-size"),
          std::pair(decrease_batch_size_if_needed, "decrease-batch-size-if-needed")})
      if (given)
        fail(Exit::usage, "--step-batch-size-schedule and --", name, " exclude each other");
    batches = BatchSchedule::by_tokens(step_batch_size_schedule, data.seq_length);
  } else {
    batches = {global_batch_size.value_or(micro_batch_size * parallel_sizes().dp),
               rampup_batch_size};
  }
  if (train_iters > 0 && batches.changes())
    fail(Exit::usage,
         step_batch_size_schedule.empty() ? "--rampup-batch-size" : "--step-batch-size-schedule",
         ": needs --train-samples instead of --train-iters");
  check_step(batch_size());
  if (load.empty()) check_steps_from(0);
  if (train_samples == 0) return;
  train_iters = batches.iterations(train_samples);
  if (train_iters == 0)
    fail(Exit::bad_config, "--train-samples ", train_samples, ": less than a step of ",
         batch_size());
}

void TrainOptions::complete_checkpoints() const {
  const auto needs = [](bool given, const char* option, bool met, const char* other) {
    if (given && !met) fail(Exit::usage, option, ": needs ", other);
  };
  const bool saves = !save.empty(), loads = !load.empty();
  needs(save_interval.has_value(), "--save-interval", saves, "--save");
  needs(ckpt_step.has_value(), "--ckpt-step", loads, "--load");
  needs(finetune, "--finetune", loads, "--load");
  needs(exit_on_missing_checkpoint, "--exit-on-missing-checkpoint", loads, "--load");
  const bool global = !non_persistent_ckpt_type.empty();
  const bool passing = non_persistent_save_interval.has_value();
  needs(passing, "--non-persistent-save-interval", saves, "--save");
  needs(passing, "--non-persistent-save-interval", global, "--non-persistent-ckpt-type global");
  needs(!non_persistent_global_ckpt_dir.empty(), "--non-persistent-global-ckpt-dir", global,
        "--non-persistent-ckpt-type global");
  if (save_retain_interval && save_interval && *save_retain_interval % *save_interval != 0)
    fail(Exit::bad_config, "--save-retain-interval ", *save_retain_interval,
         ": not a multiple of --save-interval ", *save_interval);
}

// Ranks that were started again go on from what this run has saved.
void TrainOptions::go_on_after_failures() {
  const int restarts = std::max(launch.max_restarts, process.max_restarts);
  if (plan || check_layout || restarts == 0 || save.empty() || goes_on_in_place(*this)) return;
  const auto saved = find_checkpoint(save);
  if (!saved) return;
  if (process.attempt == 0)
    fail(Exit::bad_config, "--save ", save, ": holds iteration ", saved->iteration,
         " of another run, from which ranks that are started again would go on; add --load ", save,
         ", or save elsewhere");
  load = save;
  finetune = false;
  pretrained_checkpoint.clear();
  ckpt_step.reset();
}

void TrainOptions::complete_parallel() const {
  const int tensor = parallel.tensor_model_parallel_size, context = parallel.context_parallel_size;
  if (context > 1 && data.seq_length % (2 * context) != 0)
    fail(
        Exit::bad_config, "--seq-length ", data.seq_length,
        ": seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > "
        "1.");
  if (parallel.shares_rows() && data.seq_length / context % tensor != 0)
    fail(Exit::bad_config, "--seq-length ", data.seq_length,
         ": --sequence-parallel needs a multiple of --tensor-model-parallel-size ", tensor,
         " tokens on each of ", context, " context-parallel ranks");
  if (tensor > 1 && optimizer.name == "muon")
    fail(Exit::bad_config,
         "--optimizer muon: needs whole matrices, --tensor-model-parallel-size 1");
  if (device() == Device::cuda && parallel.passes_keys() &&
      (data.reset_attention_mask || !model.window_size.empty()))
    fail(Exit::bad_config,
         "--cp-comm-type: on GPUs only a2a, with which ranks have whole sequences, sees documents "
         "(--reset-attention-mask) or windows (--window-size)");
  const std::vector<ContextComm> comm = parallel.context_comm();
  if (comm.size() != 1 && std::ssize(comm) != model.num_layers)
    fail(Exit::bad_config, "--cp-comm-type: ", comm.size(), " types for ", model.num_layers,
         " layers, expected one for all or one for each");
  for (const ContextComm how : comm)
    if (const int sharing = parallel.head_ranks(how) * tensor; model.kv_heads() % sharing != 0)
      fail(Exit::bad_config, "--cp-comm-type: ", model.kv_heads(),
           " key heads cannot be divided among ", sharing, " ranks");
}

void TrainOptions::complete_reduction() const {
  const ParallelSizes sizes = parallel_sizes();
  const int instances = optimizer.distributed_optimizer_instances;
  if (sizes.dp * sizes.cp % instances != 0)
    fail(Exit::bad_config, "--num-distributed-optimizer-instances ", instances,
         ": does not divide the ", sizes.dp * sizes.cp, " ranks that have the same weights");
  if (optimizer.overlap_grad_reduce && checks.large_grads)
    fail(Exit::usage, "--check-for-large-grads: not with --overlap-grad-reduce");
}

void TrainOptions::complete_pipeline() {
  pipeline_layout =
      make_pipeline_layout(pipeline, parallel.pipeline_model_parallel_size, model.num_layers);
  for (const StageRange& stage : pipeline_layout.stages)
    model.recompute.runs(stage.end - stage.begin);  // checks that they fit
}

void TrainOptions::take_process(const Launch& launched) {
  process = launched;
  if (!has_processes()) return;
  if (ranks > 1)
    fail(Exit::usage, "--ranks ", ranks, ": threads of one process; this is rank ", process.rank,
         " of ", process.size, " processes");
  ranks = process.size;
}

// Ranks that are processes have a GPU each.
void TrainOptions::complete_processes() {
  if (launch.max_restarts > 0 && save.empty()) fail(Exit::usage, "--max-restarts: needs --save");
  if (!has_processes() && !launch.gpus) return;
  if (compute.device_name == "cpu")
    fail(Exit::usage, "--device cpu: ", ranks, launch.gpus ? " GPUs" : " processes",
         " were asked for; CPU ranks are threads of one, see --ranks");
  compute.device_name = "cuda";
}

void TrainOptions::check_gpus() const {
  const int visible = device::count();
  if (launch.gpus && visible < *launch.gpus)
    fail(Exit::unavailable, "--gpus ", *launch.gpus, ": this machine has ", visible,
         " GPUs that CUDA can use; CPU ranks are threads, see --ranks");
}

void TrainOptions::complete_device() {
  const bool narrow =
      compute.bf16 || compute.fp16 || compute.dtype == "bf16" || compute.dtype == "fp16";
  const bool supposed = plan && optimizer.name != "muon" && (narrow || machine.is_named());
  if (supposed && compute.device_name == "auto") compute.device_name = "cuda";
  const bool serves =
      supposed || ((ranks == 1 || has_processes()) && !check_layout && optimizer.name != "muon");
  complete_processes();
  compute.complete(serves);
  if (optimizer.bf16_gradients() && compute_dtype() != DType::bf16)
    fail(Exit::usage,
         optimizer.grad_reduce_in_bf16 ? "--grad-reduce-in-bf16" : "--main-grads-dtype bf16",
         ": needs --bf16");
  if (optimizer.main_params_dtype != "fp32" && !narrow)
    fail(Exit::usage, "--main-params-dtype ", optimizer.main_params_dtype,
         ": needs --bf16 or --fp16");
  if (device() == Device::cpu) return;
  if (ranks > 1 && !has_processes() && !supposed)
    fail(Exit::bad_config, "--ranks ", ranks, ": are of the CPU; one GPU is one rank");
  if (!serves)
    fail(Exit::bad_config,
         "--device cuda: neither --optimizer muon nor --check-layout; see --device cpu");
  if (report.timing_log_level > 0)
    fail(Exit::bad_config, "--timing-log-level ", report.timing_log_level,
         ": only whole steps are timed on a GPU");
  if (compute_dtype() == DType::f16) optimizer.loss_scale.take_default();
}

void TrainOptions::complete() {
  if (data.seq_length == 0) fail(Exit::usage, "--seq-length: required");
  if (micro_batch_size == 0) fail(Exit::usage, "--micro-batch-size: required");
  const bool trains = !plan && !skip_train;
  if (trains && train_iters == 0 && train_samples == 0)
    fail(Exit::usage, "--train-iters: required, or --train-samples");
  if (trains && !schedule.is_given()) fail(Exit::usage, "--lr: required");
  if (!plan && !plan_svg.empty()) fail(Exit::usage, "--plan-svg: needs --plan");
  if (!plan && machine.is_given())
    fail(Exit::usage, "--plan-machine, and what else a plan supposes: needs --plan");
  parallel.complete(ranks, has_processes() ? "--gpus" : concat("--ranks ", ranks));
  optimizer.complete();
  complete_device();
  if (plan && !plans_times() &&
      (!plan_svg.empty() || machine.gives_rates() ||
       (machine.is_given() && device() == Device::cpu)))
    fail(Exit::usage,
         "--plan-svg, --plan-machine, and what else a plan supposes: only plans for "
         "GPUs in 16 bits have times");
  // A dynamic loss scale makes gradients overflow to find its limit.
  if (optimizer.loss_scale.is_dynamic()) checks.finite = false;
  complete_checkpoints();
  go_on_after_failures();
  model.complete(parallel.tensor_model_parallel_size);
  if (data.seq_length > model.max_position_embeddings)
    fail(Exit::bad_config, "--seq-length ", data.seq_length,
         ": larger than --max-position-embeddings ", model.max_position_embeddings);
  complete_parallel();
  complete_pipeline();
  complete_reduction();
  complete_length();
  if (trains)
    schedule.complete({.train_iters = train_iters,
                       .train_samples = train_samples,
                       .global_batch_size = batch_size()});
  report.check_profile(trains ? std::optional(train_iters) : std::nullopt, ranks);
  if (report.log_progress && save.empty()) fail(Exit::usage, "--log-progress: needs --save");
  if (report.run_log.empty() && !save.empty()) report.run_log = save + "/run.jsonl";
}

}  // namespace mt
