// UpcycledSource: a dense model whose MLPs become experts, all alike at first (Komatsuzaki et al.:
// arXiv:2212.05055).  As the weights of a token's experts sum to 1, it computes the same as before.
// Routers are drawn anew, from a seed.
#pragma once

#include <memory>

#include "formats/model_source.h"

namespace mt {

struct UpcycleOptions {
  std::int64_t experts = 0, chosen = 2;
  std::uint64_t seed = 0;
};

class UpcycledSource : public ModelSource {
 public:
  // Exit::bad_config of a model that has no gated MLPs without biases, or experts already.
  UpcycledSource(std::unique_ptr<ModelSource> dense, const UpcycleOptions& options);

  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override { dense_->finish_reading(); }
  void check_all_used(const ParamTable& table) const override;

 private:
  // The row of the dense model that this one is; null of a router.
  const Param* dense_row(const Param& row) const;

  std::unique_ptr<ModelSource> dense_;
  ParamTable rows_;  // of that
  std::uint64_t seed_;
};

}  // namespace mt
