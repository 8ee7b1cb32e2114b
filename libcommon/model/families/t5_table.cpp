// A T5's modules, put together with their rows (model/layers).
#include <algorithm>

#include "model/config/model_config.h"
#include "model/families/t5.h"
#include "model/layers/layer_rows.h"
#include "model/sharing_stages.h"

namespace mt {

T5::~T5() = default;

T5::T5(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)), part_(part) {
  table_.divide(part.rank, part.ranks);
  encoders_ = config_->encoder_num_layers;
  layers_ = encoders_ + config_->num_layers;
  rotary_ = make_rotary(*config_, rotary_storage_);
  add_shared_tables(ranges);
  const ModelRows rows{table_, *config_, part_};
  for (const StageRange& range : ranges) {
    Chunk& own =
        chunks_.emplace_back(Chunk{range, stack_of(range, 0, encoders_, relative_[0]), {{}, {}}});
    if (ends_encoder(range))
      encoder_norm_rows_ =
          make_unit(table_, [&] { encoder_norm_ = make_final_norm(rows, "encoder"); });
    own.decoder = stack_of(range, encoders_, layers_, relative_[1]);
    if (!range.last) continue;
    head_rows_ = make_unit(table_, [&] {
      final_norm_ = make_final_norm(rows, "decoder");
      const Param& own_row = declare_t5_head(rows);
      const bool tied = !config_->untie_embeddings_and_output_weights;
      head_.emplace(tied ? *words_ : own_row, config_->vocab_size, config_->label_smoothing,
                    tied ? &own_row : nullptr);
    });
  }
  find_completed();
}

// The tables that more than one chunk of the model may use.
void T5::add_shared_tables(const StageRanges& ranges) {
  const ModelRows rows{table_, *config_, part_};
  const auto has = [&](const auto& use) { return std::ranges::any_of(ranges, use); };
  const bool tied = !config_->untie_embeddings_and_output_weights;
  const bool first = has(&StageRange::first), last = has(&StageRange::last);
  const bool begins = has([&](const StageRange& r) { return begins_decoder(r); });
  const auto add = [&](const Param& row, SharingStages stages, bool all_here, bool stored_here) {
    Param& mine = table_.rows()[row.index];
    mine.shared = !all_here;
    mine.copy = !stored_here;
    mine.sharing_stages = static_cast<int>(stages);
    return &mine;
  };
  const bool learned = config_->position_embedding_type == "learned_absolute";
  embedding_rows_ = make_unit(table_, [&] {
    if (!first && !begins && !(tied && last)) return;
    words_ = add(declare_words(rows), tied ? SharingStages::words : SharingStages::embeddings,
                 first && begins && (last || !tied), first);
    if (!first && !begins) return;
    Param* const positions =
        learned ? add(declare_positions(rows), SharingStages::embeddings, first && begins, first)
                : nullptr;
    if (positions != nullptr) positions->place.also = "position_embeddings";
    embedding_.emplace(Embedding::Tables{words_, positions}, config_->hidden_dropout,
                       Embedding::Options{.noise = config_->neftune_alpha});
  });
  if (config_->position_embedding_type != "relative") return;
  const std::int64_t heads = config_->num_attention_heads / part_.ranks;
  const auto add_relative = [&](int stack, std::int64_t begin, std::int64_t end,
                                SharingStages stages) {
    std::int64_t here = 0;
    for (const StageRange& r : ranges)
      here += std::max<std::int64_t>(0, std::min(r.end, end) - std::max(r.begin, begin));
    if (here == 0) return;
    relative_rows_[stack] = make_unit(table_, [&] {
      const bool stored =
          has([&](const StageRange& r) { return r.begin <= begin && begin < r.end; });
      const Param* const table =
          add(declare_relative_bias(
                  rows, stack == 0 ? "encoder_relative_pos_emb" : "decoder_relative_pos_emb"),
              stages, here == end - begin, stored);
      relative_[stack].emplace(
          *table,
          RelativeBuckets(config_->relative_attention_num_buckets,
                          config_->relative_attention_max_distance, stack == 0),
          part_.rank * heads, heads);
    });
  };
  add_relative(0, 0, encoders_, SharingStages::encoder);
  add_relative(1, encoders_, layers_, SharingStages::decoder);
}

// A stage's layers of one stack, of which the model has those from `begin` to `end`.
Stack T5::stack_of(const StageRange& range, std::int64_t begin, std::int64_t end,
                   const std::optional<RelativeBias>& bias) {
  const StageRange own{.begin = std::clamp(range.begin, begin, end),
                       .end = std::clamp(range.end, begin, end)};
  return make_stack({table_, *config_, part_}, own, rotary_, bias);
}

// What a rank's first chunk that uses a table leaves in its gradient is all that a micro-batch
// adds.
void T5::find_completed() {
  const auto first_to = [&](const RowRange& rows, const auto& uses) {
    const auto found = std::ranges::find_if(chunks_, uses);
    if (rows.begin < rows.end && found != chunks_.end()) found->completes.push_back(rows);
  };
  const bool tied = !config_->untie_embeddings_and_output_weights;
  first_to(relative_rows_[1], [&](const Chunk& c) { return c.range.end > encoders_; });
  first_to(relative_rows_[0], [&](const Chunk& c) { return encodes(c.range); });
  first_to(embedding_rows_, [&](const Chunk& c) {
    return c.range.first || begins_decoder(c.range) || (tied && c.range.last);
  });
}

}  // namespace mt
