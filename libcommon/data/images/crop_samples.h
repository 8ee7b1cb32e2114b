// CropSamples: images of a tree as parts of them, of which a student says what a teacher says of
// others (Caron et al.: arXiv:2104.14294), in the order of a run: two that show most of an image
// and several smaller ones that show less.
//   ids           the place of each token of the first two, from 0 on in each
//   pixels        of each token's patch (image/patches.h), normalised; zeroes of tokens of classes
//   local_ids, local_pixels   the same of the others
//   sharpness     1 / temperature of the teacher's softmax, for each of the first two
//   last_learns   of each part 1, or 0 while the last layer of the student's head stays as it is
//   loss_mask     1
// A part is 40 to 100 % of the image, of others 5 to 40 %; each is mirrored or not; jitter changes
// the colours of four of five, one of five is grey; the first is blurred, the second one time of
// ten, others one of two; and the second is solarised one time of five (Megatron-LM core_v0.12.1,
// megatron/legacy/data/vit_dataset.py: DinoTransform).  They are drawn by the run's seed and their
// image's number in the run.  Images that are not learnt from are brought to the model's size,
// whatever their sides' ratio, and stand in the place of the first part; the others are zeroes.
// Thread-safe.
#pragma once

#include <functional>

#include "data/images/image_samples.h"

namespace mt {

// CropShape: how large the parts of an image are, and how many there are.
struct CropShape {
  ImageShape whole, other;  // of the first two, and of the others
  std::int64_t others = 0;  // of an image
  friend bool operator==(const CropShape&, const CropShape&) = default;
};
// What CropSamples bring of each image.
FieldSpecs crop_fields(const CropShape& shape);

// CropSchedule: what is due at a sample of the run.
struct CropSchedule {
  double teacher_temperature = 1;
  bool last_learns = true;
};

class CropSamples final : public Samples {
 public:
  struct Making {
    std::uint64_t seed = 0;
    bool learning = false;  // else images stand alone
    Normalization normalization = kImageNet;
    std::function<CropSchedule(std::int64_t n)> schedule = {};  // of the run's samples
  };
  // `order`: which image each of the run's is.  `size`: how many there are.
  CropSamples(std::shared_ptr<const ImageTree> tree, const CropShape& shape,
              std::unique_ptr<const Sampler> order, std::int64_t size, Making making);

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
  std::shared_ptr<const ImageTree> tree_;
  CropShape shape_;
  std::unique_ptr<const Sampler> order_;
  std::int64_t size_;
  Making making_;
  FieldSpecs fields_;
};

}  // namespace mt
