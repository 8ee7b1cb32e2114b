// ImagePass: passes in which a LLaVA's tower and projector make rows of hidden states of images,
// one tile at a time, so that what is made of one depends on no other.  Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/pass.h"
#include "tensor/buffer.h"

namespace mt {

struct Image;

// ImageStates: what was made of some images, or is being made of them.
struct ImageStates {
  std::vector<std::int64_t> tiles;  // of each image (model/image_tiles.h)
  Buffer storage;
  Tensor hidden;  // [tiles rows_of_tile(), hidden_size] of the sum_dtype, in host memory
};

class ImagePass {
 public:
  ImagePass(const Model& model, int threads);  // of the CPU; 0: one a core

  std::shared_ptr<const ImageStates> run(std::span<const Image> images);
  // Does what run() does, one tile after another: begin() makes room for images of so many each,
  // and add() fills the place of one of all these from its input, of tile_input_size() numbers.
  std::shared_ptr<ImageStates> begin(std::vector<std::int64_t> tiles) const;
  void add(ImageStates& states, std::int64_t number, std::span<const float> input);

 private:
  PassSize size() const;

  Stream stream_;
  Pass pass_;
};

}  // namespace mt
