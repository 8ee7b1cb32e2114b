#include "model/meta_source.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/json_place.h"
#include "ckpt/torch_tensors.h"
#include "model/checkpoint_tokenizer.h"
#include "text/hf_object.h"

namespace mt {

namespace fs = std::filesystem;

constexpr const char* kParams = "params.json";

namespace {

// --- Tensors ------------------------------------------------------------------------------------

enum class Axis { none, rows, columns };

struct Name {
  const char *meta, *hugging_face;
  Axis axis;
};
constexpr Name kOuter[] = {{"tok_embeddings.weight", "model.embed_tokens.weight", Axis::columns},
                           {"norm.weight", "model.norm.weight", Axis::none},
                           {"output.weight", "lm_head.weight", Axis::rows}};
constexpr Name kInLayer[] = {{"attention.wq.weight", "self_attn.q_proj.weight", Axis::rows},
                             {"attention.wk.weight", "self_attn.k_proj.weight", Axis::rows},
                             {"attention.wv.weight", "self_attn.v_proj.weight", Axis::rows},
                             {"attention.wo.weight", "self_attn.o_proj.weight", Axis::columns},
                             {"feed_forward.w1.weight", "mlp.gate_proj.weight", Axis::rows},
                             {"feed_forward.w2.weight", "mlp.down_proj.weight", Axis::columns},
                             {"feed_forward.w3.weight", "mlp.up_proj.weight", Axis::rows},
                             {"attention_norm.weight", "input_layernorm.weight", Axis::none},
                             {"ffn_norm.weight", "post_attention_layernorm.weight", Axis::none}};

// The files of all ranks together, by Hugging Face's names and in its order of rows.
class MetaTensors : public TensorSource {
 public:
  MetaTensors(const std::string& folder, std::int64_t width, std::int64_t heads)
      : folder_(folder), head_dim_(width / heads) {
    for (int rank = 0;; ++rank) {
      char name[32];
      std::snprintf(name, sizeof name, "/consolidated.%02d.pth", rank);
      if (!fs::exists(folder + name)) break;
      files_.push_back(std::make_unique<TorchTensors>(folder + name));
    }
    if (files_.empty()) fail(Exit::no_input, folder, ": no consolidated.00.pth there");
    // Frequencies, once or in each layer, are computed.
    for (const auto& [name, tensor] : files_[0]->tensors())
      if (!name.ends_with("rope.freqs")) add(name, width);
  }

  const std::string& path() const override { return folder_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }

  void read_original(const std::string& key, const Shape& offset, Tensor out) const override {
    readable(key, offset, out);
    const Stored& stored = stored_.at(key);
    if (stored.axis == Axis::columns) return read_columns(stored, offset, out);
    if (stored.axis == Axis::none) return files_[0]->read_original(stored.name, offset, out);
    const std::int64_t each = tensors_.at(key).shape[0] / std::ssize(files_);
    for (std::int64_t row = 0, next; row < out.shape()[0]; row = next) {
      const std::int64_t first = place(stored, offset[0] + row), rank = first / each;
      for (next = row + 1; next < out.shape()[0]; ++next) {  // that follow it in the same file
        const std::int64_t at = place(stored, offset[0] + next);
        if (at != first + next - row || at / each != rank) break;
      }
      files_[static_cast<std::size_t>(rank)]->read_original(
          stored.name, {first - rank * each, offset[1]}, out.rows(row, next));
    }
  }

 private:
  struct Stored {
    std::string name;
    Axis axis;
    bool alternating = false;  // rows of wq and wk
  };

  // Row `row` of a matrix is which of theirs.
  std::int64_t place(const Stored& stored, std::int64_t row) const {
    if (!stored.alternating) return row;
    const std::int64_t in_head = row % head_dim_, half = head_dim_ / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }

  void add(const std::string& name, std::int64_t width) {
    std::string found = name;
    Axis axis = Axis::none;
    for (const Name& known : kOuter)
      if (name == known.meta) found = known.hugging_face, axis = known.axis;
    const std::size_t dot = name.find('.', std::strlen("layers."));
    for (const Name& known : kInLayer)
      if (name.starts_with("layers.") && dot != std::string::npos &&
          name.substr(dot + 1) == known.meta)
        found = concat("model.", name.substr(0, dot + 1), known.hugging_face), axis = known.axis;
    if (found == name)
      fail(Exit::bad_data, files_[0]->path(), ": tensor ", name, " is none of a Llama's");
    DistTensor tensor = files_[0]->tensors().at(name);
    const bool matrix = tensor.shape.rank() == 2;
    if (axis != Axis::none && !matrix)
      fail(Exit::bad_data, files_[0]->path(), ": tensor ", name, " is ", tensor.shape,
           ", expected a matrix");
    // Llama 3's ranks share the rows of words.
    if (name == "tok_embeddings.weight" && tensor.shape[1] == width) axis = Axis::rows;
    for (const auto& file : files_) {
      const DistTensor& part = file->at(name);
      if (!(part.shape == tensor.shape) || part.dtype != tensor.dtype)
        fail(Exit::bad_data, file->path(), ": tensor ", name, " is ", part.dtype_name, part.shape,
             ", expected ", tensor.dtype_name, tensor.shape, " as in the first file");
    }
    const std::int64_t ranks = std::ssize(files_);
    if (axis == Axis::rows) tensor.shape = {tensor.shape[0] * ranks, tensor.shape[1]};
    if (axis == Axis::columns) tensor.shape = {tensor.shape[0], tensor.shape[1] * ranks};
    tensor.key = found;
    stored_[found] = {name, axis, name.ends_with(".wq.weight") || name.ends_with(".wk.weight")};
    tensors_[found] = std::move(tensor);
  }

  void read_columns(const Stored& stored, const Shape& offset, Tensor out) const {
    const std::int64_t rows = out.shape()[0], columns = out.shape()[1];
    const std::int64_t each = files_[0]->tensors().at(stored.name).shape[1];
    const std::size_t size = size_of(out.dtype());
    for (std::int64_t begin = offset[1]; begin < offset[1] + columns;) {
      const std::int64_t rank = begin / each;
      const std::int64_t end = std::min((rank + 1) * each, offset[1] + columns);
      const Buffer buffer(Device::cpu, static_cast<std::size_t>(rows * (end - begin)) * size);
      const Tensor part = buffer.tensor(out.dtype(), {rows, end - begin});
      files_[static_cast<std::size_t>(rank)]->read_original(stored.name,
                                                            {offset[0], begin - rank * each}, part);
      for (std::int64_t row = 0; row < rows; ++row)
        std::memcpy(static_cast<std::byte*>(out.data()) +
                        static_cast<std::size_t>(row * columns + begin - offset[1]) * size,
                    part.rows(row, row + 1).data(), static_cast<std::size_t>(end - begin) * size);
      begin = end;
    }
  }

  std::string folder_;
  std::int64_t head_dim_;
  std::vector<std::unique_ptr<TorchTensors>> files_;  // of the ranks
  std::map<std::string, DistTensor> tensors_;         // by Hugging Face's names
  std::map<std::string, Stored> stored_;
};

// --- Settings -----------------------------------------------------------------------------------

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

// Positions are not among them: Llama 2 was trained with 4096, Llama 3 with 8192, stretched to
// 131072 in 3.1 and later.
ModelConfig config_of(const HfObject& params) {
  ModelConfig c;
  const auto real_or = [&](const char* name, double other) {
    return params.has(name) ? params.real(name) : other;
  };
  c.num_layers = params.number("n_layers", kMost);
  c.hidden_size = params.number("dim", kMost);
  c.num_attention_heads = params.number("n_heads", kMost);
  c.num_query_groups =
      params.has("n_kv_heads") ? params.number("n_kv_heads", kMost) : c.num_attention_heads;
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  c.norm_epsilon = real_or("norm_eps", 1e-5);
  const double theta = real_or("rope_theta", 10000);
  if (!(theta >= 1 && theta < 0x1p62) || theta != std::floor(theta))
    params.refuse("\"rope_theta\" is ", theta, ", expected a whole number");
  c.rotary_base = static_cast<std::int64_t>(theta);
  c.use_rope_scaling = params.flag_or("use_scaled_rope", false);
  c.max_position_embeddings = c.use_rope_scaling ? 131072 : theta == 500000 ? 8192 : 4096;
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = c.untie_embeddings_and_output_weights = true;
  c.add_bias_linear = c.bias_gelu_fusion = false;
  c.attention_dropout = c.hidden_dropout = 0;
  if (c.num_attention_heads < 1 || c.hidden_size % (2 * c.num_attention_heads) != 0)
    params.refuse("\"dim\" is ", c.hidden_size, ", expected a multiple of twice \"n_heads\", ",
                  c.num_attention_heads);
  return c;
}

}  // namespace

MetaSource::MetaSource(const std::string& folder, const ModelSourceOptions& options) {
  path_ = folder;
  format_ = kMetaFormat;
  const std::string path = concat(folder, "/", kParams);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string text = read_file(path);
  if (const auto error = parser.parse(text).get(root))
    fail(Exit::bad_data, path, ": ", json_place(text), simdjson::error_message(error));
  const HfObject params(root, path);
  config_ = config_of(params);
  tensors_ =
      std::make_unique<MetaTensors>(folder, config_.hidden_size, config_.num_attention_heads);
  const DistTensor& words = tensors_->at("model.embed_tokens.weight");
  dtype_ = *words.dtype;
  config_.vocab_size = words.shape[0];
  if (options.vocab_size && *options.vocab_size != config_.vocab_size)
    fail(Exit::bad_config, folder, ": has ", config_.vocab_size, " tokens, --true-vocab-size is ",
         *options.vocab_size);
  config_.ffn_hidden_size = tensors_->at("model.layers.0.mlp.gate_proj.weight").shape[0];
  try {
    config_.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(folder);
  const std::string tokenizer = folder + "/tokenizer.model";
  if (fs::exists(tokenizer) && read_file(tokenizer).starts_with('\n')) {  // SentencePiece's
    const TokenizerOptions sentencepiece = {.type = "Llama2Tokenizer", .model = tokenizer};
    manifest_extra_ = tokenizer_manifest(sentencepiece, make_tokenizer(sentencepiece)->identity());
  }
}

}  // namespace mt
