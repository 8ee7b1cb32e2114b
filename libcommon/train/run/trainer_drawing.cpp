// What a trainer does for a task that draws its samples from the model.
#include <utility>

#include "base/progress.h"
#include "train/run/trainer.h"

namespace mt {

const Model& Trainer::drawing_model() {
  if (!drawn_by_) optimizer_.finish_values();  // of which codes alone may have been gathered
  stream_.synchronize();
  return drawn_by_ ? drawn_by_->take(optimizer_, world_, stream_) : *model_;
}

Task::Drawing Trainer::drawing() {
  return {.iteration = counters_.iteration,
          .first = counters_.consumed_train_samples,
          .samples = 0,
          .ranks = world_.all(),
          .ends = [this] { return interruption_.is_signalled(); },
          .model = [this]() -> const Model& { return drawing_model(); },
          .together = together_,
          .drawers = drawing_.drawers,
          .met = drawing_.met,
          .score = [this](const SampleSet& set) { return score_drawn(set); }};
}

// Who draws on this stream may have made room for more scratch there than captured steps know of.
void Trainer::have_drawn() {
  const std::size_t scratch = stream_.work_bytes();
  if (std::exchange(scratch_, scratch) != scratch) executor_.forget_graphs();
}

void Trainer::draw_samples(const BatchOptions::StepSize& size) {
  if (!task_.draws()) return;
  end_step();
  heed_signals();  // what came with that step
  reports_.train_progress().doing("generating");
  Task::Drawing drawing = this->drawing();
  drawing.iteration += 1;
  drawing.samples = size.computed;
  if (!task_.draw(drawing)) {
    interruption_.poll();
    heed_signals();
  }
  have_drawn();
  reports_.train_progress().doing("training");
}

void Trainer::validate_drawn() {
  if (std::exchange(validated_at_, counters_.iteration) == counters_.iteration) return;
  reports_.train_progress().doing("generating");
  if (const auto report = task_.validate(drawing()))
    reports_.drawn(*report);
  else
    interruption_.poll();
  have_drawn();
  reports_.train_progress().doing("training");
}

std::vector<double> Trainer::score_drawn(const SampleSet& set) {
  have_drawn();
  auto scores = score(set);
  if (!scores) heed_signals();  // which ends the run
  return std::move(*scores);
}
}  // namespace mt
