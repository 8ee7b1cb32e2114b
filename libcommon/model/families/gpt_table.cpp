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
  if (part.expert_tensor)
    table_.divide_experts(part.expert_tensor->rank, part.expert_tensor->ranks);
  add_rows(table_, ranges);
}

Gpt::Gpt(ParamTable& table, const ModelConfig& config, const StageRanges& ranges,
         const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)), part_(part) {
  add_rows(table, ranges);
}

void Gpt::add_rows(ParamTable& table, const StageRanges& ranges) {
  rotary_ = make_rotary(*config_, rotary_storage_);
  const bool tied = !config_->untie_embeddings_and_output_weights && !config_->has_task_head();
  const bool further = config_->mtp_num_layers > 0,
             has_words = std::ranges::any_of(ranges, &StageRange::first),
             has_head = std::ranges::any_of(ranges, &StageRange::last);
  for (const StageRange& range : ranges) {
    if (range.first)
      embedding_rows_ =
          make_unit(table, [&] { add_embedding(table, (tied || further) && !has_head); });
    if (range.last && further && !has_words) {
      copies_words_ = true;
      embedding_rows_ = make_unit(table, [&] { add_embedding(table, true, true); });
    }
    chunks_.push_back({range, make_stack({table, *config_, part_}, range, rotary_)});
    if (range.last) head_rows_ = make_unit(table, [&] { add_head(table); });
    if (range.last && further)
      further_ = make_further_tokens({table, *config_, part_}, rotary_, *embedding_, *head_);
  }
}

void Gpt::add_embedding(ParamTable& table, bool is_shared, bool is_copy) {
  const ModelRows rows{table, *config_, part_};
  const Param& words = declare_words(rows, is_shared, is_copy);
  const Param* const positions = config_->has_positions() ? &declare_positions(rows) : nullptr;
  std::optional<Norm> norm;
  if (config_->embedding_layernorm)
    norm = rows.make_norm(
        rows.norm_row({.stack = "embedding", .module = "layernorm", .param = "weight"}));
  embedding_.emplace(Embedding::Tables{&words, positions}, config_->hidden_dropout,
                     Embedding::Options{.multiplier = config_->embedding_mult,
                                        .noise = config_->neftune_alpha,
                                        .first_position = config_->first_position,
                                        .norm = norm});
}

void Gpt::add_head(ParamTable& table) {
  const ModelRows rows{table, *config_, part_};
  final_norm_ = make_final_norm(rows, "decoder");
  if (config_->has_task_head()) {
    task_ = make_task_head(rows);
    return;
  }
  const Param& output = config_->untie_embeddings_and_output_weights ? declare_output(rows)
                        : embedding_ ? table.rows()[embedding_rows_.begin]
                                     : declare_words(rows, true, true);
  if (config_->output_bias)
    head_.emplace(output, config_->vocab_size, config_->label_smoothing,
                  &declare_output_bias(rows));
  else
    head_.emplace(output, config_->vocab_size, config_->label_smoothing,
                  LmHead::Scaling{config_->logit_scale, config_->final_logit_softcapping});
  if (config_->value_head) value_.emplace(make_value_head(rows));
}

}  // namespace mt
