// Fields: the numbers of a sample or of a micro-batch, by name: what a dataset makes, a loader cuts
// and moves to a device, and a model and its objective read.  Whoever is in between goes by the
// list of FieldSpecs and names none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace mt {

enum class Field : std::uint8_t {
  ids,          // tokens
  labels,       // the token that is to be said for each, or for each of `masked`
  positions,    // of tokens, in their document
  first_key,    // for each token, where in its sequence the keys that it attends to begin
  loss_mask,    // 1 where a label's loss counts, else 0
  weight,       // of each label's loss in the objective
  lengths,      // of each sequence, or of each text of it, in tokens: behind them is padding
  types,        // of tokens: of which of a text's two parts each is, 0 or 1
  masked,       // which tokens of a sequence are to be guessed, ascending; then zeroes
  order,        // of each text: 1 where the second of its two parts stood before the first, else 0
  order_mask,   // 1 where an order's loss counts, else 0
  encoder_ids,  // tokens that an encoder reads; with their positions and the sequences' lengths
  encoder_positions,
  encoder_lengths,
  // What an objective makes of those with `masked`, or of tokens that are learnt: which tokens of
  // the micro-batch heads are asked of; for each token, which of these rows it is, or -1; and for
  // each row what is to be said, and the share of its loss in the value of its term.  `weight` is
  // of the rows, too.  Of pairs of texts samples bring the share, 1.
  rows,
  row_of,
  targets,
  share,
  values,     // of each sequence, or of each pair of texts: numbers that are to be said of it
  reference,  // of each text: its log-probability by the model that a run began with
  // These are of each further token that a model predicts, one depth behind the other: what it
  // reads, what is to be said, the share of its loss in the value of its term, and the loss's
  // weight.
  further_ids,
  further_labels,
  further_share,
  further_weight,
  // Of each token that a policy wrote, by its label: in two rows what is to be said of its value,
  // and what was said of it when the text was written; and what the loss of that weighs.
  returns,
  value_weight,
  // Of each token the experts that it goes to, in each layer as many, or -1 where its router
  // chooses: a row of tokens for each.
  experts,
  pixels,  // of each token of an image, those of its patch (image/patches.h), or zeroes
  // Of images in texts: for each token of a text the row of hidden states that stands there, of
  // those of all tokens of its sequence's images, or -1; and these rows, where they are made
  // already.
  image_rows,
  image_hidden,
  // Of parts of images (data/images/crop_samples.h).
  local_ids,
  local_pixels,
  sharpness,
  last_learns,
};
inline constexpr std::size_t kFields = 34;

// What a field is in all samples of one kind.
struct FieldSpec {
  Field field = Field::ids;
  DType dtype = DType::i32;     // i32; or f32, which on a device is of the step's sum_dtype
  std::int64_t per_sample = 0;  // elements
  bool of_tokens = true;        // an element a token, shared out where ranks share sequences
  bool ahead = false;           // an objective's, made of whole sequences: Objective::look_ahead()

  // The type of it in memory where real numbers are `real`.
  DType stored_as(DType real) const { return dtype == DType::f32 ? real : dtype; }
};
using FieldSpecs = std::vector<FieldSpec>;

class Fields {
 public:
  // An empty tensor: there is no such field.
  Tensor& operator[](Field field) { return tensors_[static_cast<std::size_t>(field)]; }
  const Tensor& operator[](Field field) const { return tensors_[static_cast<std::size_t>(field)]; }

  // The elements of a field in host memory; none where there is no such field.
  template <class T>
  std::span<T> span(Field field) const {
    const Tensor& tensor = (*this)[field];
    return tensor ? tensor.span<T>() : std::span<T>();
  }

 private:
  std::array<Tensor, kFields> tensors_;
};

// Bytes of a block that holds these fields of some samples, each from a multiple of 256 on.
std::int64_t fields_bytes(const FieldSpecs& specs, std::int64_t samples, DType real);
// The fields of `samples` samples in such a block, [samples per_sample] each.
Fields fields_in(const Tensor& block, const FieldSpecs& specs, std::int64_t samples, DType real);

}  // namespace mt
