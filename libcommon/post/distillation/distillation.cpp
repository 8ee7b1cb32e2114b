#include "post/distillation/distillation.h"

#include "base/command.h"
#include "data/samples/gpt_dataset.h"
#include "formats/model_source.h"
#include "model/model_table.h"
#include "ops/ops.h"
#include "post/check_before_data.h"
#include "post/verbs.h"
#include "tensor/arena.h"
#include "text/same_ids.h"
#include "train/run/training_command.h"

namespace mt {

// --- Objective ---------------------------------------------------------------------------------

DistillObjective::DistillObjective(const DistillOptions& options) {
  terms_ = {{.name = "kd loss"}, {.name = "lm loss", .weight = options.lm_loss_weight}};
  if (options.rules().of_hidden != HiddenLoss::none)
    terms_.push_back({.name = "hidden loss", .weight = options.hidden_loss_weight.value_or(1)});
}

// A token has a weight for each term.
FieldSpecs DistillObjective::fields(const FieldSpecs& of_samples) const {
  FieldSpecs fields = words_.fields(of_samples);
  fields.front().per_sample *= std::ssize(terms_);
  return fields;
}

double DistillObjective::count(std::size_t, const Fields& batch) const {
  return words_.count(0, batch);
}

void DistillObjective::weigh(const Fields& batch, std::span<const double> each) const {
  with_float_type(batch[Field::loss_mask].dtype(), [&]<class T>() {
    T* weight = batch[Field::weight].as<T>();
    for (std::size_t term = 0; term < terms_.size(); ++term)
      for (const T mask : batch.span<T>(Field::loss_mask))
        *weight++ = mask * static_cast<T>(each[term]);
  });
}

Ends DistillObjective::ends(const Fields& batch, Arena& keep, DType real) const {
  return {.loss = keep.alloc(real, batch[Field::weight].shape()), .weight = batch[Field::weight]};
}

void DistillObjective::sum_losses(std::size_t term, Tensor sum, const Ends& ends,
                                  const Fields& batch, Stream& stream) const {
  const ConstTensor mask = batch[Field::loss_mask];
  const auto row = static_cast<std::int64_t>(term) * mask.numel();
  dot(sum, ends.loss.rows(row, row + mask.numel()), mask, stream);
}

void DistillObjective::scale_weights(const Fields& batch, ConstTensor by, Stream& stream) const {
  words_.scale_weights(batch, by, stream);
}

// --- Task --------------------------------------------------------------------------------------

Distillation::Distillation(const DistillOptions& options, Data data)
    : PackedTask(options, std::move(data)), options_(options), objective_(options) {}

std::unique_ptr<Model> Distillation::make_model(const StageRanges& stages,
                                                const TensorPart& part) const {
  return std::make_unique<Distilled>(model(), options_.teacher_model, options_.rules(), stages,
                                     part);
}

ParamTable Distillation::rows() const { return model_rows(model()); }

std::unique_ptr<ModelSource> Distillation::open_teacher() const {
  return open_model(options_.teacher);
}

// The teacher's forward takes a third of what a step of it would.
double Distillation::flops(std::int64_t samples) const {
  return PackedTask::flops(samples) +
         model_flops(options_.teacher_model, samples, {.tokens = seq_length()}) / 3;
}

FieldSpecs Distillation::sample_fields() const { return gpt_fields(seq_length(), true); }

std::unique_ptr<Task> Distillation::changed(const Change& change) const {
  DistillOptions options = options_;
  mt::change(options.model, options.seq_length, change);
  options.complete_teacher(
      change.tensor_ranks.value_or(options.run.ranks.parallel.tensor_model_parallel_size));
  return std::make_unique<Distillation>(options);
}

// The same number is to be the same word to both.
static void check_words(const std::string& teacher, const Tokenizer& tokenizer) {
  const std::unique_ptr<Tokenizer> its = open_model(teacher)->make_tokenizer({});
  if (!same_vocabulary(*its, tokenizer))
    fail(Exit::bad_config, "--teacher ", teacher, ": has a tokenizer of identity ", its->identity(),
         ", but this run's has ", tokenizer.identity(), " and gives other ids");
}

std::unique_ptr<Distillation> open_distillation(DistillOptions& options, const Log& log) {
  PackedTask::Data data = read_packed(options, options.examples,
                                      {.check = [&] { check_before_data(options); },
                                       .packing = options.packing,
                                       .overlong = options.overlong,
                                       .longest = options.longest_text()},
                                      log);
  options.complete();
  check_words(options.teacher, *data.words.tokenizer);
  return std::make_unique<Distillation>(options, std::move(data));
}

void finetune_distill(CommandLine& cl) {
  DistillOptions options;
  cl.describe("Learn what another model says of each token.", "Takes the options of sft.");
  cl.first_run({"--load", "--teacher", "--train-data", "--seq-length", "--global-batch-size",
                "--epochs", "--lr", "--save"});
  options.add_to(cl);
  options.parse(cl);
  options.choose_packing();
  if (options.is_planned()) {
    options.take_vocabulary_to_plan();
    return print_plan(options.run, options.plan, cl.log(), [&] {
      if (options.plan.search) {
        options.take_teacher();
        options.complete_adapters();
      } else {
        options.complete();
      }
      return std::make_unique<Distillation>(options);
    });
  }
  run_training(cl, options.run, options.check_layout,
               [&] { return open_distillation(options, cl.log()); });
}

}  // namespace mt
