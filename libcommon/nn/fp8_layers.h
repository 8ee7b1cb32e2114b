// Fp8Layers: which linear layers multiply codes of eight bits, and with what scales
// (kernels/fp8.h).
//   y = x W^T      dx = dy W      dW += dy^T x
// of operands that are rounded first: x, W and dy to E4M3, or, of the hybrid format, dy to E5M2.
// Sums are f32, and so is what a weight's gradient is added to; a bias's gradient is of dy itself.
// (Micikevicius et al.: arXiv:2209.05433; Megatron-LM's --fp8-recipe tensorwise and delayed.)
//
// A scale comes from the largest number of the whole tensor, of which ranks may have parts each: of
// a weight, and of a micro-batch's x and dy.  A delayed one comes from the largest numbers that the
// weight, and all micro-batches' x and dy, had in steps before, and is the same in all of a step.
// So every layout has the same codes.
//
// Blockwise scales, powers of two, are of 128 numbers of x and dy along the sum that a product is,
// and of squares of a weight (kernels/fp8_blocks.h); all is E4M3.  Of ranks' parts blocks are those
// of the whole where the parts are multiples of 128.  Elsewhere than on Hopper GPUs multiply the
// numbers of 16 bits that codes stand for.
//
// A weight is cast once a step, where its codes are kept, and else for each product.  Where ranks
// have a part each of the newest weights they cast those, with scales of the whole, and gather
// codes: the same that they would have cast of gathered weights.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/weight_codes.h"
#include "kernels/fp8_format.h"
#include "nn/step.h"
#include "nn/weight_grads.h"

namespace mt {

struct Fp8Rules {
  std::function<bool(const RowPlace&)> multiplies;  // whether a layer does, by its weight's place
  bool hybrid = false;
  bool weight_gradients = true;  // else those are products of numbers as they are
  bool keeps_weights = true;
  bool gathers_codes = false;  // which are kept
  struct Delayed {
    std::int64_t length = 1;  // how many steps are remembered
    bool most_recent = true;  // else the largest of them counts
    int margin = 0;
  };
  std::optional<Delayed> delayed = {};  // none: scales are of the tensors themselves
  bool blockwise = false;               // ... of their blocks
};

class Fp8Layers final : public WeightCodes {
 public:
  // Exit::bad_config, with a weight's name, where a rank's part of it has other sides than
  // multiples of kFp8Multiple.
  Fp8Layers(const ParamTable& table, const Fp8Rules& rules, Stream& stream);

  bool multiplies(const Param& weight) const {
    return weight.index < numbers_.size() && numbers_[weight.index] >= 0;
  }
  bool weight_gradients() const { return rules_.weight_gradients; }
  const Fp8Rules& rules() const { return rules_; }

  bool is_blockwise() const { return rules_.blockwise; }

  // Codes of x, [rows, cols], and of its transpose, with their inverses; either may be empty.
  struct Codes {
    Tensor codes, inverse, transposed, transposed_inverse;
    Fp8Format format = Fp8Format::e4m3;
    bool blocks = false, squares = false;
  };
  // These give the codes of what a layer reads, and of the gradient of what it makes.  Codes lie in
  // `layer`; their transposes, for a weight's gradient to read, where Step::gradient() would be.
  // Exit::bad_config where the rows are no multiple of kFp8Multiple.
  enum class Wanted : std::uint8_t { codes, transposed, both };
  static Wanted wanted(bool codes, bool transposed) {
    return !codes ? Wanted::transposed : transposed ? Wanted::both : Wanted::codes;
  }
  Codes input(Step& s, const Param& weight, ConstTensor x, Wanted wanted) const;
  Codes gradient(Step& s, const Param& weight, ConstTensor dy, Wanted wanted) const;

  // Has a problem multiply what it reads with a weight, or with its transpose.
  void put_weight(Step& s, Matmul& problem, const Param& weight, const Codes& a) const;
  void put_transposed_weight(Step& s, Matmul& problem, const Param& weight, const Codes& a) const;
  // Has a weight's gradient be a product of transposed codes.
  static void put(WeightGrad& record, const Codes& dy, const Codes& x);

  std::size_t bytes() const { return storage_.bytes(); }  // of what is kept from step to step

  // --- Codes that are gathered: of trainable weights. ---

  bool has(const Param& row) const override {
    return rules_.gathers_codes && row.trainable && multiplies(row);
  }
  void put_at(const Param& row, const Tensor& codes) override;
  void cast(std::span<const Param* const> rows, std::span<const Part> parts, Group& ranks,
            Stream& stream) override;
  void forget() override { gathered_ = false; }
  // Ranks that have parts of the same matrices; before a cast.
  void share_matrices(Group& ranks) { tensor_ = &ranks; }
  // Whether a step's first forward casts them, as it does but where they have been gathered.
  bool casts_whole_weights() const { return !gathered_; }

  // --- Delayed scales. ---

  enum Operand : std::uint8_t { of_x, of_weight, of_dy, kOperands };
  bool is_delayed() const { return rules_.delayed.has_value(); }
  // After a step's last backward: scales of the next.  `ranks`: those that have parts of the same
  // tensors, or other micro-batches.
  void update_scales(const std::vector<Group*>& ranks, Stream& stream);
  // What a layer remembers, by its weight's name: the scales of x, W and dy, then the largest
  // numbers that each had, the newest first; 3 + 3 length in all.
  struct Memory {
    std::string name;
    std::vector<float> numbers;
  };
  std::vector<Memory> memories(Stream& stream) const;
  std::size_t remembered() const {  // numbers of each
    return static_cast<std::size_t>(kOperands * (1 + rules_.delayed->length));
  }
  // Exit::internal if there is another number of numbers, or no such layer here.
  void remember(const Memory& memory, Stream& stream);

 private:
  Codes cast(Step& s, const Param& weight, Operand operand, ConstTensor x, Codes to,
             const std::vector<Group*>& ranks) const;
  Codes cast_rows(Step& s, const Param& weight, Operand operand, ConstTensor x, Wanted wanted,
                  bool is_part) const;
  Codes weight_codes(Step& s, const Param& weight, Wanted wanted) const;
  Codes gathered_codes(Step& s, const Param& weight) const;
  Codes weight_blocks(Step& s, const Param& weight, Wanted wanted) const;
  Fp8Format format_of(Operand operand) const {
    return operand == of_dy && rules_.hybrid ? Fp8Format::e5m2 : Fp8Format::e4m3;
  }
  // What is delayed: of all layers' x, then of their weights, then of their dy.
  std::int64_t place_of(const Param& weight, Operand operand) const {
    return operand * layers() + numbers_[weight.index];
  }
  Tensor inverse_of(std::int64_t place) const {
    return inverse_.rows(place, place + 1).reshape({kFp8InverseStride}).rows(0, 1);
  }
  std::int64_t layers() const { return std::ssize(names_); }

  Fp8Rules rules_;
  std::vector<std::int64_t> numbers_;  // of layers, by the table's rows; -1: it multiplies numbers
  std::vector<std::string> names_;     // of layers
  std::vector<Codes> kept_;            // of layers, where weights' codes are kept
  std::vector<Tensor> largest_;        // of layers that are gathered: [1], or of squares, f32
  Tensor all_largest_, of_gathered_;   // those, one after another; their scales, [layers] f32
  Group* tensor_ = nullptr;
  bool gathered_ = false;
  Tensor scale_, amax_;  // delayed: [3 layers] f32; amax: so far in this step
  Tensor inverse_;       // [3 layers, kFp8InverseStride] f32, each in the first column
  Tensor history_;       // [3 layers, length] f32
  Buffer storage_;
};

}  // namespace mt
