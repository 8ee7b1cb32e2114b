// SmoothedSource: a model some of whose weights have their rows or columns multiplied, so that it
// computes the same and its matrices are quantized better: the columns of a linear layer, and, by
// one over that, the weights that make what it reads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/model_source.h"

namespace mt {

// RowFactors: what multiplies a row of the table; none where there are none.
struct RowFactors {
  std::vector<float> rows, columns;
  float shift = 0;  // is added before and subtracted behind: a norm's 1, where that is left out
};

using RowFactorsByName = std::map<std::string, RowFactors>;

class SmoothedSource : public ModelSource {
 public:
  SmoothedSource(std::unique_ptr<ModelSource> source, RowFactorsByName factors);

  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;
  DType dtype_of(const Param& row, const std::string& state) const override;
  // Exit::bad_config where what is made of a row is not finite in the type of `out`.
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override { source_->finish_reading(); }
  void check_all_used(const ParamTable& table) const override { source_->check_all_used(table); }

 private:
  std::unique_ptr<ModelSource> source_;
  RowFactorsByName factors_;
};

}  // namespace mt
