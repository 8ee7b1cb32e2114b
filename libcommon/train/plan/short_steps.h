// ShortSteps: two steps of few micro-batches by which one of very many is planned.  They begin and
// end as it does; the second has a round of micro-batches more, and costs so much more as does each
// further round of the step itself.
#pragma once

#include "train/plan/step_times.h"

namespace mt {

struct ShortSteps {
  int few = 0, second = 0;  // micro-batches of the two; the same, of the step, where it is short
  int more = 0;             // that the step has more than the second
  int round = 1;            // after so many each rank does the same again

  static ShortSteps of(const PipelineLayout& layout, int micro_batches);

  double rounds() const { return static_cast<double>(more) / round; }  // behind the second's
  double of_step(double of_few, double of_second) const {
    return of_second + rounds() * (of_second - of_few);
  }
  // The micro-batch of the second step that stands for this one.
  int stand_in(int micro_batch) const;
  // The parts of the step by those of the second.
  RankParts of_step(const RankParts& of_second, const Schedule& second, const Schedule& step) const;
};

}  // namespace mt
