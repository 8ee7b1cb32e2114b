// ImagePass: passes in which a LLaVA's tower and projector make rows of hidden states of images,
// one image at a time, so that what is made of one depends on no other.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "model/pass.h"
#include "tensor/buffer.h"

namespace mt {

struct Image;

// ImageStates: what was made of some images.
struct ImageStates {
  std::int64_t images = 0;
  Buffer storage;
  Tensor hidden;  // [images image_tokens(), hidden_size] of the sum_dtype, in host memory
};

class ImagePass {
 public:
  ImagePass(const Model& model, int threads);  // of the CPU; 0: one a core

  std::shared_ptr<const ImageStates> run(std::span<const Image> images);
  // Of so many images, each of which `fill` makes the input (model/image_input.h) when its turn is.
  using Fill = std::function<void(std::int64_t number, std::span<float> to)>;
  std::shared_ptr<const ImageStates> run(std::int64_t images, const Fill& fill);

 private:
  PassSize size() const;

  Stream stream_;
  Pass pass_;
};

}  // namespace mt
