#include "model/families/t5.h"

#include "model/config/model_config.h"
#include "model/families/answer.h"
#include "ops/ops.h"

namespace mt {

// Random numbers of the two stacks differ.
static constexpr std::uint32_t kEncoder = 1;

static Tokens encoder_tokens(const Step& s, const Fields& batch) {
  return {.sequences = s.tokens.sequences,
          .length = batch[Field::encoder_ids].numel() / s.tokens.sequences,
          .positions = batch[Field::encoder_positions],
          .lengths = batch[Field::encoder_lengths],
          .causal = false,
          .stack = kEncoder};
}

WireShapes T5::wire(const Step& s, const Fields& batch, Side side) const {
  const StageRange& range = chunk(s).range;
  const std::int64_t at = side == Side::before ? range.begin : range.end;
  const Shape of_encoder{s.over(encoder_tokens(s, batch)).rows(), config_->hidden_size},
      of_decoder{s.rows(), config_->hidden_size};
  WireShapes shapes;
  if (at != encoders_) shapes[0] = at < encoders_ ? of_encoder : of_decoder;
  if (passes_memory(at)) shapes[1] = of_encoder;
  return shapes;
}

// Returns the memory; empty where a later stage has the encoder's end, to which `out` goes.
Tensor T5::encode(Step& s, Wire& out, const Wire& in, const Fields& batch, Saved* saved) const {
  const Chunk& own = chunk(s);
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (own.range.first)
    embedding_->forward(s, x, batch[Field::encoder_ids], {},
                        saved ? &saved->encoder_embedding : nullptr);
  else
    copy(x, in.hidden(), s.stream);
  x = own.encoder.forward(s, x, saved ? &saved->encoder : nullptr);
  if (!ends_encoder(own.range)) {
    out.hidden() = x;
    return {};
  }
  const Tensor memory = s.kept(saved, x.shape());
  encoder_norm_->forward(s, memory, x, saved ? &saved->encoder_norm : nullptr);
  if (saved) saved->encoder_y = x;
  return memory;
}

// The Step has the memory.
void T5::decode(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                Saved* saved) const {
  const Chunk& own = chunk(s);
  Tensor x = s.kept(saved, {s.rows(), config_->hidden_size});
  if (begins_decoder(own.range)) {
    Step of_texts = s;
    of_texts.tokens.lengths = batch[Field::lengths];
    embedding_->forward(of_texts, x, batch[Field::ids], {}, saved ? &saved->embedding : nullptr);
  } else {
    copy(x, in.hidden(), s.stream);
  }
  find_angles(s, rotary_);
  x = own.decoder.forward(s, x, saved ? &saved->decoder : nullptr);
  if (!own.range.last) {
    out.hidden() = x;
    return;
  }
  if (ends.rows) return answer(s, ends, x, batch[Field::labels], &*final_norm_, *head_);
  const Tensor normed = s.kept(saved, x.shape());
  final_norm_->forward(s, normed, x, saved ? &saved->final_norm : nullptr);
  find_losses(s, ends, normed, batch, *head_, saved ? &saved->head : nullptr);
  if (saved) saved->y = x;
}

void T5::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                 Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  const StageRange& range = chunk(s).range;
  if (s.past.cache != nullptr && !batch[Field::encoder_ids])
    return decode(s, out, in, batch, ends, saved);
  Step e = s.over(encoder_tokens(s, batch));
  e.past = {};
  const Tensor memory = encodes(range) ? encode(e, out, in, batch, saved) : in.memory();
  if (saved) {
    saved->encoder_tokens = e.tokens;
    saved->memory = memory;
  }
  if (!range.last && passes_memory(range.end)) out.memory() = memory;
  if (range.end <= encoders_) return;
  s.memory = {.tokens = e.tokens, .hidden = memory, .gradient = {}};
  decode(s, out, in, batch, ends, saved);
}

// Returns the memory's gradient, that of later stages included.
Tensor T5::decode_backward(Step& s, Wire& din, const Wire& dout, const Saved& saved) const {
  const Chunk& own = chunk(s);
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (own.range.last) {
    final_norm_->backward(s, dx, saved.head.dx, saved.y, saved.final_norm);
    s.complete(head_rows_);
  } else {
    copy(dx, dout.hidden(), s.stream);
  }
  Tensor d_memory;
  if (saved.memory) {
    d_memory = s.scratch(saved.memory.shape());
    if (dout.memory())
      copy(d_memory, dout.memory(), s.stream);
    else
      set_zero(d_memory, s.stream);
  }
  s.memory = {.tokens = saved.encoder_tokens, .hidden = saved.memory, .gradient = d_memory};
  dx = own.decoder.backward(s, dx, saved.decoder);
  if (begins_decoder(own.range))
    embedding_->backward(s, dx, saved.embedding);
  else
    din.hidden() = dx;
  return d_memory;
}

void T5::encode_backward(Step& s, Wire& din, const Wire& dout, ConstTensor d_memory,
                         const Saved& saved) const {
  const Chunk& own = chunk(s);
  Tensor dx = s.gradient({s.rows(), config_->hidden_size});
  if (ends_encoder(own.range)) {
    encoder_norm_->backward(s, dx, d_memory, saved.encoder_y, saved.encoder_norm);
    s.complete(encoder_norm_rows_);
  } else {
    copy(dx, dout.hidden(), s.stream);
  }
  dx = own.encoder.backward(s, dx, saved.encoder);
  if (own.range.first)
    embedding_->backward(s, dx, saved.encoder_embedding);
  else
    din.hidden() = dx;
}

void T5::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  const Chunk& own = chunk(s);
  ConstTensor d_memory = dout.memory();
  if (own.range.end > encoders_) {
    const Tensor all = decode_backward(s, din, dout, saved);
    d_memory = all;
    if (!encodes(own.range)) din.memory() = all;
  } else if (!encodes(own.range)) {
    din.memory() = dout.memory();  // of a stage without layers
  }
  if (encodes(own.range)) {
    Step e = s.over(saved.encoder_tokens);
    encode_backward(e, din, dout, d_memory, saved);
  }
  for (const RowRange& rows : own.completes) s.complete(rows);
}

}  // namespace mt
