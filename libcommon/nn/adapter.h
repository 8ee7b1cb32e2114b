// Adapter: what a linear layer learns while its own weight is frozen (Hu et al.: arXiv:2106.09685).
//   y += scale B A drop(x)
// or, with magnitudes m of rows (Liu et al., DoRA: arXiv:2402.09353), W being the weight,
//   y = m V x / |V|     V = W + scale B A, |V| its rows' norms, which have no gradient
// x: [tokens, in], y: [tokens, out] of this rank.  A weight that other libraries have as several
// has as many parts, those of its rows that are queries, keys and values, or gates: each part has
// an A, [rank, in], and a B, [its rows, rank], of its own, and one product makes A x of all.  Where
// a part is a multiple of what other libraries have, A, B and m are theirs: W + multiple scale B A,
// and multiple m.
//
// Tensor-parallel ranks share A and B as they share the weight, and what is made here is part of
// what they add up anyway: where outputs are cut so is B, and the gradient of A is a sum over
// ranks; where inputs are, so is A, and B's is.
#pragma once

#include <string>
#include <vector>

#include "kernels/row_block.h"
#include "nn/step.h"

namespace mt {

class Adapter {
 public:
  struct Options {
    std::int64_t rank = 0;
    double scale = 1, dropout = 0;  // no dropout with magnitudes
    bool magnitudes = false;
    std::vector<std::string> parts;      // names in the weight's segments; "": all of its rows
    std::vector<double> multiples = {};  // of each; empty: 1
    std::int64_t layer = 0;              // which random numbers depend on
    Purpose purpose = Purpose::qkv_adapter_dropout;
  };
  // Rows have these as their place.param.
  static constexpr std::string_view kA = "lora_A", kB = "lora_B", kMagnitude = "lora_magnitude";

  // Adds rows to the table that the weight is in.
  Adapter(ParamTable& table, const Param& weight, const Options& options);

  // Directions: V, the squares of its rows over their multiples, and the multiple of m / |V|, 1
  // where a row has no magnitude; in `layer`.
  // Without magnitudes they are empty.
  struct Directions {
    Tensor v, squares, factor;
  };
  Directions directions(Step& s, ConstTensor weight) const;
  // The weight, or with directions its rows times their factors, in `layer`.
  ConstTensor scaled(Step& s, ConstTensor weight, const Directions& directions) const;

  // y is added to, or else overwritten.
  void forward(Step& s, Tensor y, ConstTensor x, const Directions& directions,
               bool accumulate) const;
  // dx is added to, unless it is empty.  dy: the gradient of y.
  void backward(Step& s, Tensor dx, ConstTensor dy, ConstTensor x,
                const Directions& directions) const;

 private:
  struct Part {
    const Param *a, *b, *magnitude;  // null: none
    RowBlock inputs, outputs;        // of all parts' A, and of their B
    double multiple;
    double scale(const Options& options) const { return multiple * options.scale; }
  };
  Tensor all_inputs(Step& s) const;  // every part's A, one below the other: [parts rank, in]
  // scale B of each, at its rows and A's columns, among zeros; the rows times their factors.
  Tensor all_outputs(Step& s, ConstTensor factor) const;
  Dropout dropout(const Step& s) const;
  std::int64_t width() const { return std::ssize(options_.parts) * options_.rank; }

  Options options_;
  std::int64_t in_, out_;           // of this rank
  std::int64_t first_channel_ = 0;  // of x, among those of all ranks
  bool by_inputs_;                  // whether ranks share its rows
  std::vector<Part> parts_;
};

// Whether a row is an adapter's.
bool is_adapter(const RowPlace& place);
// The place of a part's A or B, of the weight at a place.
RowPlace adapter_place(const RowPlace& weight, const std::string& part, std::string_view param);
// A part's rows among those that a rank has of the weight.
RowBlock adapted_rows(const Param& weight, const std::string& part);

}  // namespace mt
