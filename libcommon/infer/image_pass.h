// ImagePass: passes in which a LLaVA's tower and projector make rows of hidden states of images,
// one image at a time, so that what is made of one depends on no other.  Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/pass.h"
#include "tensor/buffer.h"

namespace mt {

struct Image;

// ImageStates: what was made of some images, or is being made of them.
struct ImageStates {
  std::int64_t images = 0;
  Buffer storage;
  Tensor hidden;  // [images image_tokens(), hidden_size] of the sum_dtype, in host memory
};

class ImagePass {
 public:
  ImagePass(const Model& model, int threads);  // of the CPU; 0: one a core

  std::shared_ptr<const ImageStates> run(std::span<const Image> images);
  // Does what run() does, one image after another: begin() makes room for so many, and add() fills
  // the place of one from its input (model/image_input.h), of input_size() numbers.
  std::shared_ptr<ImageStates> begin(std::int64_t images) const;
  void add(ImageStates& states, std::int64_t number, std::span<const float> input);
  std::size_t input_size() const;

 private:
  PassSize size() const;

  Stream stream_;
  Pass pass_;
};

}  // namespace mt
