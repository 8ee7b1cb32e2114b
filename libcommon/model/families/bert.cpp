#include "model/families/bert.h"

#include <algorithm>

#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "ops/ops.h"

namespace mt {

Bert::Bert(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)), part_(part) {
  table_.divide(part.rank, part.ranks);
  rotary_ = make_rotary(*config_, rotary_storage_);
  const bool tied = !config_->untie_embeddings_and_output_weights && !config_->has_task_head() &&
                    config_->bert_lm_head;
  const bool has_heads = std::ranges::any_of(ranges, &StageRange::last);
  for (const StageRange& range : ranges) {
    if (range.first)
      embedding_rows_ = make_unit(table_, [&] { add_embedding(tied && !has_heads); });
    chunks_.push_back({range, make_stack({table_, *config_, part_}, range, rotary_)});
    if (range.last) head_rows_ = make_unit(table_, [&] { add_heads(); });
  }
}

Bert::~Bert() = default;

void Bert::add_embedding(bool is_shared) {
  const ModelRows rows{table_, *config_, part_};
  Embedding::Tables tables{.words = &declare_words(rows, is_shared)};
  if (config_->has_positions()) tables.positions = &declare_positions(rows);
  if (config_->token_types() > 0) tables.types = &declare_types(rows);
  embedding_.emplace(tables, config_->hidden_dropout,
                     Embedding::Options{.first_position = config_->first_position});
}

void Bert::add_heads() {
  const ModelRows rows{table_, *config_, part_};
  final_norm_ = make_final_norm(rows, "encoder");
  if (config_->has_task_head()) {
    task_ = make_task_head(rows);
    return;
  }
  if (config_->bert_pooler) pooler_ = make_pooler(rows);
  if (!config_->bert_lm_head) return;
  const Param& output = config_->untie_embeddings_and_output_weights ? declare_output(rows)
                        : embedding_ ? table_.rows()[embedding_rows_.begin]
                                     : declare_words(rows, true, true);
  heads_ = make_bert_heads(rows, output);
}

// Tokens are all of the first type where there is no other, or nothing says of which they are.
Tensor Bert::types_of(Step& s, Tensor given, const void* saved) const {
  if (config_->token_types() == 0 || (config_->token_types() > 1 && given)) return given;
  const Tensor zeros = s.kept(saved, {s.tokens.count()}, DType::i32);
  set_zero(zeros, s.stream);
  return zeros;
}

WireShapes Bert::wire(const Step& s, const Fields&, Side) const {
  return {Shape{s.rows(), config_->hidden_size}};
}

void Bert::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                   Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  s.tokens.causal = false;
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (chunk(s).range.first)
    embedding_->forward(s, x, batch[Field::ids], types_of(s, batch[Field::types], saved),
                        saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  x = chunk(s).stack.forward(s, x, saved ? &saved->stack : nullptr);
  if (!chunk(s).range.last) {
    out.hidden() = x;
    return;
  }
  if (ends.rows) return answer(s, ends, x);
  const Tensor normed = s.scratch(x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  if (task_) {
    const Tensor scores =
        task_->forward(s, normed, {.rows = batch[Field::rows], .row_of = batch[Field::row_of]},
                       saved ? &saved->task : nullptr);
    ends.take_scores(scores, batch, saved != nullptr, s.stream);
  } else {
    check_words();
    const Tensor& order = batch[Field::order];
    heads_->forward(s, ends.loss, normed,
                    {.rows = batch[Field::rows],
                     .row_of = batch[Field::row_of],
                     .targets = batch[Field::targets],
                     .weight = ends.weight,
                     .order = order ? order.numel() : 0},
                    saved ? &saved->heads : nullptr);
  }
  if (saved) saved->y = x;
}

// What is asked of some tokens, of all of which the stack gave x.
void Bert::answer(Step& s, const Ends& ends, ConstTensor x) const {
  const Tensor picked = s.scratch({ends.rows.numel(), config_->hidden_size}),
               hidden = ends.hidden ? ends.hidden : s.scratch(picked.shape());
  embedding_forward(picked, ends.rows, x, 0, false, s.stream);
  final_norm_->forward(s, hidden, picked, nullptr);
  if (ends.logits) {
    check_words();
    heads_->logits(s, ends.logits, hidden);
  }
  if (!ends.pooled) return;
  if (!pooler_) return heads_->pool(s, ends.pooled, hidden);
  pooler_->forward(s, ends.pooled, hidden);
  tanh_forward(ends.pooled, ends.pooled, s.stream);
}

void Bert::check_words() const {
  if (!heads_)
    fail(Exit::bad_config, "the BERT has no head for masked words, which this asks: it is a ",
         "model of embeddings");
}

void Bert::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  s.tokens.causal = false;
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (chunk(s).range.last) {
    const ArenaScope scope(s.layer);
    const Tensor d_normed = s.scratch(dx.shape());
    task_ ? task_->backward(s, d_normed, saved.task) : heads_->backward(s, d_normed, saved.heads);
    final_norm_->backward(s, dx, d_normed, saved.y, saved.final_norm);
    s.complete(head_rows_);
  } else {
    copy(dx, dout.hidden(), s.stream);
  }
  dx = chunk(s).stack.backward(s, dx, saved.stack);
  if (chunk(s).range.first) {
    embedding_->backward(s, dx, saved.embedding);
    s.complete(embedding_rows_);
  } else {
    din.hidden() = dx;
  }
}

}  // namespace mt
