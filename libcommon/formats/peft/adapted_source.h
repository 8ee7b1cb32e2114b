// AdaptedSource: a model with an adapter of PEFT's, either merged into its weights,
//   W + scale B A, computed in f32 and rounded once,
// or beside them, as rows of its own.
#pragma once

#include <memory>
#include <string>

#include "formats/model_source.h"
#include "formats/peft/peft_folder.h"

namespace mt {

class AdaptedSource : public ModelSource {
 public:
  AdaptedSource(std::unique_ptr<ModelSource> base, const std::string& folder, bool merged);

  std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& others) const override;
  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void finish_reading() const override { base_->finish_reading(); }
  void check_all_used(const ParamTable& table) const override;

  // Has the adapter tables of words or of logits, which go in the place of the base's?
  bool has_words() const { return folder_.has_words(); }

 private:
  void take_tokenizer_in(const std::string& folder);
  bool is_learnt(const Param& row) const;  // the folder has it: an adapter's, or a task's head
  bool is_merged(const Param& row) const;
  void merge(const Param& row, Tensor out) const;

  std::unique_ptr<ModelSource> base_;
  PeftFolder folder_;
  bool has_tokenizer_ = false;            // the folder, of words that the base has not
  std::unique_ptr<ModelConfig> adapted_;  // with the adapters
  ParamTable rows_;                       // of that
  PeftNames names_;
};

// Fills a rank's part of a row of magnitudes with what they are before a step: the norms of the
// weight's rows.
void read_magnitudes(const ModelSource& base, const ModelConfig& config, const Param& row,
                     Tensor out);

// A hash of a model's final norm and of its first layer's linear_proj, of a Mamba's out_proj,
// rounded to bf16, by which another model of equal shapes is known, in whatever format it lies, and
// in f32 or bf16.
std::string base_hash(const ModelSource& source);

// A run's adapter knows what it was learnt beside: Exit::bad_config where that is not this base.
void check_base(const PeftFolder& folder, const ModelSource& base);

// The row at a place of a table of a model with adapters; Exit::internal where there is none.
const Param& row_at(const ParamTable& table, const RowPlace& place);

// The folder of the adapter at a path: PEFT's own, or the last checkpoint of a run that trains one,
// which is such a folder, too.  Exit::no_input: there is none.
std::string adapter_folder(const std::string& path);
// The path of the base of the adapter in such a folder; Exit::no_input where nothing is there.
std::string base_of_adapter(const std::string& folder);

}  // namespace mt
