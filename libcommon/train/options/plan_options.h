// PlanOptions: whether a run is planned instead, and for what machine.
#pragma once

#include <optional>
#include <string>

#include "train/plan/machine_options.h"

namespace mt {

struct PlanOptions {
  bool wanted = false;        // --plan
  std::string svg;            // where the schedule is drawn
  std::optional<int> search;  // GPUs for which layouts are proposed
  MachineOptions machine;     // that the plan supposes

  void add_to(CommandLine& cl);
  void check_wanted() const;  // Exit::usage for what needs --plan, without it
  // Exit::usage for what needs times, of a plan that has none.
  void check_times(bool plans_times, bool on_gpus) const;
};

}  // namespace mt
