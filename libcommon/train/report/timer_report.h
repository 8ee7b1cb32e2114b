// The times of a step's parts over all ranks, as Megatron prints them (core/timers.py).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "train/report/timers.h"

namespace mt {

// Every rank's seconds, on every rank; a collective, for which nobody waits if none are measured.
std::vector<Timers::Seconds> gather_seconds(const Timers& timers, Group& ranks);

// "(min, max) time across ranks (ms):" and a line for each part that was measured, no newline at
// the end; empty if none was.  `how`: max, minmax or all.  Times are divided by `steps`.
std::string timer_text(const std::vector<Timers::Seconds>& ranks, const std::string& how,
                       double steps);

// The longest of the ranks' seconds, of the parts that were measured, divided by `steps`.
std::vector<std::pair<std::string, double>> longest_seconds(
    const std::vector<Timers::Seconds>& ranks, double steps);

}  // namespace mt
