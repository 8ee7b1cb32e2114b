// ModelSink: where a model's weights go, row by row of its table, to appear as one checkpoint,
// whole or not at all.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/folder_files.h"
#include "ckpt/gguf.h"
#include "formats/hugging_face/weight_quantizer.h"
#include "formats/model_source.h"
#include "formats/names/foreign_name.h"
#include "model/pipeline_stages.h"

namespace mt {

struct GgufMixture;
class Calibration;
class ImportanceMatrix;

// What is made of a source.
struct ModelTarget {
  std::string path;
  const ModelSource& source;
  const ModelConfig& config;  // with the target's padded vocabulary
  DType dtype;                // that the settings name
  bool replaces = false;      // what has got the path's name meanwhile
  bool with_optimizer = false;
  bool local_spec = false;  // the torch format names norms as without Transformer Engine
  std::int64_t tensor_parallel = 1, pipeline_parallel = 1, expert_parallel = 1;
  PipelineOptions pipeline = {};
  PipelineStages stages = {};            // of them, behind those of pipeline.encoder_ranks
  std::uint64_t shard_bytes = 0;         // most bytes of a file of Hugging Face's
  bool common_file = true;               // torch_dist has a common.pt
  const GgufMixture* mixture = nullptr;  // of a GGUF file in blocks
  // By which its blocks are made, where it has any: there before anything is written.
  const ImportanceMatrix* importance = nullptr;
  WeightScheme weights = {};  // of a folder of Hugging Face's
  // The largest |x| that each row of a layer reads of a text, where that scheme is of static
  // inputs: there before anything is written.
  const std::map<std::string, float>* input_ranges = nullptr;
  bool grouped_experts = false;  // Transformer Engine's; formats/megatron/rank_layout.h
  bool legacy = false;           // the torch format as Megatron's classes before its core have it
};

// What a part of a checkpoint consists of, in the order in which it is written.
struct RowState {
  const Param* row;
  std::string state;
};
using Parts = std::vector<std::vector<RowState>>;

class ModelSink {
 public:
  virtual ~ModelSink() = default;
  // Each part takes its rows' states from one thread at a time; several parts may be written at
  // once.
  virtual void write(std::size_t part, const Param& row, const std::string& state,
                     ConstTensor value) = 0;
  // Completes what was written, and says in which folder it lies until publish().
  virtual std::string finish() = 0;
  virtual void publish() = 0;  // on return it has its name, and that is on the disk
  // What of the source has no place there, and who does not read it; lines, from the first on.
  virtual std::vector<std::string> warnings() const { return {}; }
};

// What a tensor of another library's holds of a row's value: rows of it where they lie, or a copy.
class ForeignValue {
 public:
  ForeignValue(const Param& row, const ForeignName& name, ConstTensor value,
               std::int64_t vocab_size);
  const ConstTensor& tensor() const { return tensor_; }

 private:
  Buffer copy_;
  ConstTensor tensor_;
};

// The files of OUTPUT that a model's replace in each format.  A tokenizer's are among them if the
// source brings one; else those that are there stay.
FolderFiles hugging_face_files(const ModelSource& source);
FolderFiles meta_files(const ModelSource& source);
FolderFiles trtllm_files();
FolderFiles gguf_files();

// The config.json of the target as a model of Hugging Face's, with what the source's said beside.
std::string hugging_face_config(const ModelTarget& target);

// Returns the range of all of a row, which its matrices share, and that of the inputs that it met
// in the calibration; nothing where the target's format has no use for it.
SharedRange range_of(const ModelTarget& target, const Param& row, ConstTensor value);

// What is read of a row's value, which is replaced by that, where such a folder has its matrices in
// a format of fewer bits.
void round_to_format(const ModelTarget& target, const Param& row, Tensor value);

// Tells what each row's state will have.
using RowTypes = std::function<DType(const Param&, const std::string& state)>;
std::unique_ptr<ModelSink> make_hugging_face_sink(const ModelTarget& target,
                                                  const ParamTable& table, const RowTypes& types);
// One part alone: its files are written from front to back.
std::unique_ptr<ModelSink> make_meta_sink(const ModelTarget& target, const ParamTable& table,
                                          const RowTypes& types);
std::unique_ptr<ModelSink> make_trtllm_sink(const ModelTarget& target, const ParamTable& table,
                                            const RowTypes& types);
std::unique_ptr<ModelSink> make_gguf_sink(const ModelTarget& target, const ParamTable& table,
                                          const RowTypes& types);
// By what such a text shows of the layers' inputs; tensors of experts have none.
ImportanceMatrix gguf_importance(const ModelTarget& target, const ParamTable& table,
                                 const Calibration& calibration);
// Exit::bad_data for a target's importance, of a file, that is none of the model's.
void check_gguf_importance(const ModelTarget& target, const ParamTable& table,
                           const std::string& path);
// What its tensors are called in the file.  Exit::bad_config if llama.cpp has no such model.
std::vector<std::string> gguf_names(const ModelTarget& target, const Param& row);
// Whether a row is in blocks in a quantized file, and what its sink takes it as: f32 then.
bool is_gguf_quantized(const Param& row);
DType gguf_dtype(const Param& row, DType stored, bool quantized);
// Exit::difference unless the file that such a sink wrote holds this value of a row, or the
// blocks that are made of it.  And unless it has the tensors of the table's rows alone.
void compare_with_gguf(const ModelTarget& target, const GgufReader& file, const Param& row,
                       ConstTensor value);
void check_gguf_tensors(const ModelTarget& target, const ParamTable& table, const GgufReader& file);
std::unique_ptr<ModelSink> make_core_sink(const ModelTarget& target, const ParamTable& table,
                                          std::size_t parts);
std::unique_ptr<ModelSink> make_dcp_sink(const ModelTarget& target, const ParamTable& table,
                                         std::size_t parts);

}  // namespace mt
