// TranslatedSource: a GPT, with or without experts, whose attention and MLPs become layers of their
// own of a hybrid, or such a hybrid that becomes a GPT (core_v0.19.0,
// core/models/hybrid/gpt_checkpoint_interop.py).  The i-th attention and the i-th MLP, or the i-th
// experts, of the hybrid are those of the GPT's i-th layer; Mamba's mixers are drawn anew, from a
// seed.  Without these the two compute the same where an MLP is behind each attention.
#pragma once

#include <memory>

#include "formats/model_source.h"
#include "model/config/mamba_config.h"

namespace mt {

struct TranslateOptions {
  std::string pattern;  // of the hybrid; empty: it becomes a GPT
  MambaConfig mixers = {};
  std::uint64_t seed = 0;
};

class TranslatedSource : public ModelSource {
 public:
  // Exit::bad_config where the layers of the one are not those of the other.
  TranslatedSource(std::unique_ptr<ModelSource> source, const TranslateOptions& options);

  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override { source_->finish_reading(); }
  void check_all_used(const ParamTable& table) const override;

 private:
  // The row of the source that this one is; null of a mixer.
  const Param* row_of(const Param& row) const;

  std::unique_ptr<ModelSource> source_;
  ParamTable rows_;  // of that
  std::uint64_t seed_;
};

}  // namespace mt
