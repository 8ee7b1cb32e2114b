#include "model/families/biencoder.h"

#include "base/error.h"
#include "model/config/model_config.h"
#include "nn/unfinished.h"
#include "ops/ops.h"

namespace mt {
namespace {

// Random numbers of the two towers differ.
constexpr std::uint32_t kContexts = 1;

Tokens query_tokens(const Step& s, const Fields& batch) {
  return {.sequences = s.tokens.sequences,
          .length = batch[Field::ids].numel() / s.tokens.sequences,
          .positions = batch[Field::positions],
          .lengths = batch[Field::lengths],
          .causal = false};
}

Tokens context_tokens(const Step& s, const Fields& batch) {
  const std::int64_t contexts = batch[Field::encoder_lengths].numel();
  return {.sequences = contexts,
          .length = batch[Field::encoder_ids].numel() / contexts,
          .positions = batch[Field::encoder_positions],
          .lengths = batch[Field::encoder_lengths],
          .causal = false,
          .stack = kContexts,
          .of_sample = contexts / s.tokens.sequences};
}

// Types, rows and row_of are of as many texts as there are of the kind that has more.
Tower::Texts texts(const Fields& batch, Field ids, const Tokens& tokens) {
  return {.ids = batch[ids],
          .types = batch[Field::types].rows(0, tokens.count()),
          .rows = batch[Field::rows].rows(0, tokens.sequences),
          .row_of = batch[Field::row_of].rows(0, tokens.count())};
}

}  // namespace

Biencoder::Biencoder(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)) {
  if (ranges.size() != 1 || !ranges.front().first || !ranges.front().last)
    fail(Exit::internal, "a model of towers has one stage");
  table_.divide(part.rank, part.ranks);
  rotary_ = make_rotary(*config_, rotary_storage_);
  const ModelRows rows{table_, *config_, part};
  const std::int64_t layers = config_->num_layers;
  const bool shared = config_->biencoder_shared_query_context_model;
  query_.emplace(rows, shared ? kSharedTower : kQueryTower, StageRange{.end = layers}, rotary_);
  if (!shared)
    context_.emplace(rows, kContextTower, StageRange{.begin = layers, .end = 2 * layers}, rotary_);
}

Biencoder::~Biencoder() = default;

WireShapes Biencoder::wire(const Step&, const Fields&, Side) const { return {}; }

void Biencoder::forward(Step& s, Wire&, const Wire&, const Fields& batch, const Ends& ends,
                        Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  if (ends.retrieval == nullptr) {
    s.tokens.causal = false;
    return (ends.of_contexts ? context() : query())
        .forward(s, ends.pooled,
                 {.ids = batch[Field::ids], .types = batch[Field::types], .rows = ends.rows},
                 nullptr);
  }
  Step of_queries = s.over(query_tokens(s, batch)), of_contexts = s.over(context_tokens(s, batch));
  const std::int64_t width = config_->embedding_width();
  const Tensor queries = s.scratch({of_queries.tokens.sequences, width}),
               contexts = s.scratch({of_contexts.tokens.sequences, width});
  {
    const ArenaScope scope(s.layer);
    query().forward(of_queries, queries, texts(batch, Field::ids, of_queries.tokens),
                    saved ? &saved->of_queries : nullptr);
  }
  {
    const ArenaScope scope(s.layer);
    context().forward(of_contexts, contexts, texts(batch, Field::encoder_ids, of_contexts.tokens),
                      saved ? &saved->of_contexts : nullptr);
  }
  if (ends.logits) {
    const ArenaScope scope(s.layer);
    const Tensor all = s.scratch(ends.logits.shape());
    spread(all, queries, {}, 1, s.stream);
    spread(all, contexts.reshape({s.tokens.sequences, all.shape()[1] - width}), {.column = width},
           1, s.stream);
    copy(ends.logits, all, s.stream);
  }
  InBatchRetrieval::forward(s, {.loss = ends.loss, .hits = ends.hits, .weight = ends.weight},
                            queries, contexts, *ends.retrieval,
                            saved ? &saved->retrieval : nullptr);
  if (!saved) return;
  saved->queries = of_queries.tokens;
  saved->contexts = of_contexts.tokens;
}

void Biencoder::backward(Step& s, Wire&, const Wire&, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  const std::int64_t width = config_->embedding_width();
  const Tensor d_queries = s.gradient({saved.queries.sequences, width}),
               d_contexts = s.gradient({saved.contexts.sequences, width});
  InBatchRetrieval::backward(s, d_queries, d_contexts, saved.retrieval);
  Step of_contexts = s.over(saved.contexts), of_queries = s.over(saved.queries);
  Unfinished unfinished(s.sharing);
  if (!context_ && s.sharing != nullptr) of_contexts.sharing = &unfinished;
  {
    const ArenaScope scope(s.layer);
    context().backward(of_contexts, d_contexts, saved.of_contexts);
  }
  const ArenaScope scope(s.layer);
  query().backward(of_queries, d_queries, saved.of_queries);
}

}  // namespace mt
