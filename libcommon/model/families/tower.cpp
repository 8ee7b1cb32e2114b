#include "model/families/tower.h"

#include "nn/asked_rows.h"
#include "ops/ops.h"

namespace mt {

std::optional<RowPlace> bert_place(const RowPlace& place) {
  for (const TowerNames& names : {kQueryTower, kContextTower, kSharedTower})
    for (const auto& [ours, of_bert] : {std::pair{names.embedding, std::string_view("embedding")},
                                        {names.encoder, std::string_view("encoder")}})
      if (place.stack == ours) {
        RowPlace same = place;
        same.stack = of_bert;
        return same;
      }
  return {};
}

Tower::Tower(const ModelRows& rows, const TowerNames& names, const StageRange& layers,
             const Rotary& rotary)
    : hidden_(rows.config.hidden_size) {
  const ModelConfig& c = rows.config;
  const auto named = [&](const Param& row) {
    rows.table.rows()[row.index].place.stack = names.embedding;
    return &row;
  };
  embedding_rows_ = make_unit(rows.table, [&] {
    Embedding::Tables tables{.words = named(declare_words(rows))};
    if (c.has_positions()) tables.positions = named(declare_positions(rows));
    tables.types = named(declare_types(rows));
    embedding_.emplace(tables, c.hidden_dropout);
  });
  stack_.emplace(make_stack(rows, layers, rotary));
  end_rows_ = make_unit(rows.table, [&] {
    norm_ = make_final_norm(rows, names.encoder);
    if (c.biencoder_projection_dim > 0)
      projection_ = make_projection(rows, names.projection, c.biencoder_projection_dim);
  });
}

void Tower::forward(Step& s, Tensor out, const Texts& texts, Saved* saved) const {
  Tensor x = s.kept(saved, {s.rows(), hidden_});
  embedding_->forward(s, x, texts.ids, texts.types, saved ? &saved->embedding : nullptr);
  x = stack_->forward(s, x, saved ? &saved->stack : nullptr);
  const Tensor picked = s.kept(saved, {texts.rows.numel(), hidden_}),
               normed = projection_ ? s.kept(saved, picked.shape()) : out;
  pick_rows(s, picked, x, texts.rows);
  Step of_rows = step_of_rows(s, texts.rows.numel());
  norm_->forward(of_rows, normed, picked, saved ? &saved->norm : nullptr);
  if (projection_) projection_->forward(of_rows, out, normed);
  if (!saved) return;
  saved->row_of = texts.row_of;
  saved->picked = picked;
  saved->normed = normed;
}

void Tower::backward(Step& s, ConstTensor d_out, const Saved& v) const {
  Tensor dx = s.gradient({s.rows(), hidden_});
  {
    const ArenaScope scope(s.layer);
    Step of_rows = step_of_rows(s, v.picked.shape()[0]);
    const Tensor d_picked = s.scratch(v.picked.shape());
    ConstTensor d_normed = d_out;
    if (projection_) {
      const Tensor through = s.scratch(v.normed.shape());
      projection_->backward(of_rows, through, d_out, v.normed);
      d_normed = through;
    }
    norm_->backward(of_rows, d_picked, d_normed, v.picked, v.norm);
    put_rows_back(s, dx, d_picked, v.row_of);
  }
  s.complete(end_rows_);
  dx = stack_->backward(s, dx, v.stack);
  embedding_->backward(s, dx, v.embedding);
  s.complete(embedding_rows_);
}

}  // namespace mt
