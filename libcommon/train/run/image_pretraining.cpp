#include "train/run/image_pretraining.h"

#include "base/log.h"
#include "base/utf8.h"
#include "data/samples/batch_options.h"
#include "model/config/megatron_args.h"
#include "model/image_input.h"
#include "model/model.h"
#include "model/model_table.h"
#include "train/options/pretrain_options.h"
#include "train/run/inpaint_objective.h"
#include "train/run/label_objective.h"

namespace mt {

static constexpr std::int64_t kEndless = std::int64_t{1} << 60;  // samples of a run

static std::unique_ptr<const Objective> make_objective(const ModelConfig& model) {
  if (model.inpaints())
    return std::make_unique<InpaintObjective>(
        PatchedImages{.height = model.img_h, .width = model.img_w, .patch = model.patch_dim});
  return std::make_unique<LabelObjective>(
      LabelledSequences{.seq_length = model.image_tokens(), .labels = model.num_classes},
      LabelObjective::Asks::first_of_image);
}

ImagePretraining::ImagePretraining(const ModelConfig& model, const DataOptions& options,
                                   std::optional<PatchMask> mask, Trees trees)
    : model_(model),
      options_(options),
      trees_(std::move(trees)),
      mask_(mask),
      objective_(make_objective(model)),
      tokenizer_(static_cast<std::int32_t>(model.num_classes)) {}

ImageShape ImagePretraining::shape() const {
  return {.width = model_.img_w,
          .height = model_.img_h,
          .patch = model_.patch_dim,
          .class_tokens = model_.class_tokens()};
}

std::unique_ptr<Model> ImagePretraining::make_model(const StageRanges& stages,
                                                    const TensorPart& part) const {
  return mt::make_model(model_, stages, part);
}

FieldSpecs ImagePretraining::sample_fields() const {
  return image_fields(shape(), mask_.has_value());
}

std::unique_ptr<Samples> ImagePretraining::samples(std::size_t tree,
                                                   std::unique_ptr<const Sampler> order,
                                                   std::int64_t size, std::uint64_t seed) const {
  return std::make_unique<ImageSamples>(
      trees_[tree], shape(), std::move(order), size,
      ImageSamples::Making{.seed = seed,
                           .changing = tree == 0 && !mask_,
                           .mask = mask_,
                           .normalization = normalization_of(model_),
                           .filter = filter_of(model_)});
}

// Images to learn from come in the order of the run's epochs, those to validate with by their
// paths, again and again, or, of a full validation, once.
void ImagePretraining::build(const TrainingLength&, std::uint64_t seed, const BatchOptions& batch,
                             const Log& log) {
  const auto& [training, validation] = trees_;
  auto order = std::make_unique<const Sampler>(
      training->size(), SamplerOptions{.type = options_.dataloader_type,
                                       .data_sharding = options_.data_sharding,
                                       .micro_batch_size = batch.micro_batch_size,
                                       .data_parallel_size = batch.ranks,
                                       .past_end = PastEnd::repeat});
  training_.reset(
      new SampleSet{"", samples(0, std::move(order), kEndless, seed), Sampler(kEndless, {})});
  const bool once = options_.full_validation;
  const std::int64_t size = once ? validation->size() : kEndless;
  auto by_path = std::make_unique<const Sampler>(validation->size(),
                                                 SamplerOptions{.past_end = PastEnd::repeat});
  validation_.clear();
  validation_.emplace_back(
      new SampleSet{"", samples(1, std::move(by_path), size, seed),
                    Sampler(size, {.past_end = once ? PastEnd::padding : PastEnd::error})});
  log.event("data", {{"classes", std::ssize(training->classes())},
                     {"training_images", training->size()},
                     {"validation_images", validation->size()}});
}

std::span<const std::unique_ptr<SampleSet>> ImagePretraining::evaluations(Split which) const {
  if (which == Split::valid) return validation_;
  return {};
}

void ImagePretraining::describe(DType dtype, PyValue& args) const {
  add_model_args(model_, dtype, args);
  const ImageTree* const training = trees_[0].get();
  if (training == nullptr) return;
  args.set_item("training_images", PyValue(training->size()));
  if (model_.inpaints()) return;
  std::vector<PyValue> names;
  for (const std::string& name : training->classes())
    names.emplace_back(replace_invalid_utf8(name));
  args.set_item("image_classes", PyValue::list(std::move(names)));
}

std::unique_ptr<Task> ImagePretraining::changed(const Change& change) const {
  ModelConfig model = model_;
  change.put_into(model, [&](int ranks) { model.complete(ranks); });
  return std::make_unique<ImagePretraining>(model, options_, mask_, trees_);
}

static void check_classes(const ImagePretraining::Trees& trees, std::int64_t most) {
  const auto& classes = trees[0]->classes();
  if (classes != trees[1]->classes())
    fail(Exit::bad_data, trees[1]->path(), ": has other classes than ", trees[0]->path());
  if (std::ssize(classes) > most)
    fail(Exit::bad_config, "--num-classes ", most, ": less than the ", classes.size(), " of ",
         trees[0]->path());
}

// The names of the classes, a line each; none where a name has lines.
static std::string label_names_of(const std::vector<std::string>& classes) {
  std::string lines;
  for (const std::string& name : classes) {
    if (name.find('\n') != name.npos) return {};
    lines += (lines.empty() ? "" : "\n") + replace_invalid_utf8(name);
  }
  return lines;
}

ImagePretraining::Trees open_image_trees(const PretrainOptions& options) {
  ImagePretraining::Trees trees;
  const std::vector<std::string>& folders = options.data.sources.data_path;
  if (folders.size() != trees.size())
    fail(Exit::usage,
         "--data-path: expected two folders, of images to learn from and of others to validate "
         "with");
  for (std::size_t i = 0; i < trees.size(); ++i)
    trees[i] = std::make_shared<const ImageTree>(
        folders[i], i == 0 ? options.vision.shares : ImageTree::Shares());
  return trees;
}

std::unique_ptr<ImagePretraining> open_images(PretrainOptions& options) {
  ImagePretraining::Trees trees = open_image_trees(options);
  if (!options.model.inpaints()) {
    check_classes(trees, options.model.num_classes);
    options.model.label_names = label_names_of(trees[0]->classes());
  }
  options.complete();
  return std::make_unique<ImagePretraining>(options.model, options.data, options.vision.mask(),
                                            std::move(trees));
}

}  // namespace mt
