#include "model/families/vit.h"

#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "ops/ops.h"

namespace mt {

Vit::Vit(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)) {
  table_.divide(part.rank, part.ranks);
  add_rows(table_, ranges, part);
}

Vit::Vit(ParamTable& table, const ModelConfig& config, const StageRanges& ranges,
         const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)) {
  add_rows(table, ranges, part);
}

void Vit::add_rows(ParamTable& table, const StageRanges& ranges, const TensorPart& part) {
  const ModelRows rows{table, *config_, part};
  for (const StageRange& range : ranges) {
    if (range.first)
      embedding_rows_ = make_unit(table, [&] { embedding_.emplace(make_patch_embedding(rows)); });
    chunks_.push_back({range, make_stack(rows, range, {})});
    if (range.last)
      head_rows_ = make_unit(table, [&] {
        if (config_->ends_in_norm()) final_norm_ = make_final_norm(rows, "decoder");
        if (config_->has_task_head()) head_ = make_image_head(rows);
        if (config_->vision_use_head) declare_pooling_head(rows);
      });
  }
}

Vit::~Vit() = default;

WireShapes Vit::wire(const Step& s, const Fields&, Side) const {
  return {Shape{s.rows(), config_->hidden_size}};
}

void Vit::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                  Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  s.tokens.causal = false;
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (chunk(s).range.first)
    embedding_->forward(s, x,
                        batch[Field::pixels].reshape({s.tokens.count(), config_->patch_width()}),
                        batch[Field::ids], saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  x = chunk(s).stack.forward(s, x, saved ? &saved->stack : nullptr);
  if (!chunk(s).range.last) {
    out.hidden() = x;
    return;
  }
  if (config_->is_clip() || !final_norm_) {
    if (ends.hidden) copy(ends.hidden, x, s.stream);
    return;
  }
  const Tensor normed = s.scratch(x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  if (ends.hidden) copy(ends.hidden, normed, s.stream);
  if (!head_) return;
  const Tensor scores =
      head_->forward(s, normed, {.rows = batch[Field::rows], .row_of = batch[Field::row_of]},
                     saved ? &saved->head : nullptr);
  ends.take_scores(scores, batch, saved != nullptr, s.stream);
  if (saved) saved->y = x;
}

void Vit::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  s.tokens.causal = false;
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (chunk(s).range.last) {
    const ArenaScope scope(s.layer);
    const Tensor d_normed = s.scratch(dx.shape());
    head_->backward(s, d_normed, saved.head);
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
