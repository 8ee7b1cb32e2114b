#include "model/families/distilled.h"

#include <algorithm>

#include "model/config/model_config.h"
#include "nn/adapter.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"

namespace mt {

static constexpr std::string_view kPrefix = "teacher.";

bool is_teachers(const RowPlace& place) { return place.stack.starts_with(kPrefix); }

RowPlace own_place(const RowPlace& teachers) {
  RowPlace own = teachers;
  own.stack.remove_prefix(kPrefix.size());
  return own;
}

// A place keeps views: of constants.
static std::string_view teachers_stack(std::string_view own) {
  for (const std::string_view stack :
       {"teacher.embedding", "teacher.decoder", "teacher.output_layer"})
    if (stack.substr(kPrefix.size()) == own) return stack;
  fail(Exit::internal, own, ": is no stack of a teacher");
}

// The stages of a teacher that run beside these: each has the same part of all layers.
static StageRanges teachers_stages(const StageRanges& stages, std::int64_t layers,
                                   std::int64_t teachers) {
  StageRanges beside = stages;
  for (StageRange& stage : beside) {
    stage.begin = stage.begin * teachers / layers;
    stage.end = stage.end * teachers / layers;
  }
  return beside;
}

Distilled::Distilled(const ModelConfig& model, const ModelConfig& teacher, const Rules& rules,
                     const StageRanges& stages, const TensorPart& part)
    : rules_(rules), stages_(stages) {
  table_.divide(part.rank, part.ranks);
  if (part.expert_tensor)
    table_.divide_experts(part.expert_tensor->rank, part.expert_tensor->ranks);
  model_ = std::make_unique<Gpt>(table_, model, stages, part);
  const std::size_t own = table_.rows().size();
  teacher_ = std::make_unique<Gpt>(
      table_, teacher, teachers_stages(stages, model.num_layers, teacher.num_layers), part);
  for (std::size_t i = own; i < table_.rows().size(); ++i) {
    Param& row = table_.rows()[i];
    row.place.stack = teachers_stack(row.place.stack);
    row.shared = false;  // it has no gradient to be summed
  }
  table_.freeze([&](const RowPlace& place) {
    return is_teachers(place) || (model.has_adapters() && !is_adapter(place));
  });
  if (!model.quantize_base.empty())
    pack_weights(table_, [](const RowPlace& place) { return !is_teachers(place); });
}

std::unique_ptr<Model::Saved> Distilled::make_saved() const {
  auto saved = std::make_unique<Saved>();
  saved->of_model = model_->make_saved();
  return saved;
}

WireShapes Distilled::wire(const Step& s, const Fields& batch, Side side) const {
  return {model_->wire(s, batch, side)[0], teacher_->wire(s, batch, side)[0]};
}

WireShapes Distilled::gradient_wire(const Step& s, const Fields& batch, Side side) const {
  return model_->wire(s, batch, side);
}

void Distilled::forward(Step& s, Wire& out, const Wire& in, const Fields& batch, const Ends& ends,
                        Model::Saved* slot) const {
  auto* saved = static_cast<Saved*>(slot);
  const std::int64_t width = teacher_->config().hidden_size;
  const Tensor taught =
      is_last(s) ? s.scratch({s.rows(), width}) : s.kept(saved, {s.rows(), width});
  {
    const ArenaScope scope(s.layer);
    Step its = s;
    its.training = false;
    its.probe = nullptr;
    its.largest_scores = {};
    Wire its_out, its_in;
    its_in.hidden() = in.memory();
    teacher_->forward(its, its_out, its_in, batch, is_last(s) ? Ends{.hidden = taught} : Ends(),
                      nullptr);
    if (its_out) copy(taught, its_out.hidden(), s.stream);
  }
  const Teaching teaching{.head = teacher_->head(),
                          .hidden = taught,
                          .distance = rules_.distance,
                          .of_hidden = rules_.of_hidden};
  Ends taught_ends = ends;
  taught_ends.teaching = &teaching;
  model_->forward(s, out, in, batch, taught_ends, saved ? saved->of_model.get() : nullptr);
  if (!is_last(s)) out.memory() = taught;
}

void Distilled::backward(Step& s, Wire& din, const Wire& dout, const Model::Saved& slot) const {
  model_->backward(s, din, dout, *static_cast<const Saved&>(slot).of_model);
}

}  // namespace mt
