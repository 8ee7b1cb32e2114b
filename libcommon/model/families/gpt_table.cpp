// The parameters of a GPT (spec: Megatron-Core's names, torch_dist keys, Hugging Face's names) and
// the modules that use them.  Those of a layer are in model/layers.
#include <algorithm>

#include "model/config/model_config.h"
#include "model/families/gpt.h"

namespace mt {

static constexpr const char* kHuggingFace = "hf";

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
  const std::vector<LayerPlan> plans = layers_of(config_);
  for (const StageRange& range : ranges) {
    if (range.first) embedding_rows_ = rows_of([&] { add_embedding(tied && !has_head); });
    std::vector<Stack::Layer> layers;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const LayerPlan& plan = plans[static_cast<std::size_t>(i)];
      Stack::Layer& layer = layers.emplace_back();
      layer.number = plan.number;
      layer.rows = rows_of([&] {
        for (const BranchKind kind : plan.branches)
          layer.branches.push_back(make_branch({table_, config_, part_, plan.number}, kind));
      });
    }
    chunks_.push_back(
        {range, {std::move(layers), config_.recompute.runs(range.end - range.begin)}});
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

Branch Gpt::make_branch(const LayerRows& rows, BranchKind kind) const {
  if (kind == BranchKind::attention) return make_attention(rows, inv_freq_);
  if (kind == BranchKind::mlp) return make_mlp(rows);
  fail(Exit::internal, "layer ", rows.layer, ": no module for its kind of branch");
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
