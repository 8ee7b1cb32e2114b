// A GPT's modules, put together with their rows (model/layers).
#include <algorithm>

#include "model/config/model_config.h"
#include "model/families/gpt.h"
#include "model/layers.h"
#include "model/layers/layer_rows.h"

namespace mt {

Gpt::Gpt(const ModelConfig& config) : Gpt(config, {{.begin = 0, .end = config.num_layers}}) {}

Gpt::~Gpt() = default;

Gpt::Gpt(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)), part_(part) {
  table_.divide(part.rank, part.ranks);
  if (const std::vector<double> frequencies = config_->rotary_frequencies(); !frequencies.empty()) {
    inv_freq_storage_ = Buffer(Device::cpu, frequencies.size() * sizeof(double));
    const Tensor table = inv_freq_storage_.tensor(DType::f64, {std::ssize(frequencies)});
    std::ranges::copy(frequencies, table.as<double>());
    inv_freq_ = table;
  }
  const bool tied = !config_->untie_embeddings_and_output_weights;
  const bool has_head = std::ranges::any_of(ranges, &StageRange::last);
  const auto rows_of = [&](const auto& add) {
    const std::size_t begin = table_.rows().size();
    table_.begin_unit();
    add();
    return RowRange{begin, table_.rows().size()};
  };
  const std::vector<LayerPlan> plans = layers_of(*config_);
  for (const StageRange& range : ranges) {
    if (range.first) embedding_rows_ = rows_of([&] { add_embedding(tied && !has_head); });
    std::vector<Stack::Layer> layers;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const LayerPlan& plan = plans[static_cast<std::size_t>(i)];
      Stack::Layer& layer = layers.emplace_back();
      layer.number = plan.number;
      layer.rows = rows_of([&] {
        const LayerRows rows{
            {table_, *config_, part_}, plan.stack, plan.number, config_->num_layers, plan.stacked};
        for (const BranchKind kind : plan.branches) {
          std::optional<Branch> branch = make_branch(rows, kind, inv_freq_);
          if (!branch)
            fail(Exit::internal, "layer ", plan.number, ": no module for its kind of branch");
          layer.branches.push_back(*std::move(branch));
        }
      });
    }
    chunks_.push_back(
        {range, {std::move(layers), config_->recompute.runs(range.end - range.begin)}});
    if (range.last) head_rows_ = rows_of([&] { add_head(); });
  }
}

void Gpt::add_embedding(bool is_shared) {
  const ModelRows rows{table_, *config_, part_};
  const Param& words = declare_words(rows, is_shared);
  const bool learned = config_->position_embedding_type == "learned_absolute";
  embedding_.emplace(words, learned ? &declare_positions(rows) : nullptr, config_->hidden_dropout);
}

void Gpt::add_head() {
  const ModelRows rows{table_, *config_, part_};
  final_norm_ = make_final_norm(rows, "decoder");
  head_.emplace(config_->untie_embeddings_and_output_weights ? declare_output(rows)
                : embedding_                                 ? table_.rows()[embedding_rows_.begin]
                                                             : declare_words(rows, true, true),
                config_->vocab_size, config_->label_smoothing);
}

}  // namespace mt
