#include "formats/megatron/megatron_common.h"

#include <filesystem>
#include <limits>

#include "formats/hugging_face/hugging_face_source.h"
#include "formats/names/gguf.h"
#include "model/config/megatron_args.h"
#include "model/config/model_config.h"
#include "text/file_names.h"

namespace mt {

using Kind = PyValue::Kind;

// --- Tensors ------------------------------------------------------------------------------------

PyValue copied_value(const PyValue& value, const TorchReader& reader, const KeepTensor& keep) {
  if (TorchReader::is_tensor(value)) {
    const StoredTensor stored = reader.tensor(value);
    const Buffer buffer(Device::cpu,
                        static_cast<std::size_t>(stored.shape.numel()) * size_of(stored.dtype));
    const Tensor tensor = buffer.tensor(stored.dtype, stored.shape);
    stored.copy_to(tensor);
    return keep(tensor);
  }
  std::vector<PyValue> items;
  switch (value.kind()) {
    case Kind::dict: {
      PyValue dict = PyValue::dict();
      const std::vector<PyValue>& entries = value.entries("");
      for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
        dict.set_item(entries[i], copied_value(entries[i + 1], reader, keep));
      return dict;
    }
    case Kind::list:
    case Kind::tuple:
      for (const PyValue& item : value.as_items(""))
        items.push_back(copied_value(item, reader, keep));
      return value.is(Kind::list) ? PyValue::list(std::move(items))
                                  : PyValue::tuple(std::move(items));
    case Kind::persistent:
      fail(Exit::bad_data, "the common state refers to a storage that is no tensor's");
    default:
      return value;
  }
}

// --- Settings -----------------------------------------------------------------------------------

// `first`, and what `second` has beside it.
static PyValue merged(PyValue first, const PyValue& second) {
  const std::vector<PyValue>& entries = second.entries("args");
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (first.find(entries[i].as_string("args")) == nullptr)
      first.set_item(entries[i], entries[i + 1]);
  return first;
}

// What loading reads of a run's settings where the source knows of none.
static PyValue unknown_run(const ModelConfig& config) {
  const std::int64_t most = config.max_position_embeddings;
  const bool endless = most == std::numeric_limits<int>::max();  // a model that knows no positions
  return PyValue::dict({{"context_parallel_size", 1},
                        {"data_parallel_size", 1},
                        {"use_distributed_optimizer", false},
                        {"ckpt_fully_parallel_save", false},
                        {"async_save", false},
                        {"data_parallel_random_init", false},
                        {"seq_length", endless ? PyValue() : PyValue(most)},
                        {"consumed_train_samples", 0},
                        {"skipped_train_samples", 0},
                        {"consumed_valid_samples", 0}});
}

static PyValue optional(const std::optional<std::int64_t>& number) {
  return number ? PyValue(*number) : PyValue();
}

static void add_stages(const ModelTarget& target, PyValue& args) {
  const PipelineOptions& o = target.pipeline;
  const int chunks = target.stages.chunks;
  args.set_item("virtual_pipeline_model_parallel_size", chunks > 1 ? PyValue(chunks) : PyValue());
  args.set_item("num_layers_per_virtual_pipeline_stage", optional(o.layers_per_virtual_stage));
  args.set_item("decoder_first_pipeline_num_layers", optional(o.first_layers));
  args.set_item("decoder_last_pipeline_num_layers", optional(o.last_layers));
  args.set_item("account_for_embedding_in_pipeline_split", o.account_for_embedding);
  args.set_item("account_for_loss_in_pipeline_split", o.account_for_loss);
  args.set_item("pipeline_model_parallel_layout", o.layout.empty() ? PyValue() : PyValue(o.layout));
}

static PyValue make_args(const ModelTarget& target, const std::string& format,
                         const PyValue& common) {
  const std::int64_t encoder = target.pipeline.encoder_ranks;
  PyValue args = PyValue::dict(
      {{"tensor_model_parallel_size", target.tensor_parallel},
       {"pipeline_model_parallel_size", target.pipeline_parallel},
       {"encoder_tensor_model_parallel_size", encoder > 0 ? target.tensor_parallel : 0},
       {"encoder_pipeline_model_parallel_size", encoder},
       {"expert_model_parallel_size", target.expert_parallel},
       {"world_size",
        target.tensor_parallel * (target.pipeline_parallel + encoder) * target.expert_parallel},
       {"transformer_impl", target.local_spec ? "local" : "transformer_engine"},
       {"ckpt_format", format},
       {"no_save_rng", true}});
  if (!target.with_optimizer) args.set_item("no_save_optim", true);
  if (target.grouped_experts) args.set_item("moe_grouped_gemm", true);
  add_stages(target, args);
  PyValue model = PyValue::dict();
  add_model_args(target.config, target.dtype, model);
  args = merged(std::move(args), model);
  if (target.source.config().value_head) args.set_item("value_head", false);  // left behind
  if (target.config.mtp_num_layers == 0 && target.source.config().mtp_num_layers > 0) {
    for (const char* arg : {"mtp_num_layers", "mtp_hybrid_override_pattern"})
      args.set_item(arg, PyValue());  // left behind, whatever the source's args say
    if (!target.config.multi_latent_attention) args.set_item("multi_latent_attention", false);
  }
  if (target.legacy) args.set_item("use_legacy_models", true);
  const bool known = common.is(Kind::dict);
  args = merged(args, known ? common.at("args", "common state") : unknown_run(target.config));
  return PyValue::make(PyValue::global("argparse", "Namespace"), args);
}

PyValue make_common(const ModelTarget& target, const std::string& format, const KeepTensor& keep) {
  const PyValue source = target.source.common();
  PyValue common = PyValue::dict({{"args", make_args(target, format, source)},
                                  {"checkpoint_version", 3.0},
                                  {"iteration", iteration_of(target.source)}});
  if (!source.is(Kind::dict)) return common;
  const std::vector<PyValue>& entries = source.entries("common state");
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const std::string& name = entries[i].as_string("common state");
    const bool other_run = name == "rng_state" || name == "rerun_state_machine",
               of_optimizer = name == "optimizer" || name == "content_metadata";
    if (common.find(name) != nullptr || other_run || of_optimizer) continue;
    common.set_item(name, copied_value(entries[i + 1], *target.source.common_tensors(), keep));
  }
  return common;
}

PyValue copied_optimizer(const ModelSource& source, const KeepTensor& keep) {
  return copied_value(source.common().at("optimizer", source.path()), *source.common_tensors(),
                      keep);
}

std::vector<FileHash> write_companions(const ModelSource& source, const std::string& folder) {
  std::vector<FileHash> written;
  if (source.companions().empty()) return written;
  for (const Companion& companion : source.companions()) {
    const std::string path = concat(folder, "/tokenizer/", companion.name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    HashedFile file(folder, "tokenizer/" + companion.name);
    file.write(as_bytes(companion.read()));
    written.push_back(file.close());
  }
  sync_directory(folder + "/tokenizer");
  return written;
}

std::string manifest_extra_of(const ModelSource& source, const std::string& folder) {
  if (source.format() != kGgufFormat) return source.manifest_extra();
  const std::string made = folder + "/tokenizer";  // which is not known before it is written
  const std::string pieces =
      concat(made, "/", kTokenizerModel);  // llama.cpp reads them as they are
  if (!std::filesystem::exists(pieces)) return read_tokenizer_in(made).manifest;
  // Chooses one of two types of Megatron's, with BOS before each text or without.
  const std::string type(source.make_tokenizer({})->type());
  return read_tokenizer({.type = type, .model = pieces}).manifest;
}

std::int64_t iteration_of(const ModelSource& source) {
  const PyValue common = source.common();
  const PyValue* iteration = common.is(Kind::dict) ? common.find("iteration") : nullptr;
  if (iteration == nullptr) return 0;
  const std::int64_t number = iteration->as_integer(source.path() + ": iteration");
  if (number < 0) fail(Exit::bad_data, source.path(), ": iteration is ", number);
  return number;
}

}  // namespace mt
