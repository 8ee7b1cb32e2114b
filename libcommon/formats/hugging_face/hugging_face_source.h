// A model in a folder of Hugging Face's: config.json, and safetensors or pytorch_model.bin, as a
// ModelSource.  Names may lack the model's own ("transformer." of GPT-2, "model." of Llama).
#pragma once

#include "ckpt/tensor_source.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/model_source.h"
#include "formats/names/hugging_face.h"

namespace mt {

class HuggingFaceSource : public ModelSource {
 public:
  HuggingFaceSource(const std::string& folder, const ModelSourceOptions& options);

  DType dtype_of(const Param& row, const std::string& state) const override;
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param& row, const std::string& state) const override;
  void check_all_used(const ParamTable& table) const override;
  std::vector<BlockType> block_types(const Param& row) const override;
  void read_blocks(const Param& row, std::uint8_t* packed) const override;

 protected:
  HuggingFaceSource() = default;
  // Without tensors.  further: ModelSourceOptions'.
  HuggingFaceSource(const std::string& folder, std::int64_t further);

  // The tensors here that a row consists of; none of one that is lacking.
  virtual std::vector<ForeignName> names_of(const Param& row) const;
  // The stored tensor of that name, which has the shape that it must have.
  const DistTensor& stored(const Param& row, const ForeignName& name) const;

  // The blocks that all rows of a stored matrix lie in, or, of_columns, of its transposed, if they
  // do.
  struct StoredBlocks {
    BlockType type;
    bool of_columns = false;
  };
  virtual std::optional<StoredBlocks> stored_blocks_of(const DistTensor& tensor) const;
  // Where a row of a matrix lies: row `row` of a tensor, whose blocks are of that type.
  struct RowPlaceInFile {
    const DistTensor* tensor = nullptr;
    std::int64_t row = 0;
    std::optional<BlockType> type = {};
  };
  // Has the types of all rows, or none where a row lies in no such blocks.
  std::vector<RowPlaceInFile> places_of(const Param& row) const;

  std::unique_ptr<TensorSource> tensors_;
  LackingBiases lacking_;
  // What names begin with of each layer that predicts a further token, where the model has none of
  // them.
  std::vector<std::string> passed_over_;

 private:
  void find_prefix(const Param& words, const std::string& wanted);
  void note_others();
  void unpack();
  bool dtype_is_tensors_ = false;  // of the words', where config.json does not say
  bool output_if_stored_ = false, of_texts_ = false;  // see HuggingFaceConfig
  bool fused_experts_ = false;                        // likewise
  bool may_predict_further_ = false;                  // see HuggingFaceConfig
  std::string quantization_;  // HuggingFaceConfig's, or hf_quant_config.json
  std::string prefix_;        // before all names, where a state_dict() is part of a state
  void read_part(const DistTensor& tensor, const ForeignName& name, Tensor out) const;
  bool are_words(std::string_view name) const;
  bool has_pooler() const;
  ForeignName fused_name_of(const Param& row) const;
  const DistTensor* words_alone() const;
  const DistTensor* find_output() const;
  const DistTensor* original_of(const std::string& name, const ParamTable& table) const;
  void take_further(const HuggingFaceConfig& stored, std::int64_t layers);
  void take_video_processor(const std::string& folder);
  void note_passed_over();
  void note_heads(const ParamTable& table);
  void note_rounded(const ParamTable& table);
  bool is_of_other_head(const std::string& name) const;
  void check_same(const DistTensor& a, const DistTensor& b) const;
  std::vector<float> all_of(const DistTensor& tensor) const;
  void take_normalization();
  bool is_constant_of_radio(const std::string& name, const DistTensor& tensor) const;
};

// A model that has a config.json there, with initial weights instead of its own.
class MockSource : public HuggingFaceSource {
 public:
  MockSource(const std::string& folder, std::uint64_t seed, std::int64_t further);
  DType dtype_of(const Param&, const std::string&) const override { return dtype(); }
  void read(const Param& row, const std::string& state, Tensor out) const override;
  std::optional<MappedTensor> view(const Param&, const std::string&) const override { return {}; }
  void check_all_used(const ParamTable&) const override {}

 private:
  std::uint64_t seed_;
};

// The tokenizer of these options, or the one in a folder of theirs.
FolderTokenizer read_tokenizer(const TokenizerOptions& tokenizer);
FolderTokenizer read_tokenizer_in(const std::string& folder);

}  // namespace mt
