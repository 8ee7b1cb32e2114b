#include "post/supervised/image_text_samples.h"

#include <algorithm>

#include "base/error.h"
#include "data/samples/gpt_dataset.h"
#include "image/orientation.h"
#include "model/image_tiles.h"

namespace mt {

FieldSpecs image_text_fields(const ModelConfig& llava, std::int64_t seq_length,
                             std::int64_t tiles) {
  const std::int64_t tokens = tiles * llava.image_tokens();
  FieldSpecs fields = gpt_fields(seq_length, true);
  fields.push_back({.field = Field::image_rows, .per_sample = seq_length});
  fields.push_back({.field = Field::encoder_positions, .per_sample = tokens, .of_tokens = false});
  fields.push_back({.field = Field::pixels,
                    .dtype = DType::f32,
                    .per_sample = tokens * llava.patch_width(),
                    .of_tokens = false});
  return fields;
}

std::int64_t most_tiles(const ModelConfig& llava) {
  return llava.cuts_images() ? llava.max_num_tiles + (llava.use_thumbnail ? 1 : 0) : 1;
}

std::int64_t most_tiles(const Packed& packed) {
  std::int64_t most = 1;
  for (const Bin& bin : packed.bins) {
    std::int64_t tiles = 0;
    for (const Piece& piece : bin)
      for (const std::int64_t of_image : packed.examples[piece.text].tiles) tiles += of_image;
    most = std::max(most, tiles);
  }
  return most;
}

ImageTextSamples::ImageTextSamples(std::unique_ptr<PackedSamples> texts, const ModelConfig& llava,
                                   std::int64_t tiles)
    : texts_(std::move(texts)),
      llava_(llava),
      fields_(image_text_fields(llava, texts_->packed().seq_length, tiles)) {}

void ImageTextSamples::get(std::int64_t k, const Fields& sample) const {
  texts_->get(k, sample);
  const auto ids = sample.span<std::int32_t>(Field::ids),
             rows = sample.span<std::int32_t>(Field::image_rows),
             places = sample.span<std::int32_t>(Field::encoder_positions);
  std::ranges::copy(image_rows(llava_, ids), rows.begin());
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (rows[i] >= 0) ids[i] = -1;
  fill_places(llava_, places);
  const std::span pixels = sample.span<float>(Field::pixels);
  std::ranges::fill(pixels, 0.0F);
  const Packed& packed = texts_->packed();
  std::int64_t at = 0;
  for (const Piece& piece : packed.bins[texts_->bin(k)]) {
    const Example& example = packed.examples[piece.text];
    ModelConfig cutting = llava_;
    cutting.max_num_tiles = example.most_tiles;
    for (std::size_t i = 0; i < example.images.size(); ++i) try {
        const FilePart& file = example.images[i];
        const Image image = read_upright(file);
        const std::int64_t tiles = grid_of(cutting, {image.width, image.height}).tiles();
        if (tiles != example.tiles[i])
          fail(Exit::bad_data, file.called(), ": has other sides than when it was read");
        const auto each = static_cast<std::size_t>(tile_input_size(llava_));
        make_tile_inputs(cutting, image,
                         pixels.subspan(static_cast<std::size_t>(at) * each,
                                        static_cast<std::size_t>(tiles) * each));
        at += tiles;
      } catch (const Error& error) {
        fail(error.code(), example.file, ":", example.line, ": ", error.what());
      }
  }
}

}  // namespace mt
