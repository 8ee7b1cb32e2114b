#include "model/families/retro.h"

#include <algorithm>

#include "model/config/model_config.h"
#include "model/families/answer.h"
#include "model/layers/layer_rows.h"
#include "ops/ops.h"

namespace mt {

// Random numbers of neighbours differ from those of the sequences.
static constexpr std::uint32_t kEncoder = 1;

bool is_of_neighbors(const RowPlace& place) {
  const std::string name = place.name();
  return name.find(".cross_attention.") != std::string::npos ||
         name.find(".pre_cross_attn_layernorm.") != std::string::npos;
}

Retro::~Retro() = default;

Retro::Retro(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)),
      part_(part),
      encoding_(first_retro_layer(config.num_layers)),
      last_reading_(last_retro_layer(config.num_layers)) {
  table_.divide(part.rank, part.ranks);
  rotary_ = make_rotary(*config_, rotary_storage_);
  const ModelRows rows{table_, *config_, part_};
  const bool tied = !config_->untie_embeddings_and_output_weights;
  const bool has_head = std::ranges::any_of(ranges, &StageRange::last);
  for (const StageRange& range : ranges) {
    if (range.first)
      embedding_rows_ = make_unit(table_, [&] {
        const Param& words = declare_words(rows, tied && !has_head);
        const Param* const positions =
            config_->has_positions() ? &declare_positions(rows) : nullptr;
        embedding_.emplace(Embedding::Tables{&words, positions}, config_->hidden_dropout);
      });
    chunks_.push_back({range, make_stack(rows, range, rotary_)});
    if (!range.last) continue;
    head_rows_ = make_unit(table_, [&] {
      if (config_->retro_final_layernorm) final_norm_ = make_final_norm(rows, "decoder");
      head_.emplace(!tied        ? declare_output(rows)
                    : embedding_ ? table_.rows()[embedding_rows_.begin]
                                 : declare_words(rows, true, true),
                    config_->vocab_size, config_->label_smoothing);
    });
  }
}

static Tokens tokens_of(const ModelConfig& c, const Step& s, ConstTensor positions) {
  return {.sequences = s.tokens.sequences * c.chunks(s.tokens.length) * c.retro_num_neighbors,
          .length = c.retrieved_length(),
          .positions = positions,
          .causal = false,
          .stack = kEncoder,
          .of_sample = c.chunks(s.tokens.length) * c.retro_num_neighbors};
}

static bool retrieves(const Fields& batch) { return bool(batch[Field::encoder_positions]); }

WireShapes Retro::wire(const Step& s, const Fields& batch, Side side) const {
  const StageRange& range = chunk(s).range;
  WireShapes shapes{Shape{s.rows(), config_->hidden_size}};
  if (retrieves(batch) && passes(side == Side::before ? range.begin : range.end))
    shapes[1] = {s.over(tokens_of(*config_, s, batch[Field::encoder_positions])).rows(),
                 config_->hidden_size};
  return shapes;
}

// What the stage's layers, or those behind it, see of them.
Neighbours Retro::neighbours_of(Step& s, const Wire& in, const Fields& batch, Saved* saved) const {
  const StageRange& range = chunk(s).range;
  Neighbours found;
  found.tokens = tokens_of(*config_, s, batch[Field::encoder_positions]);
  Step over = s.over(found.tokens);
  const Shape shape{over.rows(), config_->hidden_size};
  if (range.first) {
    found.embedded = s.kept(saved, shape);
    embedding_->forward(over, found.embedded, batch[Field::encoder_ids], {},
                        saved ? &saved->neighbours_embedding : nullptr);
  } else {
    (range.begin <= encoding_ ? found.embedded : found.encoded) = in.memory();
  }
  if (encodes(range)) found.encoded = s.kept(saved, shape);
  return found;
}

void Retro::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                    Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  const StageRange& range = chunk(s).range;
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (range.first)
    embedding_->forward(s, x, batch[Field::ids], {}, saved ? &saved->embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  if (reads(range) && retrieves(batch)) s.neighbours = neighbours_of(s, in, batch, saved);
  if (saved) saved->neighbours = s.neighbours;
  find_angles(s, rotary_);
  x = chunk(s).stack.forward(s, x, saved ? &saved->stack : nullptr);
  if (!range.last) {
    out.hidden() = x;
    if (retrieves(batch) && passes(range.end))
      out.memory() = range.end <= encoding_ ? s.neighbours.embedded : s.neighbours.encoded;
    return;
  }
  const Norm* const norm = final_norm_ ? &*final_norm_ : nullptr;
  if (ends.rows) return answer(s, ends, x, batch[Field::labels], norm, *head_);
  Tensor read = x;
  if (norm != nullptr) {
    read = s.kept(saved, x.shape());
    norm->forward(s, read, x, saved ? &saved->final_norm : nullptr);
  }
  if (saved) saved->y = x;
  head_->loss(s, ends.loss, read, batch[Field::labels], ends.weight, saved ? &saved->head : nullptr,
              ends.hits);
}

void Retro::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  const StageRange& range = chunk(s).range;
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (!range.last) {
    copy(dx, dout.hidden(), s.stream);
  } else {
    if (final_norm_)
      final_norm_->backward(s, dx, saved.head.dx, saved.y, saved.final_norm);
    else
      copy(dx, saved.head.dx, s.stream);
    s.complete(head_rows_);
  }
  s.neighbours = saved.neighbours;
  const bool retrieved = saved.neighbours.embedded || saved.neighbours.encoded;
  Tensor d_neighbours;  // of what the stage got, and what its layers add to
  if (retrieved) {
    const Shape& shape =
        (saved.neighbours.encoded ? saved.neighbours.encoded : saved.neighbours.embedded).shape();
    d_neighbours = s.scratch(shape);
    if (dout.memory())
      copy(d_neighbours, dout.memory(), s.stream);
    else
      set_zero(d_neighbours, s.stream);
    if (saved.neighbours.encoded) s.neighbours.d_encoded = d_neighbours;
    if (encodes(range)) s.neighbours.d_embedded = d_neighbours = s.scratch(shape);
  }
  dx = chunk(s).stack.backward(s, dx, saved.stack);
  if (range.first) {
    embedding_->backward(s, dx, saved.embedding);
    if (retrieved) {
      Step over = s.over(saved.neighbours.tokens);
      embedding_->backward(over, d_neighbours, saved.neighbours_embedding);
    }
    s.complete(embedding_rows_);
  } else {
    din.hidden() = dx;
    din.memory() = d_neighbours;
  }
}

}  // namespace mt
