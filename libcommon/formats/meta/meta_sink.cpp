// A folder as Meta's own code takes it (formats/names/meta.h): params.json, a file for each rank,
// and the tokenizer that travelled with the model.  Tied models have the words' storage under two
// names.
#include <deque>

#include "base/json.h"
#include "base/json_object.h"
#include "ckpt/folder_save.h"
#include "ckpt/hashed_file.h"
#include "ckpt/torch_file.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "formats/model_sink.h"
#include "formats/names/gguf.h"
#include "formats/names/meta.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr const char* kConfig = "config.json";
constexpr std::int64_t kLlama3Base = 500000;  // of its rotary positions

// --- Settings -----------------------------------------------------------------------------------

void check_is_llama(const ModelTarget& target) {
  const ModelConfig& c = target.config;
  const std::string config = hugging_face_config(c, target.dtype, {});
  simdjson::dom::parser parser;
  const JsonObject object(parser.parse(config).value(), kConfig);
  if (const std::string_view type = object.text("model_type"); type != "llama")
    fail(Exit::bad_config, "--saver meta: of llama, not of ", type);
  if (c.head_dim() * c.num_attention_heads != c.hidden_size)
    fail(Exit::bad_config, "--saver meta: heads have ", c.head_dim(),
         " channels; in Meta's Llamas all together have --hidden-size ", c.hidden_size);
  if (c.rotary_interpolation)
    fail(Exit::bad_config, "--rotary-seq-len-interpolation-factor: Meta's Llamas have no such");
  if (has_frequency_factors(c) && !c.use_rope_scaling)
    fail(Exit::bad_config, "--rope-frequency-factors: Meta's Llamas have no such");
  const std::int64_t ranks = target.tensor_parallel;
  if (c.num_attention_heads % ranks != 0 || c.kv_heads() % ranks != 0)
    fail(Exit::bad_config, "--target-tensor-parallel-size ", ranks, ": does not divide ",
         c.num_attention_heads, " heads in ", c.kv_heads(), " groups");
}

// Meta's code rounds ffn_dim_multiplier times two thirds of 4 dim, both cut to whole numbers, up
// to a multiple of multiple_of.
void add_ffn(JsonWriter& to, const ModelConfig& c) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t base = 8 * c.hidden_size / 3, ffn = c.ffn();
  std::int64_t multiple = kMultiple;
  while (ffn % multiple != 0) multiple /= 2;
  to.member("multiple_of", multiple);
  if ((base + multiple - 1) / multiple * multiple == ffn) return;
  // Half a row more, so that what is cut is ffn.
  to.member("ffn_dim_multiplier", (static_cast<double>(ffn) + 0.5) / static_cast<double>(base));
}

std::string params_of(const ModelConfig& c) {
  JsonWriter json;
  json.begin_object()
      .member("dim", c.hidden_size)
      .member("n_layers", c.num_layers)
      .member("n_heads", c.num_attention_heads)
      .member("n_kv_heads", c.kv_heads())
      .member("vocab_size", c.vocab_size)
      .member("norm_eps", c.norm_epsilon)
      .member("rope_theta", c.rotary_base);
  add_ffn(json, c);
  if (c.use_rope_scaling) json.member("use_scaled_rope", true);
  if (c.use_rope_scaling && c.rope_scaling_factor != meta_scaling_factor(c))
    json.member(kMetaScaling, c.rope_scaling_factor);
  return json.end_object().text() + '\n';
}

// --- Files --------------------------------------------------------------------------------------

class MetaSink : public ModelSink {
 public:
  MetaSink(const ModelTarget& target, const ParamTable& table, const RowTypes& types)
      : target_(target),
        save_((check_is_llama(target), target.path), meta_files(target.source), target.replaces) {
    for (std::int64_t rank = 0; rank < target.tensor_parallel; ++rank)
      begin(meta_file_name(rank), table, types);
  }

  void write(std::size_t, const Param& row, const std::string&, ConstTensor value) override {
    for (const ForeignName& name : meta_tensors(target_.config, row)) {
      const ForeignValue theirs(row, name, value, target_.config.vocab_size);
      for (std::size_t rank = 0; rank < files_.size(); ++rank)
        add(files_[rank].stream, share_of(name.name), theirs.tensor(),
            static_cast<std::int64_t>(rank));
    }
  }

  std::string finish() override {
    for (RankFile& file : files_) {
      file.stream.finish();
      file.file.close();
    }
    const auto write = [&](const std::string& name, const std::string& content) {
      write_file_atomically(save_.folder() + "/" + name, content, false);
    };
    write(kMetaParams, params_of(target_.config));
    for (const Companion& file : target_.source.companions())
      if (file.name != kConfig) write_companion(file, save_.folder());
    return save_.folder();
  }

  void publish() override { save_.publish(); }

 private:
  struct RankFile {
    RankFile(const std::string& folder, const std::string& name) : file(folder, name) {}
    HashedFile file;
    TorchStream stream;
  };

  bool is_tied() const { return !target_.config.untie_embeddings_and_output_weights; }

  MetaShare share_of(const std::string& name) const {
    const bool by_rows = is_tied() || target_.config.rotary_base == kLlama3Base;
    return name == kMetaWords && by_rows ? MetaShare::rows : *meta_share(name);
  }

  Shape shape_on_rank(const std::string& name, const Shape& whole) const {
    const MetaShare share = share_of(name);
    if (share == MetaShare::all) return whole;
    const std::int64_t ranks = target_.tensor_parallel;
    const std::int64_t shared = share == MetaShare::rows ? whole[0] : whole[1];
    if (shared % ranks != 0)
      fail(Exit::bad_config, "--target-tensor-parallel-size ", ranks, ": does not divide the ",
           shared, share == MetaShare::rows ? " rows of " : " columns of ", name);
    return share == MetaShare::rows ? Shape{whole[0] / ranks, whole[1]}
                                    : Shape{whole[0], whole[1] / ranks};
  }

  void begin(const std::string& name, const ParamTable& table, const RowTypes& types) {
    RankFile& file = files_.emplace_back(save_.folder(), name);
    PyValue state = PyValue::dict();
    for (const Param& row : table.rows())
      for (const ForeignName& tensor : meta_tensors(target_.config, row)) {
        const Shape whole = hugging_face_shape(row, tensor, target_.config);
        const PyValue declared =
            file.stream.declare(types(row, ""), shape_on_rank(tensor.name, whole));
        state.set_item(tensor.name, declared);
        if (tensor.name == kMetaWords && is_tied()) state.set_item(kMetaOutput, declared);
      }
    const std::string root = name.substr(0, name.rfind('.'));
    file.stream.begin(state, root, [&file](Bytes bytes) { file.file.write(bytes); });
  }

  void add(TorchStream& stream, MetaShare share, ConstTensor whole, std::int64_t rank) const {
    const std::int64_t ranks = target_.tensor_parallel, rows = whole.shape()[0];
    if (share == MetaShare::all || ranks == 1) return stream.add(whole);
    if (share == MetaShare::rows)
      return stream.add(whole.rows(rank * rows / ranks, (rank + 1) * rows / ranks));
    const std::int64_t columns = whole.shape()[1] / ranks;
    const std::size_t bytes = static_cast<std::size_t>(columns) * size_of(whole.dtype());
    for (std::int64_t row = 0; row < rows; ++row)
      stream.append({static_cast<const std::byte*>(whole.rows(row, row + 1).data()) +
                         static_cast<std::size_t>(rank) * bytes,
                     bytes});
  }

  ModelTarget target_;
  FolderSave save_;
  std::deque<RankFile> files_;
};

}  // namespace

FolderFiles meta_files(const ModelSource& source) {
  const bool tokenizer = brings_tokenizer(source);
  const OwnFile own = [tokenizer](const std::string& name) {
    return name == kMetaParams || name == "generation_config.json" ||
           has_form(name, "consolidated.##.pth") || (tokenizer && is_tokenizer_file(name));
  };
  return {.own = [own](const std::string&) { return own; }, .keys = {kMetaParams}};
}

std::unique_ptr<ModelSink> make_meta_sink(const ModelTarget& target, const ParamTable& table,
                                          const RowTypes& types) {
  return std::make_unique<MetaSink>(target, table, types);
}

}  // namespace mt
