// Rewrites a model's checkpoint in another format or for another parallel layout.
//
// The tensors stream: in memory are the rows of its table that are being written, together no
// more than the largest one and 160 MiB; beside what is made of one that is quantized, and, before,
// the whole model in float32 where it reads a text to be quantized by, and, behind, twice where it
// reads one to tell what that costs.  The target appears whole or
// not at all, and holds the same bytes for any number of threads.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/command.h"
#include "formats/joined_source.h"
#include "formats/model_source.h"
#include "formats/quantization_cost.h"
#include "formats/text_reader.h"
#include "model/config/mamba_config.h"
#include "model/pipeline_options.h"
#include "tensor/device_options.h"

namespace mt {

struct ConvertOptions {
  std::string input, output;  // or, by their options:
  std::string load, save;
  std::string loader, saver = "core", ckpt_format = "torch_dist", model_type;
  std::string transformer_impl, tokenizer_model;
  ModelSourceOptions source;
  std::int64_t target_tensor_parallel = 1, target_pipeline_parallel = 1, target_expert_parallel = 1;
  std::int64_t target_encoder_pipeline_parallel = 0;  // 0: a T5's encoder has no stages of its own
  bool moe_grouped_gemm = false;
  std::int64_t upcycle = 0, moe_router_topk = 2;  // experts instead of MLPs; 0: as they are
  std::string hybrid_layer_pattern;               // of a GPT that becomes a hybrid
  MambaConfig mixers = {};                        // of that
  bool hybrid_to_gpt = false;
  std::string vision_tower;  // of a GPT that becomes a LLaVA; a path
  JoinOptions join = {};     // of that
  PipelineOptions pipeline = {.size_flag = "--target-pipeline-parallel-size"};
  std::optional<std::int64_t> make_vocab_size_divisible_by;
  std::string dtype;     // of the weights; empty: as stored; q8_0 for GGUF
  std::string quantize;  // a WeightFormat of the linear layers' matrices; empty: as the others
  std::string quantize_layout = "compressed-tensors";  // or modelopt
  TextOptions calibration = {};
  std::string imatrix;         // a file: an ImportanceMatrix of a GGUF file's blocks
  std::string cost_text;       // a file, of which pieces as of the calibration's are read
  DeviceOptions compute = {};  // of those texts
  bool bf16 = false, fp16 = false;
  std::int64_t shard_megabytes = 5000;
  bool no_common_file = false, with_optimizer = false, verify = false, force = false, mock = false;
  std::uint64_t seed = 1234;
  int threads = 0;
  // Called with the folder that all that is written lies in before it gets its name; what it throws
  // ends the work, and nothing remains of it.
  std::function<void(const std::string& folder)> try_written = {};

  void add_to(CommandLine& cl);
  void complete();  // Exit::usage for what is missing

  // Whether layers are put together otherwise than they were.
  bool translates() const { return hybrid_to_gpt || !hybrid_layer_pattern.empty(); }
};

struct ConvertReport {
  std::string from, to;  // formats
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;    // of what stands for the rows in the target
  std::int64_t compared = 0;  // rows that were read back and found equal
  std::optional<QuantizationCost> cost = {};

  void write(JsonWriter& json) const;
};

// `check` is called between rows, from one thread at a time; what it throws ends the work, and
// nothing remains of it.
ConvertReport convert_checkpoint(const ConvertOptions& options, const Log& log,
                                 const std::function<void()>& check);

// What convert_checkpoint() would write: a line for each row with its names in the target.
std::string describe_conversion(const ConvertOptions& options);

}  // namespace mt
