// RankClock: how long a rank's work takes on a machine, told by the step itself while it runs on
// `meta`: what is counted on the stream, when messages begin and when they are waited for.  Work
// follows work; messages of one group follow each other beside it, and a wait lasts until its
// message has arrived.  So what is computed while a message travels hides it, as in the run.
//
// Messages to other stages of a pipeline cost the sender nothing here: who waits for them depends
// on the other ranks (train/plan/timeline.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/plan/machine.h"

namespace mt {

// What a rank sends in one group by one collective, in a step.
struct GroupMessages {
  std::string group, collective;
  int ranks = 0;            // among which they travel
  bool within_node = true;  // all of them
  double count = 0, bytes = 0;
  double seconds = 0, waited = 0;  // on their way, and what of it nothing hides
};

class RankClock final : public MessageWatch {
 public:
  // A piece of work.
  struct Part {
    PerFamily<double> families = {};  // seconds; of communication what was waited for
    double launch = 0;                // seconds before it
    double transfer = 0;              // seconds that its messages to another stage travel
    // From when on it can begin without waiting for what a step left on its way, in seconds after
    // that step.
    double not_before = 0;
    double seconds() const;  // without the transfer
  };

  // A clock of what is counted on `stream` from now on.
  RankClock(const Machine& machine, const AttentionKind& attention, const Stream& stream);

  void begin_part(bool backward);  // ends the one before
  const std::vector<Part>& end();  // all, in order
  void begin_step();               // forgets what has happened, but not what is on its way
  const std::vector<GroupMessages>& messages() const { return messages_; }

  std::size_t begin(const Message& message) override;
  void wait(std::size_t number) override;
  int hosts(const std::vector<int>& ranks) const override { return machine_.nodes(ranks); }

 private:
  struct Flight {
    std::size_t kind = 0;  // of messages_
    double arrival = 0;
    bool left = false;  // in the step before
  };
  void advance();  // past the work since the last call
  std::size_t kind_of(const Message& message);

  const Machine& machine_;
  AttentionKind attention_;
  const Stream& stream_;
  PerFamily<Cost> counted_ = {};
  bool backward_ = false;
  double now_ = 0, step_ = 0, part_ = 0;  // the time, and when step and part began
  std::vector<Part> parts_;
  std::map<std::string, double> free_;  // from when on a group can send
  std::vector<Flight> flights_;
  std::vector<GroupMessages> messages_;
};

}  // namespace mt
