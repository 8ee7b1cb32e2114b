// How long schedules take, and how they are drawn.
#include "train/plan/timeline.h"

#include <gtest/gtest.h>

#include "train/plan/schedule_drawing.h"

namespace mt {
namespace {

// Stages whose forwards, backwards and weight gradients all take the same times.
struct EqualStages {
  int ranks = 1, chunks = 1, micro_batches = 1;
  double forward = 2, backward = 3, weight_gradients = 1.5;
};

Timeline walk(const EqualStages& e, const std::vector<Schedule>& schedules, double transfer = 0) {
  std::vector<std::vector<ActionSeconds>> seconds;
  for (const Schedule& schedule : schedules) {
    const bool defers = defers_weight_gradients(schedule);
    std::vector<ActionSeconds>& rank = seconds.emplace_back();
    for (const Action& action : schedule) {
      const double work = action.kind == Action::Kind::forward ? e.forward
                          : action.kind == Action::Kind::backward
                              ? e.backward + (defers ? 0 : e.weight_gradients)
                          : action.kind == Action::Kind::weight_gradients ? e.weight_gradients
                                                                          : 0;
      rank.push_back({work / e.chunks, transfer});
    }
  }
  return make_timeline(schedules, seconds);
}

double formula(const EqualStages& e, bool zero_bubble) {
  return bubble_seconds({.interleaved = e.chunks > 1,
                         .zero_bubble = zero_bubble,
                         .ranks = e.ranks,
                         .chunks = e.chunks,
                         .micro_batch = e.forward + e.backward + e.weight_gradients,
                         .weight_gradients = e.weight_gradients});
}

TEST(Timeline, EqualStagesWaitAsLongAsTheFormulaSays) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const int micro_batches : {ranks, 2 * ranks, 4 * ranks}) {
      EqualStages e{.ranks = ranks, .micro_batches = micro_batches};
      const double busy = micro_batches * (e.forward + e.backward + e.weight_gradients);
      const auto check = [&](const char* name, const auto& schedule, bool zero_bubble) {
        std::vector<Schedule> schedules;
        for (int r = 0; r < ranks; ++r)
          schedules.push_back(schedule(
              {.rank = r, .ranks = ranks, .chunks = e.chunks, .group = ranks}, micro_batches));
        const Timeline timeline = walk(e, schedules);
        EXPECT_NEAR(timeline.seconds, busy + formula(e, zero_bubble), 1e-9)
            << name << " of " << ranks << " ranks, " << micro_batches << " micro-batches";
        for (std::size_t r = 0; r < schedules.size(); ++r)
          EXPECT_NEAR(timeline.busy(r, schedules[r]), busy, 1e-9);
      };
      check("gpipe", gpipe, false);
      check("1F1B", one_f_one_b, false);
      if (ranks > 1)
        for (e.chunks = 2; e.chunks <= 4; ++e.chunks) check("interleaved", interleaved, false);
      e.chunks = 1;
      e.backward = e.forward = e.weight_gradients;  // as the paper draws it
      const double even = micro_batches * 3 * e.forward;
      std::vector<Schedule> schedules;
      for (int r = 0; r < ranks; ++r)
        schedules.push_back(zero_bubble({.rank = r, .ranks = ranks}, micro_batches));
      EXPECT_NEAR(walk(e, schedules).seconds, even + formula(e, true), 1e-9)
          << "zero-bubble of " << ranks << " ranks, " << micro_batches << " micro-batches";
    }
}

// Forward 2, backward 4.5 on each of two ranks, messages 1: rank 1 begins at 3, and so on.
TEST(Timeline, MessagesTakeTime) {
  const EqualStages e{.ranks = 2, .micro_batches = 1};
  std::vector<Schedule> schedules;
  for (int r = 0; r < 2; ++r) schedules.push_back(one_f_one_b({.rank = r, .ranks = 2}, 1));
  const Timeline timeline = walk(e, schedules, 1);
  EXPECT_DOUBLE_EQ(timeline.end(1), 2 + 1 + 2 + 4.5);
  EXPECT_DOUBLE_EQ(timeline.end(0), 2 + 1 + 2 + 4.5 + 1 + 4.5);
}

TEST(Timeline, WorkBeginsWhenItCan) {
  const Schedule forwards{{Action::Kind::forward}, {Action::Kind::forward}};
  const Timeline timeline =
      make_timeline({forwards}, {{{.work = 2, .not_before = 3}, {.work = 2, .not_before = 4}}});
  EXPECT_EQ(timeline.ranks[0][0].begin, 3);
  EXPECT_EQ(timeline.seconds, 7);
  EXPECT_EQ(timeline.busy(0, forwards), 4);
}

TEST(Timeline, SchedulesThatWaitForEachOtherAreNamed) {
  const Schedule receives{{Action::Kind::receive_forward}};
  EXPECT_THROW(make_timeline({receives, receives}, {{{}}, {{}}}), Error);
}

TEST(ScheduleDrawing, ShowsWhatEachStageDoes) {
  StepTimes times;
  for (int r = 0; r < 2; ++r) times.schedules.push_back(one_f_one_b({.rank = r, .ranks = 2}, 2));
  times.timeline =
      walk({.ranks = 2, .forward = 1, .backward = 1, .weight_gradients = 1}, times.schedules);
  EXPECT_EQ(times.timeline.seconds, 9);
  EXPECT_EQ(schedule_text(times, 28),
            "stage 0   0011....aaaa..bbbb\n"
            "stage 1   ..00aaaa11bbbb....\n"
            "          0-9 forward, a-j backward of a micro-batch, by its number's last digit; = "
            "weight gradients; . waits\n");
  const std::string svg = schedule_svg(times);
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
  std::size_t boxes = 0;
  for (std::size_t at = 0; (at = svg.find("fill-opacity", at)) != svg.npos; ++at) ++boxes;
  EXPECT_EQ(boxes, 8U);
}

}  // namespace
}  // namespace mt
