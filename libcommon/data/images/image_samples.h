// ImageSamples: images of a tree as a Vision Transformer reads them, in the order of a run.
//   ids        the place of each token, from 0 on: those of classes, then those of patches
//   pixels     of each token's patch (image/patches.h), normalised; zeroes of tokens of classes
//   labels     the number of the class
//   loss_mask  1
// or, where patches are to be painted,
//   pixels     of each patch, between 0 and 1; zeroes of one that is to be painted
//   values     those of patches that are to be painted, zeroes of the others
//   loss_mask  of each patch: 1 where it is to be painted, else 0
// Images that are learnt from are changed at random, by the run's seed and their number in the run:
// a part of 8 to 100 % in the model's size, mirrored or not, jitter of colours, and one of
// ImageNet's pairs of changes (Megatron-LM core_v0.12.1, megatron/legacy/data/vit_dataset.py).
// Others are brought to the model's size, whatever their sides' ratio; of all that are to be
// painted the middle is taken, once the shorter side is as long as the model's longer one.
// Thread-safe.
#pragma once

#include <memory>

#include "data/images/image_tree.h"
#include "data/samples/sampler.h"
#include "data/samples/samples.h"
#include "image/patches.h"
#include "image/resize.h"

namespace mt {

struct ImageShape {
  std::int64_t width = 0, height = 0, patch = 0;
  std::int64_t class_tokens = 0;

  std::int64_t tokens() const { return class_tokens + (width / patch) * (height / patch); }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// Which patches of an image are to be painted, of a walk of so many steps: each goes to one of the
// four patches beside the last, or stays where the image ends, from one that is drawn on; or, by
// rows, the last patches.
struct PatchMask {
  bool by_rows = false;
  std::int64_t steps = 0;
};

FieldSpecs image_fields(const ImageShape& shape, bool painting = false);

class ImageSamples final : public Samples {
 public:
  struct Making {
    std::uint64_t seed = 0;  // of what is drawn
    bool changing = false;   // they are changed at random
    std::optional<PatchMask> mask = {};
    Normalization normalization = kImageNet;  // of those that are not painted
    Filter filter = Filter::bilinear;
  };
  // `order`: which image each of the run's is.  `size`: how many there are.
  ImageSamples(std::shared_ptr<const ImageTree> tree, const ImageShape& shape,
               std::unique_ptr<const Sampler> order, std::int64_t size, const Making& making);

  const std::string& name() const override { return tree_->path(); }
  std::int64_t size() const override { return size_; }
  const FieldSpecs& fields() const override { return fields_; }
  // Throws Exit::bad_data for a damaged image.
  void get(std::int64_t n, const Fields& sample) const override;
  std::vector<std::string> lines(std::int64_t n, const Tokenizer& tokenizer) const override;
  void write(std::int64_t n, const Tokenizer& tokenizer, JsonWriter& json) const override;
  Indexes indexes() const override { return {}; }
  bool takes_long() const override { return true; }
  void check_consumed(std::int64_t consumed) const override { order_->check_consumed(consumed); }

 private:
  void mask(std::int64_t n, const Fields& sample) const;

  std::shared_ptr<const ImageTree> tree_;
  ImageShape shape_;
  std::unique_ptr<const Sampler> order_;
  std::int64_t size_;
  Making making_;
  FieldSpecs fields_;
};

}  // namespace mt
