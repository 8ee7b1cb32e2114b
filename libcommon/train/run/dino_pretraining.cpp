#include "train/run/dino_pretraining.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/log.h"
#include "comm/group.h"
#include "comm/world.h"
#include "data/samples/batch_options.h"
#include "model/config/megatron_args.h"
#include "model/families/dino.h"
#include "model/image_input.h"
#include "model/model_table.h"
#include "optim/optimizer.h"
#include "train/options/pretrain_options.h"
#include "train/run/image_pretraining.h"
#include "train/run/nearest_images.h"

namespace mt {

static constexpr std::int64_t kEndless = std::int64_t{1} << 60;  // samples of a run

static CropShape crop_shape(const ModelConfig& c) {
  const auto shape = [&](std::int64_t width, std::int64_t height) {
    return ImageShape{
        .width = width, .height = height, .patch = c.patch_dim, .class_tokens = c.class_tokens()};
  };
  return {.whole = shape(c.img_w, c.img_h),
          .other = shape(c.dino_local_img_size, c.dino_local_img_size),
          .others = c.dino_local_crops_number};
}

DinoPretraining::DinoPretraining(const ModelConfig& model, const DataOptions& options,
                                 const DinoOptions& dino, Trees trees)
    : model_(model),
      options_(options),
      dino_(dino),
      trees_(std::move(trees)),
      shape_(crop_shape(model)),
      objective_(shape_, model.hidden_size),
      tokenizer_(static_cast<std::int32_t>(model.num_classes)) {}

std::unique_ptr<Model> DinoPretraining::make_model(const StageRanges& stages,
                                                   const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

// The teacher reads the first two parts as well, and learns nothing: a third of a student's.
double DinoPretraining::flops(std::int64_t samples) const {
  ModelConfig layers = model_;
  layers.padded_vocab_size = 0;  // it says no words
  const std::int64_t wide = model_.dino_head_hidden_size, narrow = model_.dino_bottleneck_size,
                     head = wide * (model_.hidden_size + wide + narrow) +
                            narrow * model_.dino_out_dim;  // weights, of each part
  const auto of = [&](const ImageShape& part) {
    return model_flops(layers, samples, {.tokens = part.tokens()}) +
           6 * static_cast<double>(samples * head);
  };
  return 2 * of(shape_.whole) * 4 / 3 + static_cast<double>(shape_.others) * of(shape_.other);
}

// The first images of a tree in the order of a run's epoch, so many.
DinoPretraining::Known DinoPretraining::known(const std::shared_ptr<const ImageTree>& tree,
                                              std::int64_t images) const {
  auto order = std::make_unique<const Sampler>(
      tree->size(), SamplerOptions{.type = "cyclic", .data_sharding = false});
  Known known;
  for (std::int64_t n = 0; n < images; ++n)
    known.labels.push_back(tree->label(order->sample(n).value()));
  auto samples =
      std::make_unique<CropSamples>(tree, shape_, std::move(order), images,
                                    CropSamples::Making{.normalization = normalization_of(model_)});
  known.set.reset(
      new SampleSet{"", std::move(samples), Sampler(images, {.past_end = PastEnd::padding})});
  return known;
}

void DinoPretraining::build(const TrainingLength& length, std::uint64_t seed,
                            const BatchOptions& batch, const Log& log) {
  train_iters_ = std::max<std::int64_t>(1, length.train_iters);
  const std::int64_t in_step = length.global_batch_size;
  auto order = std::make_unique<const Sampler>(
      trees_[0]->size(), SamplerOptions{.type = options_.dataloader_type,
                                        .data_sharding = options_.data_sharding,
                                        .micro_batch_size = batch.micro_batch_size,
                                        .data_parallel_size = batch.ranks,
                                        .past_end = PastEnd::repeat});
  const CropSamples::Making making{
      .seed = seed,
      .learning = true,
      .normalization = normalization_of(model_),
      .schedule = [dino = dino_, in_step](std::int64_t n) {
        const std::int64_t epoch = n / in_step / dino.steps_of_epoch;
        return CropSchedule{.teacher_temperature = dino.teacher_temperature(epoch),
                            .last_learns = static_cast<double>(epoch) >= dino.freeze_last_layer};
      }};
  training_.reset(new SampleSet{
      "", std::make_unique<CropSamples>(trees_[0], shape_, std::move(order), kEndless, making),
      Sampler(kEndless, {})});
  const std::shared_ptr<const ImageTree>& asked = trees_[1];
  const std::int64_t most =
      length.full_validation ? asked->size() : length.eval_iters * batch.evaluated();
  const auto all = std::make_shared<const ImageTree>(trees_[0]->path(), ImageTree::Shares());
  known_ = known(all, all->size());
  asked_ = known(asked, std::clamp<std::int64_t>(most, 1, asked->size()));
  log.event("data", {{"classes", std::ssize(trees_[0]->classes())},
                     {"training_images", trees_[0]->size()},
                     {"validation_images", trees_[1]->size()}});
}

std::optional<DrawnReport> DinoPretraining::validate(const Drawing& drawing) const {
  static constexpr std::int64_t kNearest[] = {10, 20, 100, 200};
  constexpr double kTemperature = 0.07;
  const std::vector<double> known = drawing.score(*known_.set), asked = drawing.score(*asked_.set);
  DrawnReport report{.iteration = drawing.iteration};
  if (drawing.ranks.rank() != 0) return report;
  const auto images = [&](const Known& of, const std::vector<double>& scores) {
    return KnownImages{.features = scores,
                       .width = objective_.features(),
                       .stride = objective_.scores(),
                       .labels = of.labels};
  };
  const std::vector<double> shares =
      nearest_accuracy(images(known_, known), images(asked_, asked),
                       std::ssize(trees_[0]->classes()), kNearest, kTemperature);
  for (std::size_t i = 0; i < shares.size(); ++i)
    report.numbers.emplace_back(concat("knn_acc_", kNearest[i]), shares[i]);
  return report;
}

// Megatron's numbers of steps begin at 0, and so do the cosine's.
void DinoPretraining::end_step(const StepEnd& step) const {
  constexpr double kFirst = 0.996, kLast = 1;
  const double done = static_cast<double>(step.iteration - 1) / static_cast<double>(train_iters_),
               momentum = kLast + 0.5 * (kFirst - kLast) * (1 + std::cos(std::numbers::pi * done));
  auto& model = static_cast<Dino&>(step.model);
  model.move_center(step.world.data(), 2 * step.samples, step.stream);
  step.optimizer.read_values(
      [&](const Param& row) {
        if (row.index < model.pairs().size())
          model.follow(model.pairs()[row.index], momentum, step.stream);
      },
      step.stream);
}

void DinoPretraining::describe(DType dtype, PyValue& args) const {
  add_model_args(model_, dtype, args);
  if (trees_[0] != nullptr) args.set_item("training_images", PyValue(trees_[0]->size()));
}

std::unique_ptr<Task> DinoPretraining::changed(const Change& change) const {
  ModelConfig model = model_;
  change.put_into(model, [&](int ranks) { model.complete(ranks); });
  return std::make_unique<DinoPretraining>(model, options_, dino_, trees_);
}

std::unique_ptr<DinoPretraining> open_dino(PretrainOptions& options) {
  DinoPretraining::Trees trees = open_image_trees(options);
  if (trees[0]->classes() != trees[1]->classes())
    fail(Exit::bad_data, trees[1]->path(), ": has other classes than ", trees[0]->path());
  options.complete();
  return std::make_unique<DinoPretraining>(options.model, options.data, options.vision.dino,
                                           std::move(trees));
}

}  // namespace mt
