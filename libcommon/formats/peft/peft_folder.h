// PEFT's folder of an adapter: adapter_config.json, and adapter_model.safetensors or .bin with
//   base_model.model.PATH.lora_A.weight [rank, in]
//   base_model.model.PATH.lora_B.weight [out, rank]
//   base_model.model.PATH.lora_magnitude_vector [out], of DoRA
// for each PATH of a linear layer of transformers that has one; and, of a model with the head of a
// task, which is learnt whole,
//   base_model.model.score.weight [labels, hidden_size]
// and, where modules_to_save says so or words were added, the tables of words and of logits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"
#include "formats/names/foreign_name.h"
#include "model/config/adapter_config.h"

namespace mt {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterModel = "adapter_model.safetensors";

bool is_peft_folder(const std::string& folder);

// What the tensors are called of the adapters of a model, and of its task's head.
class PeftNames {
 public:
  explicit PeftNames(const ModelConfig& config);
  bool has(const Param& row) const { return names_.contains(row.name()); }
  ForeignName of(const Param& row) const;

 private:
  std::map<std::string, ForeignName> names_;  // by those of rows
};

// PeftFolder: an adapter that is read.
class PeftFolder {
 public:
  // Exit::bad_data for what is not a LoRA, or has more to it than is computed here.
  explicit PeftFolder(const std::string& folder);

  const std::string& path() const { return path_; }
  const std::string& base() const { return base_; }  // a path, or a name on Hugging Face's hub
  // The settings of such a base with the adapters, and with the head that the folder has.
  // Exit::bad_config for a LLaVA, whose tower and language model would share their targets.
  ModelConfig adapted(const ModelConfig& base) const;
  std::int64_t labels() const;  // of that head; 0: there is none
  // Whether it has a row of an adapter.
  bool has(const PeftNames& names, const Param& row) const;
  // The table of words or of logits that goes in the place of the base's; null: there is none.
  const DistTensor* words(const Param& row) const;
  bool has_words() const;
  // Fills `out` with that table; Exit::bad_config where it is of other words than the model's.
  void read_words(const Param& row, std::int64_t vocab_size, Tensor out) const;
  // Fills `out` with a whole row of an adapter.  Exit::bad_config where the base has other shapes.
  void read(const PeftNames& names, const Param& row, Tensor out) const;
  DType dtype_of(const PeftNames& names, const Param& row) const;
  // Exit::bad_data for a tensor that belongs to none of the rows, and for rows without one, but of
  // layers that predict further tokens, without which it may have been learnt.
  void check_all_used(const PeftNames& names, const ParamTable& table) const;

 private:
  // Likewise, by what it is of.
  enum class Table { words, logits };
  const DistTensor* find(Table table) const;
  // The words of a model whose vocabulary was made another size before the adapter was learnt, as
  // PEFT then stores all tables, too; the base's where it is of that size.
  std::int64_t vocab_size(const ModelConfig& base) const;

  std::string path_, base_;
  AdapterConfig settings_;  // without targets
  std::vector<std::string> targets_;
  bool is_pattern_ = false;    // the one target, a regular expression
  bool unties_words_ = false;  // of a base whose words are its logits, too
  std::unique_ptr<TensorSource> tensors_;
};

// PeftTensor: a tensor of such a folder that is to be written, on the host.
struct PeftTensor {
  std::string name;
  ConstTensor tensor;
};
void write_peft_folder(const std::string& folder, const ModelConfig& config,
                       const std::vector<PeftTensor>& tensors);

}  // namespace mt
