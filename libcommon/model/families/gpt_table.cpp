// The parameters of a GPT (spec: Megatron-Core's names, torch_dist keys, Hugging Face's names) and
// the modules that use them.
#include <algorithm>
#include <cmath>

#include "model/config/model_config.h"
#include "model/families/gpt.h"

namespace mt {
namespace {

constexpr const char* kHuggingFace = "hf";

// Which of Hugging Face's two families the names follow.
bool is_gpt2(const ModelConfig& c) { return c.position_embedding_type == "learned_absolute"; }

// Names of a layer's parameters in Hugging Face's GPT-2, whose matrices are stored [in, out], and
// Llama.
struct HfNames {
  bool gpt2;
  std::string layer;
  ForeignName matrix(const char* in_gpt2, const char* in_llama, Transform transform = {}) const {
    if (gpt2) transform.push_back(transpose());
    return {kHuggingFace, layer + (gpt2 ? in_gpt2 : in_llama), std::move(transform)};
  }
  ForeignName vector(const char* in_gpt2, const char* in_llama) const {
    return {kHuggingFace, layer + (gpt2 ? in_gpt2 : in_llama), {}};
  }
};

// GPT-2 keeps all queries, then all keys, then all values in one matrix; Llama keeps three
// matrices.
std::vector<ForeignName> qkv_names(const HfNames& names, const ModelConfig& c) {
  const std::int64_t d = c.head_dim(), per_group = c.num_attention_heads / c.kv_heads();
  const std::int64_t period = (per_group + 2) * d;
  const Transform q{pick_rows(period, 0, per_group * d)}, k{pick_rows(period, per_group * d, d)},
      v{pick_rows(period, (per_group + 1) * d, d)};
  if (names.gpt2)
    return {names.matrix("attn.c_attn.weight", "", {exchange(c.num_attention_heads, 3)})};
  return {names.matrix("", "self_attn.q_proj.weight", q),
          names.matrix("", "self_attn.k_proj.weight", k),
          names.matrix("", "self_attn.v_proj.weight", v)};
}

std::vector<ForeignName> fc1_names(const HfNames& names, const ModelConfig& c) {
  if (!c.swiglu) return {names.matrix("mlp.c_fc.weight", "mlp.up_proj.weight")};
  const std::int64_t f = c.ffn();
  return {names.matrix("", "mlp.gate_proj.weight", {pick_rows(2 * f, 0, f)}),
          names.matrix("", "mlp.up_proj.weight", {pick_rows(2 * f, f, f)})};
}

// Of a matrix that does not end a residual branch.  Glorot, Bengio (2010), eq. 16: the variance is
// 2 / (rows + columns).
Initializer matrix_init(const ModelConfig& c, const Shape& shape) {
  if (!c.init_method_xavier_uniform) return {Initializer::Kind::normal, c.init_method_std};
  return {Initializer::Kind::uniform, std::sqrt(2 / static_cast<double>(shape[0] + shape[1]))};
}

}  // namespace

Gpt::Gpt(const ModelConfig& config) : Gpt(config, {{.begin = 0, .end = config.num_layers}}) {}

Gpt::~Gpt() = default;

Gpt::Gpt(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : kept_config_(std::make_unique<ModelConfig>(config)), config_(*kept_config_), part_(part) {
  table_.divide(part.rank, part.ranks);
  if (const std::vector<double> frequencies = config_.rotary_frequencies(); !frequencies.empty()) {
    inv_freq_storage_ = Buffer(Device::cpu, frequencies.size() * sizeof(double));
    const Tensor table = inv_freq_storage_.tensor(DType::f64, {std::ssize(frequencies)});
    std::ranges::copy(frequencies, table.as<double>());
    inv_freq_ = table;
  }
  const bool tied = !config_.untie_embeddings_and_output_weights;
  const bool has_head = std::ranges::any_of(ranges, &StageRange::last);
  const auto rows_of = [&](const auto& add) {
    const std::size_t begin = table_.rows().size();
    table_.begin_unit();
    add();
    return RowRange{begin, table_.rows().size()};
  };
  for (const StageRange& range : ranges) {
    if (range.first) embedding_rows_ = rows_of([&] { add_embedding(tied && !has_head); });
    Chunk& chunk = chunks_.emplace_back();
    chunk.range = range;
    for (std::int64_t layer = range.begin; layer < range.end; ++layer)
      chunk.rows.push_back(rows_of([&] { chunk.blocks.push_back(make_block(layer)); }));
    chunk.runs = config_.recompute.runs(range.end - range.begin);
    if (range.last) head_rows_ = rows_of([&] { add_head(); });
  }
}

const Param& Gpt::add_words(bool is_shared, bool copy) {
  const Shape shape{config_.padded_vocab_size, config_.hidden_size};
  const char* const foreign =
      is_gpt2(config_) ? "transformer.wte.weight" : "model.embed_tokens.weight";
  return table_.add({.name = "embedding.word_embeddings.weight",
                     .shape = shape,
                     .init = matrix_init(config_, shape),
                     .segments = {{"vocab", config_.padded_vocab_size, 0, ShardAxis::tp}},
                     .shared = is_shared,
                     .copy = copy,
                     .embedding_or_output = true,
                     .foreign = {{kHuggingFace, foreign, {}}}});
}

void Gpt::add_embedding(bool is_shared) {
  const Shape positions_shape{config_.max_position_embeddings, config_.hidden_size};
  const Param& words = add_words(is_shared, false);
  const Param* positions = nullptr;
  if (config_.position_embedding_type == "learned_absolute")
    positions = &table_.add({.name = "embedding.position_embeddings.weight",
                             .shape = positions_shape,
                             .init = matrix_init(config_, positions_shape),
                             .sum_gradient_over_tp = part_.sequence_parallel,
                             .foreign = {{kHuggingFace, "transformer.wpe.weight", {}}}});
  embedding_.emplace(words, positions, config_.hidden_dropout);
}

Block Gpt::make_block(std::int64_t layer) {
  const ModelConfig& c = config_;
  const std::int64_t h = c.hidden_size, d = c.head_dim(), heads = c.num_attention_heads;
  const std::int64_t groups = c.kv_heads(), fc1_rows = c.swiglu ? 2 * c.ffn() : c.ffn();
  const bool gpt2 = is_gpt2(c);
  const HfNames hf{gpt2, (gpt2 ? "transformer.h." : "model.layers.") + std::to_string(layer) + "."};
  const Initializer output{Initializer::Kind::normal,
                           c.init_method_std / std::sqrt(2.0 * static_cast<double>(c.num_layers))};
  // A row of this layer: its name carries the layer's number, its key does not.
  const auto row = [&](const std::string& name, Shape shape, Initializer init,
                       std::vector<Segment> segments, std::vector<ForeignName> foreign) {
    return Param{.name = "decoder.layers." + std::to_string(layer) + "." + name,
                 .shape = shape,
                 .init = init,
                 .segments = std::move(segments),
                 .foreign = std::move(foreign),
                 .key = "decoder.layers." + name,
                 .layer = layer,
                 .layers = c.num_layers};
  };
  const auto norm = [&](const char* name, std::vector<ForeignName> foreign) {
    Param param = row(name, {h}, {}, {}, std::move(foreign));
    param.sum_gradient_over_tp = part_.sequence_parallel;
    return param;
  };
  const std::int64_t qkv_rows = (heads + 2 * groups) * d;
  std::vector<Segment> fc1_segments;
  if (c.swiglu) fc1_segments.push_back({"gate", c.ffn(), 0, ShardAxis::tp});
  fc1_segments.push_back({"up", c.ffn(), 0, ShardAxis::tp});

  Norm norm1(table_,
             norm("self_attention.linear_qkv.layer_norm_weight",
                  {hf.vector("ln_1.weight", "input_layernorm.weight")}),
             c.norm_kind(), c.norm_epsilon, c.apply_layernorm_1p);
  Linear qkv(
      table_,
      row("self_attention.linear_qkv.weight", {qkv_rows, h}, matrix_init(c, {qkv_rows, h}),
          {{"qkv", qkv_rows, 0, ShardAxis::tp, qkv_rows / groups, {heads / groups * d, d, d}}},
          qkv_names(hf, c)),
      c.has_qkv_bias());
  std::optional<Attention::HeadNorms> head_norms;
  if (c.qk_layernorm) {
    const auto head_norm = [&](const char* name, const char* in_llama) {
      std::vector<ForeignName> foreign;
      if (!gpt2) foreign.push_back(hf.vector("", in_llama));
      Param param = row(name, {d}, {}, {}, std::move(foreign));
      param.sum_gradient_over_tp = part_.ranks > 1;  // each rank has other heads
      return Norm(table_, std::move(param), c.norm_kind(), c.norm_epsilon, c.apply_layernorm_1p);
    };
    head_norms = {.q = head_norm("self_attention.q_layernorm.weight", "self_attn.q_norm.weight"),
                  .k = head_norm("self_attention.k_layernorm.weight", "self_attn.k_norm.weight")};
  }
  Linear proj(table_,
              row("self_attention.linear_proj.weight", {h, heads * d}, output,
                  {{"heads", heads * d, 1, ShardAxis::tp, d * heads / groups}},
                  {hf.matrix("attn.c_proj.weight", "self_attn.o_proj.weight")}),
              c.add_bias_linear);
  Norm norm2(table_,
             norm("mlp.linear_fc1.layer_norm_weight",
                  {hf.vector("ln_2.weight", "post_attention_layernorm.weight")}),
             c.norm_kind(), c.norm_epsilon, c.apply_layernorm_1p);
  Linear fc1(table_,
             row("mlp.linear_fc1.weight", {fc1_rows, h}, matrix_init(c, {fc1_rows, h}),
                 fc1_segments, fc1_names(hf, c)),
             c.add_bias_linear);
  Linear fc2(table_,
             row("mlp.linear_fc2.weight", {h, c.ffn()}, output, {{"up", c.ffn(), 1, ShardAxis::tp}},
                 {hf.matrix("mlp.c_proj.weight", "mlp.down_proj.weight")}),
             c.add_bias_linear);
  return Block(norm1,
               Attention(qkv, proj,
                         {.layer = layer,
                          .heads = heads / part_.ranks,
                          .kv_heads = groups / part_.ranks,
                          .head_dim = d,
                          .first_head = part_.rank * (heads / part_.ranks),
                          .window = c.window(layer),
                          .attention_dropout = c.attention_dropout,
                          .hidden_dropout = c.hidden_dropout,
                          .recompute_core = c.recompute.part("core_attn"),
                          .inv_freq = inv_freq_,
                          .rotary_interleaved = c.rotary_interleaved},
                         head_norms),
               norm2,
               Mlp(fc1, fc2, c.activation(), layer, c.hidden_dropout, c.recompute.part("mlp")),
               c.recompute.part("layernorm"));
}

void Gpt::add_head() {
  const bool gpt2 = is_gpt2(config_);
  final_norm_.emplace(
      table_,
      Param{
          .name = "decoder.final_layernorm.weight",
          .shape = {config_.hidden_size},
          .sum_gradient_over_tp = part_.sequence_parallel,
          .foreign = {{kHuggingFace, gpt2 ? "transformer.ln_f.weight" : "model.norm.weight", {}}}},
      config_.norm_kind(), config_.norm_epsilon, config_.apply_layernorm_1p);
  if (!config_.untie_embeddings_and_output_weights) {
    head_.emplace(
        embedding_ ? table_.at("embedding.word_embeddings.weight") : add_words(true, true),
        config_.label_smoothing);
    return;
  }
  const Shape shape{config_.padded_vocab_size, config_.hidden_size};
  head_.emplace(table_.add({.name = "output_layer.weight",
                            .shape = shape,
                            .init = matrix_init(config_, shape),
                            .segments = {{"vocab", config_.padded_vocab_size, 0, ShardAxis::tp}},
                            .embedding_or_output = true,
                            .gradient_replaced = true,
                            .foreign = {{kHuggingFace, "lm_head.weight", {}}}}),
                config_.label_smoothing);
}

}  // namespace mt
