#include "train/options/plan_options.h"

#include "base/command.h"

namespace mt {

void PlanOptions::add_to(CommandLine& cl) {
  cl.section("Plan");
  cl.flag("--plan", &wanted,
          "print parameters, FLOPs, memory, messages and time of a step, and stop; times are of "
          "GPUs in 16 bits, or of this CPU");
  cl.option("--plan-svg", &svg, "FILE",
            "with --plan: draw the schedule of the pipeline's stages as an SVG image");
  cl.option("--plan-search", &search, "N",
            "propose how N GPUs share the run, by the plans of all layouts that fit into their "
            "memory, say why, and stop",
            between(1, 1 << 20));
  machine.add_to(cl);
}

void PlanOptions::check_wanted() const {
  if (wanted) return;
  if (!svg.empty()) fail(Exit::usage, "--plan-svg: needs --plan");
  if (machine.is_given())
    fail(Exit::usage, "--plan-machine, and what else a plan supposes: needs --plan");
}

void PlanOptions::check_times(bool plans_times, bool on_gpus) const {
  if (!wanted) return;
  if (machine.is_named() && !on_gpus)
    fail(Exit::usage, "--plan-machine, --plan-memory: of GPUs; --device cpu is this machine");
  if (!plans_times && on_gpus && (!svg.empty() || machine.gives_rates()))
    fail(Exit::usage,
         "--plan-svg, and what else a plan supposes: plans for GPUs have times only in 16 bits");
}

}  // namespace mt
