#include "train/options/vision_options.h"

#include <algorithm>
#include <utility>

#include "base/command.h"
#include "data/samples/train_data.h"
#include "model/config/model_config.h"
#include "text/null_tokenizer.h"

namespace mt {

void VisionOptions::add_to(CommandLine& cl) {
  cl.section("Images (ViT)");
  cl.flag("--vision-pretraining", &pretraining, "vit: accepted; it is what such a run does");
  cl.option("--vision-pretraining-type", &vision_pretraining_type, "TYPE",
            "vit: classify, to tell the class of an image; inpaint, to paint patches that are not "
            "seen; or dino, to say of parts of an image what a teacher, which follows, says of "
            "others",
            one_of({"classify", "inpaint", "dino"}));
  cl.option("--vision-backbone-type", &backbone_type, "TYPE", "vit: the kind of layers",
            one_of({"vit"}));
  cl.option("--num-classes", &num_classes, "N", "vit: classes of images", at_least(1));
  cl.option("--img-h", &img_h, "N", "vit: rows of pixels of an image", at_least(1));
  cl.option("--img-w", &img_w, "N", "vit: columns of pixels of an image", at_least(1));
  cl.option("--num-channels", &num_channels, "N", "vit: colours of a pixel, 3", between(3, 3));
  cl.option("--patch-dim", &patch_dim, "N", "vit: side of the patches that images are cut into",
            at_least(1));
  cl.option("--class-token-len", &class_token_len, "N",
            "vit: tokens of classes in front of an image's patches", at_least(1));
  cl.option("--vision-head", &vision_head, "TYPE",
            "vit: what tells the class by the first of them: mlp, as Megatron-LM's, or linear, as "
            "that of ViTForImageClassification",
            one_of({"mlp", "linear"}));
  cl.option("--pixel-mean", &pixel_mean, "R,G,B",
            "vit: what is taken from colours between 0 and 1");
  cl.option("--pixel-std", &pixel_std, "R,G,B", "vit: what the rest is divided by");
  cl.option("--image-filter", &image_filter, "TYPE",
            "vit: how pixels are weighed as an image is brought to the model's size: bilinear or "
            "bicubic",
            one_of({"bilinear", "bicubic"}));
  cl.option("--classes-fraction", &shares.classes, "F",
            "vit: part of the classes to learn from, the first by name", between(0, 1));
  cl.option("--data-per-class-fraction", &shares.of_class, "F",
            "vit: part of the images of each class to learn from, the first by name",
            between(0, 1));
  cl.option("--mask-type", &mask_type, "TYPE",
            "inpaint: which patches are to be painted: those of a random walk, or row, the last",
            one_of({"random", "row"}));
  cl.option("--mask-factor", &mask_factor, "F",
            "inpaint: steps of the walk, or patches, as a multiple of the image's patches",
            between(0, 100));
  cl.section("Parts of images (ViT)");
  cl.option("--iter-per-epoch", &dino.steps_of_epoch, "N",
            "dino: steps of an epoch, by which --dino-freeze-last-layer and "
            "--dino-warmup-teacher-temp-epochs count",
            at_least(1));
  cl.option("--dino-local-img-size", &dino_local_img_size, "N",
            "dino: rows and columns of pixels of the smaller parts of an image", at_least(1));
  cl.option("--dino-local-crops-number", &dino_local_crops_number, "N",
            "dino: smaller parts of an image", at_least(1));
  cl.option("--dino-head-hidden-size", &dino_head_hidden_size, "N",
            "dino: width of the head's layers", at_least(1));
  cl.option("--dino-bottleneck-size", &dino_bottleneck_size, "N",
            "dino: width in front of the head's last layer", at_least(1));
  cl.option("--dino-out-dim", &dino_out_dim, "N", "dino: outputs of the head", at_least(1));
  cl.option("--dino-freeze-last-layer", &dino.freeze_last_layer, "N",
            "dino: epochs in which the head's last layer does not learn", at_least(0));
  cl.option("--dino-drop-path", &dino_drop_path, "P",
            "dino: how often the student passes over the branches of its last layer, and of those "
            "before it in proportion to their number",
            between(0, 0.99));
  cl.flag("--dino-norm-last-layer", &dino_norm_last_layer,
          "dino: the rows of the head's last layer keep a length of 1");
  cl.option("--dino-warmup-teacher-temp", &dino.warmup_teacher_temp, "X",
            "dino: temperature of what the teacher says in the first epoch", greater_than(0));
  cl.option("--dino-teacher-temp", &dino.teacher_temp, "X",
            "dino: temperature of what the teacher says after the warm-up", greater_than(0));
  cl.option("--dino-warmup-teacher-temp-epochs", &dino.warmup_teacher_temp_epochs, "N",
            "dino: epochs in which that temperature rises", at_least(0));
}

void VisionOptions::add_fallbacks(CommandLine& cl) const {
  cl.fallback("--dataloader-type", {"cyclic"}, "default with --model-type vit");
}

void VisionOptions::check_given(const CommandLine& cl, const DataOptions& data,
                                const ModelConfig& model) const {
  for (const char* flag : {"--split",
                           "--train-data-path",
                           "--valid-data-path",
                           "--test-data-path",
                           "--data-args-path",
                           "--per-split-data-args-path",
                           "--mock-data",
                           "--data-cache-path",
                           "--reset-position-ids",
                           "--reset-attention-mask",
                           "--eod-mask-loss",
                           "--multiple-validation-sets",
                           "--tokenizer-type",
                           "--tokenizer-model",
                           "--tiktoken-pattern",
                           "--tiktoken-num-special-tokens",
                           "--tiktoken-special-tokens",
                           "--transformers-version",
                           "--vocab-extra-ids",
                           "--no-create-attention-mask-in-dataloader",
                           "--vocab-file",
                           "--merge-file",
                           "--vocab-size",
                           "--padded-vocab-size",
                           "--make-vocab-size-divisible-by",
                           "--calculate-per-token-loss",
                           "--untie-embeddings-and-output-weights"})
    if (cl.given(flag)) fail(Exit::usage, flag, ": is not for --model-type vit");
  const auto refuse = [&](const char* flag) {
    if (cl.given(flag))
      fail(Exit::usage, flag, ": has no effect with --vision-pretraining-type ",
           vision_pretraining_type);
  };
  const bool paints = inpaints();
  if (is_dino())
    for (const char* flag : {"--num-classes", "--vision-head", "--image-filter"}) refuse(flag);
  else
    for (const char* flag :
         {"--iter-per-epoch", "--dino-local-img-size", "--dino-local-crops-number",
          "--dino-head-hidden-size", "--dino-bottleneck-size", "--dino-out-dim",
          "--dino-freeze-last-layer", "--dino-drop-path", "--dino-norm-last-layer",
          "--dino-warmup-teacher-temp", "--dino-teacher-temp", "--dino-warmup-teacher-temp-epochs"})
      refuse(flag);
  if (paints)
    for (const char* flag : {"--num-classes", "--class-token-len", "--vision-head", "--pixel-mean",
                             "--pixel-std", "--image-filter"})
      refuse(flag);
  if (!paints)
    for (const char* flag : {"--mask-type", "--mask-factor"}) refuse(flag);
  if (const auto painted = mask(); painted && painted->steps == 0)
    fail(Exit::bad_config, "--mask-factor ", mask_factor, ": comes to none of the ", patches(),
         " patches");
  const auto check = [&](const char* flag, std::int64_t length) {
    if (cl.given(flag) && length != image_tokens())
      fail(Exit::bad_config, flag, ' ', length, ": an image of ", img_h, " x ", img_w,
           " in patches of ", patch_dim, " has ", image_tokens(), " tokens",
           inpaints() ? "" : concat(", ", class_tokens(), " of them of classes"), "; leave it out");
  };
  check("--seq-length", data.seq_length);
  check("--max-position-embeddings", model.max_position_embeddings);
}

double DinoOptions::teacher_temperature(std::int64_t epoch) const {
  if (epoch >= warmup_teacher_temp_epochs) return teacher_temp;
  const auto last = static_cast<double>(std::max<std::int64_t>(1, warmup_teacher_temp_epochs - 1));
  return warmup_teacher_temp +
         (teacher_temp - warmup_teacher_temp) * static_cast<double>(epoch) / last;
}

// The number of steps is rounded down.
std::optional<PatchMask> VisionOptions::mask() const {
  if (!inpaints()) return {};
  const auto per = [&](std::int64_t side) {
    return static_cast<double>(side) / static_cast<double>(patch_dim);
  };
  return PatchMask{.by_rows = mask_type == "row",
                   .steps = static_cast<std::int64_t>(mask_factor * per(img_h) * per(img_w))};
}

void VisionOptions::make_vit(ModelConfig& model, DataOptions& data) const {
  model.family = ModelFamily::vit;
  static_cast<VisionConfig&>(model) = *this;
  model.vocab_size = model.padded_vocab_size = num_classes;  // all that it says
  model.max_position_embeddings = data.seq_length = image_tokens();
  data.tokenizer.type = NullTokenizer::kType;
}

void VisionOptions::check_unused(const std::string& run) const {
  const VisionOptions defaults;
  for (const auto& [says, name] :
       {std::pair{vision_pretraining_type != defaults.vision_pretraining_type,
                  "--vision-pretraining-type"},
        std::pair{num_classes != defaults.num_classes, "--num-classes"},
        std::pair{img_h != defaults.img_h, "--img-h"},
        std::pair{img_w != defaults.img_w, "--img-w"},
        std::pair{patch_dim != defaults.patch_dim, "--patch-dim"},
        std::pair{class_token_len != defaults.class_token_len, "--class-token-len"},
        std::pair{vision_head != defaults.vision_head, "--vision-head"},
        std::pair{pixel_mean != defaults.pixel_mean, "--pixel-mean"},
        std::pair{pixel_std != defaults.pixel_std, "--pixel-std"},
        std::pair{image_filter != defaults.image_filter, "--image-filter"},
        std::pair{dino.steps_of_epoch != defaults.dino.steps_of_epoch, "--iter-per-epoch"},
        std::pair{dino_local_img_size != defaults.dino_local_img_size, "--dino-local-img-size"},
        std::pair{dino_local_crops_number != defaults.dino_local_crops_number,
                  "--dino-local-crops-number"},
        std::pair{dino_head_hidden_size != defaults.dino_head_hidden_size,
                  "--dino-head-hidden-size"},
        std::pair{dino_bottleneck_size != defaults.dino_bottleneck_size, "--dino-bottleneck-size"},
        std::pair{dino_out_dim != defaults.dino_out_dim, "--dino-out-dim"},
        std::pair{dino.freeze_last_layer != defaults.dino.freeze_last_layer,
                  "--dino-freeze-last-layer"},
        std::pair{dino_drop_path != defaults.dino_drop_path, "--dino-drop-path"},
        std::pair{dino_norm_last_layer, "--dino-norm-last-layer"},
        std::pair{dino.warmup_teacher_temp != defaults.dino.warmup_teacher_temp,
                  "--dino-warmup-teacher-temp"},
        std::pair{dino.teacher_temp != defaults.dino.teacher_temp, "--dino-teacher-temp"},
        std::pair{dino.warmup_teacher_temp_epochs != defaults.dino.warmup_teacher_temp_epochs,
                  "--dino-warmup-teacher-temp-epochs"},
        std::pair{shares.classes != 1, "--classes-fraction"},
        std::pair{shares.of_class != 1, "--data-per-class-fraction"},
        std::pair{mask_type != defaults.mask_type, "--mask-type"},
        std::pair{mask_factor != defaults.mask_factor, "--mask-factor"}})
    if (says) fail(Exit::usage, name, ": has no effect with ", run);
}

}  // namespace mt
