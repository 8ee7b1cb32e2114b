#include "model/families/dino.h"

#include "base/error.h"
#include "comm/group.h"
#include "kernels/view_loss.h"
#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "nn/asked_rows.h"
#include "nn/unfinished.h"
#include "ops/ops.h"
#include "ops/view_loss.h"

namespace mt {
namespace {

// Random numbers of the student's smaller parts, and those of the teacher, differ from those of
// the student's first two.
constexpr std::uint32_t kOthers = 1, kTeacher = 2;
constexpr double kCenterMomentum = 0.9;

// A place keeps views: of constants.
constexpr std::string_view kStacks[][2] = {{"embedding", "teacher_model.embedding"},
                                           {"decoder", "teacher_model.decoder"},
                                           {kDinoHead, "teacher_model.dino_head"}};

std::string_view teachers_stack(std::string_view own) {
  for (const auto& [stack, teachers] : kStacks)
    if (stack == own) return teachers;
  fail(Exit::internal, own, ": is no stack of a teacher");
}

Tokens tokens_of(ConstTensor places, std::int64_t samples, std::int64_t each, std::uint32_t stack) {
  return {.sequences = samples * each,
          .length = places.numel() / (samples * each),
          .positions = places,
          .causal = false,
          .stack = stack,
          .of_sample = each};
}

}  // namespace

Dino::Half Dino::add_half(const ModelConfig& layers, const TensorPart& part) {
  Half half;
  half.layers = std::make_unique<const Vit>(
      table_, layers, StageRanges{{.end = config_->num_layers, .last = false}}, part);
  const ModelRows rows{table_, *config_, part};
  half.end_rows = make_unit(table_, [&] {
    half.norm = make_final_norm(rows, "decoder");
    half.head = make_dino_head(rows);
  });
  return half;
}

Dino::Dino(const ModelConfig& config, const StageRanges& ranges, const TensorPart& part)
    : config_(std::make_unique<ModelConfig>(config)) {
  if (ranges.size() != 1 || !ranges.front().first || !ranges.front().last)
    fail(Exit::internal, "a model that follows another has one stage");
  table_.divide(part.rank, part.ranks);
  student_ = add_half(config, part);
  const std::size_t own = table_.rows().size();
  ModelConfig of_teacher = config;
  of_teacher.dino_drop_path = 0;
  teacher_ = add_half(of_teacher, part);
  for (std::size_t i = 0; i < own; ++i) {
    Param &student = table_.rows()[i], &teacher = table_.rows()[own + i];
    teacher.drawn_as = student.name();
    teacher.place.stack = teachers_stack(teacher.place.stack);
    pairs_.push_back({.teacher = &teacher, .student = &student});
  }
  const RowRange center_rows = make_unit(table_, [&] {
    center_ = &table_.add({.place = {.stack = "dino_loss", .module = "center", .param = "value"},
                           .shape = {config_->dino_out_dim},
                           .dtype = DType::f32});
  });
  for (std::size_t i = own; i < center_rows.end; ++i) table_.rows()[i].trainable = false;
}

Dino::~Dino() = default;

WireShapes Dino::wire(const Step&, const Fields&, Side) const { return {}; }

// It is made where it is first needed, which is in no captured graph.
Tensor Dino::said_so_far(Stream& stream) const {
  const DType sums = sum_dtype(table_.dtype());
  const auto bytes = static_cast<std::size_t>(config_->dino_out_dim) * size_of(sums);
  if (said_.bytes() == 0) {
    said_ = Buffer(stream.device(), bytes);
    set_zero(said_.tensor(sums, {config_->dino_out_dim}), stream);
  }
  return said_.tensor(sums, {config_->dino_out_dim});
}

void Dino::pick(Step& s, const Half& half, Tensor picked, const Parts& parts,
                Vit::Saved* saved) const {
  const ArenaScope scope(s.layer);
  Step of_parts = s.over(parts.tokens);
  Fields batch;
  batch[Field::pixels] = parts.pixels;
  batch[Field::ids] = parts.places;
  Wire made;
  half.layers->forward(of_parts, made, {}, batch, {}, saved);
  pick_rows(of_parts, picked, made.hidden(), parts.first_tokens);
}

// Returns what the teacher says of the first two parts, or, where an evaluation asks what it knows
// them by, nothing.
Tensor Dino::teach(Step& s, Parts wholes, const Ends& ends) const {
  wholes.tokens.stack = kTeacher;
  const std::int64_t parts = wholes.tokens.sequences;
  const Shape known{parts, config_->hidden_size};
  const Tensor said = s.training ? s.scratch({parts, config_->dino_out_dim}) : Tensor();
  const ArenaScope scope(s.layer);
  const Tensor picked = s.scratch(known), normed = s.scratch(known);
  pick(s, teacher_, picked, wholes, nullptr);
  Step of_rows = step_of_rows(s, parts);
  teacher_.norm->forward(of_rows, normed, picked, nullptr);
  if (!said) {
    copy(ends.logits, normed.reshape(ends.logits.shape()), s.stream);
    return {};
  }
  teacher_.head->forward(of_rows, said, normed, {}, nullptr);
  column_sum(said_so_far(s.stream), said, s.stream);
  return said;
}

void Dino::forward(Step& s, Wire&, const Wire&, const Fields& batch, const Ends& ends,
                   Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  const std::int64_t samples = s.tokens.sequences, firsts = 2 * samples;
  const Views views{
      .images = samples, .others = config_->dino_local_crops_number, .cols = config_->dino_out_dim};
  const Parts wholes{.tokens = tokens_of(batch[Field::ids], samples, 2, 0),
                     .pixels = batch[Field::pixels],
                     .places = batch[Field::ids],
                     .first_tokens = batch[Field::rows].rows(0, firsts)},
      others{.tokens = tokens_of(batch[Field::local_ids], samples, views.others, kOthers),
             .pixels = batch[Field::local_pixels],
             .places = batch[Field::local_ids],
             .first_tokens = batch[Field::rows].rows(firsts, views.rows())};
  const Tensor taught = teach(s, wholes, ends);
  if (!taught) return;
  const Shape known{views.rows(), config_->hidden_size};
  const Tensor picked = s.kept(saved, known), normed = s.kept(saved, known),
               said = s.kept(saved, {views.rows(), views.cols});
  pick(s, student_, picked.rows(0, firsts), wholes, saved ? &saved->of_wholes : nullptr);
  pick(s, student_, picked.rows(firsts, views.rows()), others, saved ? &saved->of_others : nullptr);
  Step of_rows = step_of_rows(s, views.rows());
  student_.norm->forward(of_rows, normed, picked, saved ? &saved->norm : nullptr);
  student_.head->forward(of_rows, said, normed, batch[Field::last_learns],
                         saved ? &saved->head : nullptr);
  view_loss({.loss = ends.loss,
             .student = said,
             .teacher = taught,
             .center = center_->value,
             .sharpness = batch[Field::sharpness],
             .row_weight = ends.weight},
            views, s.stream);
  if (!saved) return;
  saved->wholes = wholes.tokens;
  saved->others = others.tokens;
  saved->picked = picked;
  saved->row_of = batch[Field::row_of];
}

void Dino::backward(Step& s, Wire&, const Wire&, const Model::Saved& slot) const {
  const auto& saved = static_cast<const Saved&>(slot);
  const Shape known = saved.picked.shape();
  const Tensor d_picked = s.gradient(known);
  {
    const ArenaScope scope(s.layer);
    const Tensor d_normed = s.scratch(known);
    Step of_rows = step_of_rows(s, known[0]);
    student_.head->backward(of_rows, d_normed, saved.head);
    student_.norm->backward(of_rows, d_picked, d_normed, saved.picked, saved.norm);
  }
  s.complete(student_.end_rows);
  const auto layers_backward = [&](const Tokens& tokens, ConstTensor d_own, ConstTensor row_of,
                                   const Vit::Saved& of_layers, ParamSharing* sharing) {
    const ArenaScope scope(s.layer);
    Step of_parts = s.over(tokens);
    of_parts.sharing = sharing;
    Wire none, d_made;
    d_made.hidden() = s.gradient({tokens.count(), config_->hidden_size});
    put_rows_back(of_parts, d_made.hidden(), d_own, row_of);
    student_.layers->backward(of_parts, none, d_made, of_layers);
  };
  const std::int64_t firsts = saved.wholes.sequences, tokens = saved.wholes.count();
  Unfinished unfinished(s.sharing);
  layers_backward(saved.others, d_picked.rows(firsts, known[0]),
                  saved.row_of.rows(tokens, saved.row_of.numel()), saved.of_others,
                  s.sharing != nullptr ? &unfinished : nullptr);
  layers_backward(saved.wholes, d_picked.rows(0, firsts), saved.row_of.rows(0, tokens),
                  saved.of_wholes, s.sharing);
}

void Dino::move_center(Group& data_ranks, std::int64_t parts, Stream& stream) {
  const Tensor said = said_so_far(stream), center = center_->value;
  data_ranks.all_reduce(said).wait();
  scale(center, center, kCenterMomentum, stream);
  scale(said, said, (1 - kCenterMomentum) / static_cast<double>(parts), stream);
  add(center, center, said, stream);
  set_zero(said, stream);
}

void Dino::follow(const Pair& pair, double momentum, Stream& stream) {
  const Tensor to = pair.teacher->value, from = pair.student->value;
  const std::size_t bytes = from.bytes();
  if (moved_.bytes() < bytes) moved_ = Buffer(stream.device(), bytes);
  const Tensor moved = moved_.tensor(from.dtype(), from.shape());
  scale(moved, from, 1 - momentum, stream);
  scale(to, to, momentum, stream);
  add(to, to, moved, stream);
}

}  // namespace mt
