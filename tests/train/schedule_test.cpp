#include "train/schedule.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"

namespace mt {
namespace {

using Kind = Action::Kind;

// "F0 F1 B0": the work of a schedule without its messages.
std::string work_of(const Schedule& schedule) {
  std::string text;
  for (const Action& action : schedule)
    if (action.kind == Kind::forward || action.kind == Kind::backward)
      text += concat(text.empty() ? "" : " ", action.kind == Kind::forward ? "F" : "B",
                     action.micro_batch);
  return text;
}

// Calls body(stage, stages, micro_batches) for every stage of every small layout.
template <class Body>
void for_each_stage(const Body& body) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int micro_batches = 1; micro_batches <= 16; ++micro_batches)
      for (int stage = 0; stage < stages; ++stage) {
        SCOPED_TRACE(
            concat("stage ", stage, " of ", stages, ", ", micro_batches, " micro-batches"));
        body(stage, stages, micro_batches);
      }
}

// Golden orders: Megatron's non-interleaved schedule of 4 stages and 8 micro-batches.
TEST(OneForwardOneBackward, Order) {
  EXPECT_EQ(work_of(one_f_one_b(0, 4, 8)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  EXPECT_EQ(work_of(one_f_one_b(1, 4, 8)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  EXPECT_EQ(work_of(one_f_one_b(2, 4, 8)), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  EXPECT_EQ(work_of(one_f_one_b(3, 4, 8)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST(OneForwardOneBackward, EveryMicroBatchGoesForwardsAndBackwardsOnce) {
  for_each_stage([](int stage, int stages, int micro_batches) {
    std::map<Kind, std::vector<int>> numbers;
    for (const Action& action : one_f_one_b(stage, stages, micro_batches))
      numbers[action.kind].push_back(action.micro_batch);
    std::vector<int> all(static_cast<std::size_t>(micro_batches)), none;
    for (int i = 0; i < micro_batches; ++i) all[static_cast<std::size_t>(i)] = i;
    EXPECT_EQ(numbers[Kind::forward], all);
    EXPECT_EQ(numbers[Kind::backward], all);
    EXPECT_EQ(numbers[Kind::receive_forward], stage > 0 ? all : none);
    EXPECT_EQ(numbers[Kind::send_backward], stage > 0 ? all : none);
    EXPECT_EQ(numbers[Kind::send_forward], stage < stages - 1 ? all : none);
    EXPECT_EQ(numbers[Kind::receive_backward], stage < stages - 1 ? all : none);
  });
}

// A slot belongs to one micro-batch from its forward to its backward, and there are as few slots as
// that allows.
TEST(OneForwardOneBackward, SlotsAreNotSharedWhileInFlight) {
  for_each_stage([](int stage, int stages, int micro_batches) {
    const Schedule schedule = one_f_one_b(stage, stages, micro_batches);
    EXPECT_EQ(slot_count(schedule), std::min(stages - stage, micro_batches));
    std::map<int, int> in_flight;  // slot: micro-batch
    for (const Action& action : schedule) {
      const bool begins = action.kind == (stage > 0 ? Kind::receive_forward : Kind::forward);
      if (begins) {
        EXPECT_TRUE(in_flight.emplace(action.slot, action.micro_batch).second);
      }
      ASSERT_TRUE(in_flight.contains(action.slot));
      EXPECT_EQ(in_flight[action.slot], action.micro_batch);
      const bool ends = action.kind == (stage > 0 ? Kind::send_backward : Kind::backward);
      if (ends) in_flight.erase(action.slot);
    }
    EXPECT_TRUE(in_flight.empty());
  });
}

TEST(ForwardOnly, HasOneSlotAndNoBackward) {
  for_each_stage([](int stage, int stages, int micro_batches) {
    const Schedule schedule = forward_only(stage, stages, micro_batches);
    EXPECT_EQ(slot_count(schedule), 1);
    int next = 0;
    for (const Action& action : schedule) {
      EXPECT_TRUE(action.kind == Kind::receive_forward || action.kind == Kind::forward ||
                  action.kind == Kind::send_forward);
      if (action.kind == Kind::forward) {
        EXPECT_EQ(action.micro_batch, next++);
      }
    }
    EXPECT_EQ(next, micro_batches);
  });
}

// All stages at once, with blocking receives.  Sends are buffered, or they are complete only when
// taken and waited for where the executor does: before a slot's next message or micro-batch.
class Simulation {
 public:
  Simulation(std::vector<Schedule> stages, bool buffered)
      : stages_(std::move(stages)), next_(stages_.size()), buffered_(buffered) {}

  // Whether every stage gets through its list, receiving what it expects.
  bool runs_through() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage)
        while (next_[stage] < stages_[stage].size() && act(stage)) {
          ++next_[stage];
          moved = true;
        }
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (next_[stage] < stages_[stage].size()) return false;
    return wrong_.empty();
  }
  const std::string& wrong() const { return wrong_; }

 private:
  bool act(std::size_t stage) {
    const Action& action = stages_[stage][next_[stage]];
    std::optional<std::size_t>& sent = sent_[{stage, action.slot}];
    switch (action.kind) {
      case Kind::forward:
        return stage > 0 || is_taken(sent);
      case Kind::receive_forward:
        return is_taken(sent) && take(stage - 1, stage, action.micro_batch);
      case Kind::receive_backward:
        return take(stage + 1, stage, action.micro_batch);
      case Kind::send_forward:
        sent = post(stage, stage + 1, action.micro_batch);
        return true;
      case Kind::send_backward:
        if (!is_taken(sent)) return false;
        sent = post(stage, stage - 1, action.micro_batch);
        return true;
      default:
        return true;
    }
  }
  std::size_t post(std::size_t from, std::size_t to, int micro_batch) {
    boxes_[{from, to}].push_back({micro_batch, posted_});
    return posted_++;
  }
  bool take(std::size_t from, std::size_t to, int micro_batch) {
    auto& box = boxes_[{from, to}];
    if (box.empty()) return false;
    if (box.front().first != micro_batch)
      wrong_ = concat("stage ", to, " got micro-batch ", box.front().first, " from ", from,
                      ", expected ", micro_batch);
    taken_.insert(box.front().second);
    box.pop_front();
    return true;
  }
  bool is_taken(const std::optional<std::size_t>& message) const {
    return buffered_ || !message || taken_.contains(*message);
  }

  std::vector<Schedule> stages_;
  std::vector<std::size_t> next_;
  bool buffered_;
  std::size_t posted_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<std::pair<int, std::size_t>>> boxes_;
  std::map<std::pair<std::size_t, int>, std::optional<std::size_t>> sent_;  // by (stage, slot)
  std::set<std::size_t> taken_;
  std::string wrong_;
};

TEST(Schedules, NeverDeadlock) {
  for (const auto schedule : {one_f_one_b, forward_only})
    for (int stages = 1; stages <= 8; ++stages)
      for (int micro_batches = 1; micro_batches <= 16; ++micro_batches)
        for (const bool buffered : {true, false}) {
          std::vector<Schedule> all;
          for (int stage = 0; stage < stages; ++stage)
            all.push_back(schedule(stage, stages, micro_batches));
          Simulation simulation(all, buffered);
          EXPECT_TRUE(simulation.runs_through())
              << stages << " stages, " << micro_batches << " micro-batches, "
              << (buffered ? "buffered: " : "not buffered: ") << simulation.wrong();
        }
}

// The simulation sees what it is there for.
TEST(Schedules, TwoStagesThatBothReceiveFirstAreADeadlock) {
  const Schedule wait_for_next{{Kind::receive_backward, 0, 0}, {Kind::send_forward, 0, 0}};
  const Schedule wait_for_previous{{Kind::receive_forward, 0, 0}, {Kind::send_backward, 0, 0}};
  EXPECT_FALSE(Simulation({wait_for_next, wait_for_previous}, true).runs_through());
  EXPECT_FALSE(Simulation({{{Kind::send_forward, 1, 0}}, {{Kind::receive_forward, 0, 0}}}, true)
                   .runs_through());
}

}  // namespace
}  // namespace mt
