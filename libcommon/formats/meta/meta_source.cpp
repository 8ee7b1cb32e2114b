#include "formats/meta/meta_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/allowance.h"
#include "base/json_object.h"
#include "base/json_parse.h"
#include "ckpt/torch_tensors.h"
#include "model/checkpoint_tokenizer.h"
#include "model/config/model_config.h"

namespace mt {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kBlock = 4 << 20;  // elements that are read at a time, of shared columns

// --- Tensors ------------------------------------------------------------------------------------

// The files of all ranks together.
class MetaTensors : public TensorSource {
 public:
  // width: of hidden states; heads: of all heads together.
  MetaTensors(const std::string& folder, std::int64_t width, std::int64_t heads) : folder_(folder) {
    for (;;) {
      const std::string path = concat(folder, "/", meta_file_name(std::ssize(files_)));
      if (!fs::exists(path)) break;
      files_.push_back(std::make_unique<TorchTensors>(path));
    }
    if (files_.empty()) fail(Exit::no_input, folder, ": no ", meta_file_name(0), " there");
    check_count(heads);
    // Frequencies, once or in each layer, are computed.
    for (const auto& [name, tensor] : files_[0]->tensors())
      if (!name.ends_with("rope.freqs")) add(name, width);
    if (has_own_output()) return;
    tensors_.erase(kMetaOutput);
    shares_.erase(kMetaOutput);
  }

  // Or every file has the words' under both names.
  bool has_own_output() const {
    return !std::ranges::all_of(
        files_, [](const auto& file) { return file->are_one(kMetaWords, kMetaOutput); });
  }

  const std::string& path() const override { return folder_; }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }

  void read_original(const std::string& key, const Shape& offset, Tensor out) const override {
    readable(key, offset, out);
    const MetaShare share = shares_.at(key);
    if (share == MetaShare::columns) return read_columns(key, offset, out);
    if (share == MetaShare::all) return files_[0]->read_original(key, offset, out);
    const std::int64_t each = files_[0]->tensors().at(key).shape[0];
    for (std::int64_t row = offset[0], end = row + out.shape()[0], next; row < end; row = next) {
      const std::int64_t rank = row / each;
      next = std::min((rank + 1) * each, end);
      files_[static_cast<std::size_t>(rank)]->read_original(
          key, {row - rank * each, offset[1]}, out.rows(row - offset[0], next - offset[0]));
    }
  }

 private:
  // Whose columns of an attention's output are those of the model?
  void check_count(std::int64_t width) const {
    const Shape& part = files_[0]->at("layers.0.attention.wo.weight").shape;
    const std::int64_t count = std::ssize(files_);
    if (part.rank() != 2 || part[1] == 0 || part[1] * count >= width) return;
    fail(Exit::no_input, folder_, ": no ", meta_file_name(count), ": has ", count, " of ",
         width / part[1], " files");
  }

  void add(const std::string& name, std::int64_t width) {
    const std::optional<MetaShare> known = meta_share(name);
    if (!known) fail(Exit::bad_data, files_[0]->path(), ": tensor ", name, " is none of a Llama's");
    DistTensor tensor = files_[0]->tensors().at(name);
    if (*known != MetaShare::all && tensor.shape.rank() != 2)
      fail(Exit::bad_data, files_[0]->path(), ": tensor ", name, " is ", tensor.shape,
           ", expected a matrix");
    for (const auto& file : files_) {
      const DistTensor& part = file->at(name);
      if (!(part.shape == tensor.shape) || part.dtype != tensor.dtype)
        fail(Exit::bad_data, file->path(), ": tensor ", name, " is ", part.dtype_name, part.shape,
             ", expected ", tensor.dtype_name, tensor.shape, " as in the first file");
    }
    // Llama 3's ranks share the rows of words.
    const bool by_rows = name == kMetaWords && tensor.shape[1] == width;
    const MetaShare share = shares_[name] = by_rows ? MetaShare::rows : *known;
    const std::int64_t ranks = std::ssize(files_);
    if (share == MetaShare::rows) tensor.shape = {tensor.shape[0] * ranks, tensor.shape[1]};
    if (share == MetaShare::columns) tensor.shape = {tensor.shape[0], tensor.shape[1] * ranks};
    tensors_[name] = std::move(tensor);
  }

  void read_columns(const std::string& key, const Shape& offset, Tensor out) const {
    const std::int64_t columns = out.shape()[1], each = files_[0]->tensors().at(key).shape[1];
    for (std::int64_t begin = offset[1], end; begin < offset[1] + columns; begin = end) {
      const std::int64_t rank = begin / each;
      end = std::min((rank + 1) * each, offset[1] + columns);
      const std::int64_t at_once = std::max<std::int64_t>(1, kBlock / (end - begin));
      for (std::int64_t row = 0; row < out.shape()[0]; row += at_once) {
        const Tensor rows = out.rows(row, std::min(row + at_once, out.shape()[0]));
        read_share(*files_[static_cast<std::size_t>(rank)], key,
                   {offset[0] + row, begin - rank * each}, end - begin, rows, begin - offset[1]);
      }
    }
  }

  // Columns of a file, from `from` on, become those of `out` from `column` on.
  static void read_share(const TorchTensors& file, const std::string& key, const Shape& from,
                         std::int64_t columns, Tensor out, std::int64_t column) {
    const std::size_t size = size_of(out.dtype());
    const std::int64_t rows = out.shape()[0];
    const Buffer buffer(Device::cpu, static_cast<std::size_t>(rows * columns) * size);
    const Tensor part = buffer.tensor(out.dtype(), {rows, columns});
    file.read_original(key, from, part);
    for (std::int64_t row = 0; row < rows; ++row)
      std::memcpy(static_cast<std::byte*>(out.data()) +
                      static_cast<std::size_t>(row * out.shape()[1] + column) * size,
                  part.rows(row, row + 1).data(), static_cast<std::size_t>(columns) * size);
  }

  std::string folder_;
  std::vector<std::unique_ptr<TorchTensors>> files_;  // of the ranks
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, MetaShare> shares_;
};

// --- Settings -----------------------------------------------------------------------------------

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

void read_scaling(const JsonObject& params, ModelConfig& c, std::vector<std::string>& notes) {
  if (!c.use_rope_scaling) return;
  if (params.has(kMetaScaling)) {
    c.rope_scaling_factor = params.real(kMetaScaling);
    return;
  }
  c.rope_scaling_factor = meta_scaling_factor(c);
  notes.push_back(concat(params.where(), ": says nothing of the factor of its scaled positions; ",
                         c.rope_scaling_factor,
                         " is supposed, as of the published models of \"dim\" ", c.hidden_size));
}

void read_window(const JsonObject& params, ModelConfig& c) {
  if (!params.has("sliding_window")) return;
  const std::int64_t tokens = params.number("sliding_window", kMost);
  if (tokens < 1) params.refuse("\"sliding_window\" is ", tokens, ", expected at least 1");
  c.window_size = concat(tokens - 1, ",0");
}

void refuse_unknown(const JsonObject& params) {
  static constexpr std::string_view kKnown[] = {"dim",
                                                "n_layers",
                                                "n_heads",
                                                "n_kv_heads",
                                                "head_dim",
                                                "hidden_dim",
                                                "vocab_size",
                                                "multiple_of",
                                                "norm_eps",
                                                "rope_theta",
                                                "use_scaled_rope",
                                                "ffn_dim_multiplier",
                                                "max_seq_len",
                                                "model_type",
                                                "sliding_window",
                                                "rope_scaling_factor",
                                                "max_batch_size",
                                                "use_biases",
                                                "causal",
                                                "tied_embeddings"};
  for (const std::string_view name : params.names()) {
    if (name == "moe" || name == "num_experts")
      params.refuse(json_quoted(name),
                    ": experts are read from Hugging Face's folders, and not "
                    "from Meta's or Mistral's own");
    if (std::ranges::find(kKnown, name) == std::end(kKnown))
      params.refuse(json_quoted(name), " is not known, and may change what the model computes");
  }
}

// Positions are not always among them: Llama 2 was trained with 4096, Llama 3 with 8192, stretched
// to 131072 in 3.1 and later, Mistral with 32768.
ModelConfig config_of(const JsonObject& params, std::vector<std::string>& notes) {
  ModelConfig c;
  const auto real_or = [&](const char* name, double other) {
    return params.has(name) ? params.real(name) : other;
  };
  refuse_unknown(params);
  c.num_layers = params.number("n_layers", kMost);
  c.hidden_size = params.number("dim", kMost);
  c.num_attention_heads = params.number("n_heads", kMost);
  c.num_query_groups =
      params.has("n_kv_heads") ? params.number("n_kv_heads", kMost) : c.num_attention_heads;
  c.group_query_attention = c.num_query_groups != c.num_attention_heads;
  if (params.has("head_dim")) c.kv_channels = params.number("head_dim", kMost);
  c.norm_epsilon = real_or("norm_eps", 1e-5);
  c.rotary_base = real_or("rope_theta", 10000);
  c.use_rope_scaling = params.flag_or("use_scaled_rope", false);
  read_scaling(params, c, notes);
  read_window(params, c);
  c.max_position_embeddings = params.has("max_seq_len") ? params.number("max_seq_len", kMost)
                              : c.use_rope_scaling      ? 131072
                              : !c.window_size.empty()  ? 32768
                              : c.rotary_base == 500000 ? 8192
                                                        : 4096;
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = c.untie_embeddings_and_output_weights = true;
  c.add_bias_linear = c.bias_gelu_fusion = false;
  c.attention_dropout = c.hidden_dropout = 0;
  if (params.flag_or("use_biases", false)) params.refuse("\"use_biases\" is not supported");
  if (!params.flag_or("causal", true)) params.refuse("\"causal\": false is not supported");
  if (c.kv_channels) return c;
  if (c.num_attention_heads < 1 || c.hidden_size % (2 * c.num_attention_heads) != 0)
    params.refuse("\"dim\" is ", c.hidden_size, ", expected a multiple of twice \"n_heads\", ",
                  c.num_attention_heads);
  return c;
}

}  // namespace

MetaSource::MetaSource(const std::string& folder, const ModelSourceOptions& options) {
  path_ = folder;
  format_ = kMetaFormat;
  const std::string path = concat(folder, "/", kMetaParams);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const std::string text = read_regular_file(path);
  Allowance(text.size()).take_json(text, path);
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, path, error);
  const JsonObject params(root, path);
  *config_ = config_of(params, notes_);
  auto tensors = std::make_unique<MetaTensors>(folder, config_->hidden_size,
                                               config_->num_attention_heads * config_->head_dim());
  config_->untie_embeddings_and_output_weights = tensors->has_own_output();
  tensors_ = std::move(tensors);
  const DistTensor& words = tensors_->at(kMetaWords);
  dtype_ = *words.dtype;
  config_->vocab_size = words.shape[0];
  if (options.vocab_size && *options.vocab_size != config_->vocab_size)
    fail(Exit::bad_config, folder, ": has ", config_->vocab_size, " tokens, --true-vocab-size is ",
         *options.vocab_size);
  config_->ffn_hidden_size = tensors_->at("layers.0.feed_forward.w1.weight").shape[0];
  try {
    config_->complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": ", error.what());
  }
  companions_ = companions_in(folder);
  const std::string tokenizer = folder + "/tokenizer.model";
  if (fs::exists(tokenizer) && read_regular_file(tokenizer).starts_with('\n'))  // SentencePiece's
    take_tokenizer(read_tokenizer({.type = "Llama2Tokenizer", .model = tokenizer}));
}

}  // namespace mt
