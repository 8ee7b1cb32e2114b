// What a DrawingTask has of texts that are drawn ahead of the steps that learn from them, and of
// ranks that draw them while others learn.  Those that learn ask for one draw at a time, of which
// the first of them hands on the weights as they are then, and fetch it when it is due: at the next
// step that draws, --max-lag steps before the one that learns from it, or before a save.  So who
// draws has the time of a step for it, and what is drawn depends neither on how long that takes nor
// on who does it.
#include <array>
#include <filesystem>
#include <utility>

#include "comm/group.h"
#include "comm/rendezvous.h"
#include "post/policy/drawing_task.h"

namespace mt {

// What was drawn before the run was saved; `step` is the one that learns from it.
DrawingTask::Drawn DrawingTask::read_ahead(std::int64_t step) const {
  Drawn drawn;
  const std::string file = kept(step, "ahead");
  for (Rollout& one : read_kept(std::filesystem::exists(file) ? file : kept(step))) {
    drawn.texts.emplace_back().text = one.said;
    one.old.clear();
    drawn.texts.back().rollout = std::move(one);
  }
  drawn.count(drawn.texts);
  return drawn;
}

bool DrawingTask::draw_ahead(const Drawing& drawing, std::int64_t first,
                             std::int64_t iteration) const {
  if (options_.in_flight) return draw_in_flight(drawing, first);
  const std::int64_t samples = options_.texts_at_once() * options_.num_iterations;
  const std::size_t here = place_here(drawing.ranks);
  std::deque<Drawn>& queue = drawn_ahead_[here];
  const bool goes_on = queue.empty() && !under_way_[here] && iteration > 1;
  if (drawing.drawers != nullptr && failed_steps_ >= kMostFailed && drawing.ranks.rank() == 0)
    fail(Exit::peer_failed, "the texts of ", failed_steps_, " steps in a row have no reward");
  if (!take_drawn(drawing)) return false;
  for (std::int64_t ahead = std::ssize(queue); ahead <= options_.max_lag; ++ahead) {
    const std::int64_t at = first + ahead * samples,
                       step = iteration + ahead * samples / drawing.samples;
    if (at >= set_->samples->size()) return true;
    if (goes_on && ahead < options_.max_lag) {
      queue.push_back(read_ahead(step));
      continue;
    }
    if (!draw_for_step(drawing, at / options_.num_iterations / options_.num_generations, step))
      return false;
    if (ahead < options_.max_lag && !take_drawn(drawing)) return false;
  }
  return true;
}

bool DrawingTask::draw_for_step(const Drawing& drawing, std::int64_t prompt,
                                std::int64_t step) const {
  const std::int64_t prompts = options_.texts_at_once() / options_.num_generations,
                     version = drawing.iteration - 1;
  if (drawing.drawers != nullptr) {
    ask_drawers(drawing, {.asked = asked(prompt, prompts, 0), .step = step, .version = version});
    return true;
  }
  Seconds seconds;
  Lap lap;
  const Model& model = drawing.model();
  lap(seconds.refit);
  std::optional<Drawn> now = draw_groups(model, drawing, prompt, prompts);
  if (!now) return false;
  now->seconds += seconds;
  if (options_.max_lag > 0) {
    for (DrawnText& one : now->texts) one.rollout.version = version;
    if (drawing.ranks.rank() == 0) keep(now->texts, kept(step, "ahead"));
  }
  drawn_ahead_[place_here(drawing.ranks)].push_back(std::move(*now));
  return true;
}

// --- By other ranks ------------------------------------------------------------------------------

// What the first of those that learn tells those that draw for them: the number of the first prompt
// and how many there are, none where they are not wanted any more; and 1 where they have nothing of
// the model yet, else 0.
using Order = std::array<double, 3>;

static Order shared(Group& ranks, Order order) {
  ranks.broadcast({order.data(), DType::f64, {std::ssize(order)}}, 0).wait();
  return order;
}

// Gives the others of these the model of the first: all of it, or what steps change.
static void hand_on(Group& drawers, const Model& model, bool all) {
  for (const Param& row : model.table().rows())
    if (all || row.trainable || row.is_buffer) drawers.broadcast(row.value, 0).wait();
}

// The texts that they have drawn, and how long that took; none on a rank that does not ask them.
static std::vector<DrawnText> fetch(Group& drawers, double& seconds) {
  if (drawers.size() == 1) return {};
  std::vector<DrawnText> drawn = texts_of(drawers, 1, {});
  drawers.broadcast({&seconds, DType::f64, {1}}, 1).wait();
  return drawn;
}

void DrawingTask::ask_drawers(const Drawing& drawing, UnderWay asked) const {
  Lap lap;
  const Model& model = drawing.model();  // which all put together
  Group& drawers = *drawing.drawers;
  if (drawers.size() > 1) {
    const bool all = !std::exchange(drawers_have_model_, true);
    shared(drawers, {static_cast<double>(asked.asked.first),
                     static_cast<double>(asked.asked.prompts.size()), all ? 1.0 : 0.0});
    hand_on(drawers, model, all);
  }
  lap(asked.seconds.refit);
  under_way_[place_here(drawing.ranks)] = std::move(asked);
}

// Waits for what is under way, and puts it into the queue; false where the run is to end, and what
// has come is judged later.
bool DrawingTask::take_drawn(const Drawing& drawing) const {
  const std::size_t here = place_here(drawing.ranks);
  if (!under_way_[here]) return true;
  UnderWay& asked = *under_way_[here];
  if (!asked.drawn) {
    Lap lap;
    const Rendezvous::Patience patience(drawing.met);  // who draws says itself where it is stuck
    asked.drawn = texts_of(drawing.ranks, 0, fetch(*drawing.drawers, asked.seconds.gen));
    lap(asked.seconds.wait);
  }
  const std::vector<DrawnText>& drawn = *asked.drawn;
  const std::int64_t ranks = drawing.ranks.size(), rank = drawing.ranks.rank();
  const auto first_of = [&](std::int64_t of) { return std::ssize(drawn) * of / ranks; };
  std::optional<Drawn> judged = judge_own(
      std::vector<DrawnText>(drawn.begin() + first_of(rank), drawn.begin() + first_of(rank + 1)),
      asked.seconds, drawing, asked.asked);
  if (!judged) return false;
  put_drawn(std::move(*judged), asked.version, here);
  if (rank == 0) keep(drawn_ahead_[here].back().texts, kept(asked.step, "ahead"));
  under_way_[here].reset();
  return true;
}

void DrawingTask::put_drawn(Drawn drawn, std::int64_t version, std::size_t here) const {
  drawn.count(drawn.texts);
  for (DrawnText& one : drawn.texts) {
    shape(one.rollout);
    one.rollout.version = version;
  }
  drawn.attempts = 1;
  drawn_ahead_[here].push_back(std::move(drawn));
}

// Before each step that draws the texts that are in flight get their share of the tokens that a
// text may have, and those that are learnt from now the rest.  A run that goes on begins with none.
bool DrawingTask::draw_in_flight(const Drawing& drawing, std::int64_t first) const {
  const std::int64_t texts = options_.texts_at_once(), group = options_.num_generations,
                     samples = texts * options_.num_iterations, version = drawing.iteration - 1,
                     longest = options_.max_completion_length.value_or(seq_length() - 1),
                     share = (longest + options_.max_lag) / (options_.max_lag + 1);
  const std::size_t here = place_here(drawing.ranks);
  std::deque<InFlight>& open = in_flight_[here];
  Seconds seconds;
  Lap lap;
  const Model& model = drawing.model();
  lap(seconds.refit);
  for (std::int64_t ahead = std::ssize(open); ahead <= options_.max_lag; ++ahead) {
    const std::int64_t at = first + ahead * samples;
    if (at >= set_->samples->size()) break;
    const Asked asked = this->asked(at / options_.num_iterations / group, texts / group, 0);
    const Parted part = parted(drawing, asked.texts());
    open.push_back({.asked = asked,
                    .version = version,
                    .texts = std::make_unique<TextsUnderWay>(
                        model, completion_model(), asked.some(part.begin, part.end),
                        draw_options(drawing.together, drawing.ends))});
  }
  bool goes_on = true;
  for (InFlight& one : open)
    goes_on =
        goes_on && one.texts->go_on(&one == &open.front() ? TextsUnderWay::kAll : share, version);
  std::optional<std::vector<DrawnText>> own;
  const InFlight& due = open.front();
  if (goes_on) own = parted(drawing, due.asked.texts()).own_of(open.front().texts->take());
  lap(seconds.gen);
  std::optional<Drawn> judged = judge_own(std::move(own), seconds, drawing, due.asked);
  if (!judged) return false;
  put_drawn(std::move(*judged), due.version, here);
  open.pop_front();
  return true;
}

// What is under way is judged even where the run is to end, as the run goes on from what is saved;
// where judges fail again, the next step that draws says so.
void DrawingTask::await_drawn(const Drawing& drawing) const {
  if (drawing.drawers == nullptr) return;
  Drawing to_the_end = drawing;
  to_the_end.ends = [] { return false; };
  if (auto& asked = under_way_[place_here(drawing.ranks)]) asked->asked.before_save = true;
  take_drawn(to_the_end);
}

void DrawingTask::dismiss(const Drawing& drawing) const {
  if (drawing.drawers == nullptr || drawing.drawers->size() == 1) return;
  if (const auto& asked = under_way_[place_here(drawing.ranks)]; asked && !asked->drawn) {
    const Rendezvous::Patience patience(drawing.met);
    double seconds = 0;
    fetch(*drawing.drawers, seconds);  // which nobody wants any more
  }
  shared(*drawing.drawers, {});
}

static Order next_order(const Task::DrawingFor& drawing) {
  const Rendezvous::Patience patience(drawing.met);  // others learn, judge, validate and save
  return shared(drawing.first, {});
}

// As far as others are told, it waits for its GPU from one step of the engine to the next.
void DrawingTask::draw_for(const DrawingFor& drawing) const {
  const auto ends = [&] {
    const Stream::Call call(drawing.stream);
    return false;
  };
  for (;;) {
    const auto [first, prompts, all] = next_order(drawing);
    if (prompts == 0) return;
    hand_on(drawing.first, drawing.model, all > 0);
    drawing.stream.synchronize();
    Lap lap;
    double seconds = 0;
    const Asked asked =
        this->asked(static_cast<std::int64_t>(first), static_cast<std::int64_t>(prompts), 0);
    const std::int64_t rank = drawing.own.rank(), ranks = drawing.own.size();
    std::optional<std::vector<DrawnText>> part;
    {
      const Stream::Queueing queueing(drawing.stream);
      part = draw_some(drawing.model, asked, asked.texts() * rank / ranks,
                       asked.texts() * (rank + 1) / ranks, {}, ends);
    }
    const Rendezvous::Patience patience(drawing.met);  // until others come to fetch them
    const auto drawn = all_texts(drawing.own, std::move(part));
    lap(seconds);
    texts_of(drawing.first, 1, *drawn);
    drawing.first.broadcast({&seconds, DType::f64, {1}}, 1).wait();
  }
}

}  // namespace mt
