#include "train/plan/short_steps.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mt {

// Among so many micro-batches there are some that neither the first nor the last have to do with,
// on every rank: a pipeline fills within as many as twice its ranks, or as two rounds.
ShortSteps ShortSteps::of(const PipelineLayout& layout, int micro_batches) {
  const int round = std::max(layout.ranks, layout.group), least = std::max(256, 8 * round),
            few = least + (micro_batches - least) % round;
  if (micro_batches <= few + round) return {.few = micro_batches, .second = micro_batches};
  return {.few = few, .second = few + round, .more = micro_batches - few - round, .round = round};
}

int ShortSteps::stand_in(int micro_batch) const {
  const int half = second / 2;
  if (micro_batch < half) return micro_batch;
  if (micro_batch >= half + more) return micro_batch - more;
  return half - round + (micro_batch - half) % round;
}

RankParts ShortSteps::of_step(const RankParts& of_second, const Schedule& second,
                              const Schedule& step) const {
  std::map<std::tuple<Action::Kind, int, int>, const RankClock::Part*> parts;
  for (std::size_t i = 0; i < second.size(); ++i)
    parts[{second[i].kind, second[i].chunk, second[i].micro_batch}] = &of_second[i + 1];
  RankParts all = {of_second.front()};
  for (const Action& action : step)
    all.push_back(*parts.at({action.kind, action.chunk, stand_in(action.micro_batch)}));
  all.push_back(of_second.back());
  return all;
}

}  // namespace mt
