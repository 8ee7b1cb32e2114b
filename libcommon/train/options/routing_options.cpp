#include "train/options/routing_options.h"

#include "base/command.h"
#include "model/config/model_config.h"

namespace mt {

void RoutingOptions::add_to(CommandLine& cl) {
  cl.section("Routing record");
  cl.flag("--moe-enable-routing-replay", &enabled,
          "what routers choose is recorded or replayed, as one of the following says; mt-finetune "
          "grpo: texts are learnt with the experts that they were drawn with");
  cl.option("--moe-route-trace", &trace, "FILE",
            "lines of JSON with the experts that training's routers choose, of each text and layer "
            "one, are added to this file, by the first rank");
  cl.option("--moe-route-replay", &replay, "FILE",
            "training's routers choose the experts that such a file has, in whatever layout, and "
            "weigh them by their own scores");
}

void RoutingOptions::check(const ModelConfig& model) const {
  if (enabled && of_texts && is_on())
    fail(Exit::usage,
         "--moe-route-trace, --moe-route-replay: without --moe-enable-routing-replay, "
         "with which texts bring what they replay");
  if (enabled && !of_texts && !is_on())
    fail(Exit::usage, "--moe-enable-routing-replay: needs --moe-route-trace or --moe-route-replay");
  if (!is_on() && !enabled) return;
  if (trace == "-")
    fail(Exit::usage, "--moe-route-trace -: expected a file, to which a run that goes on adds");
  const char* const flag = !is_on()        ? "--moe-enable-routing-replay"
                           : trace.empty() ? "--moe-route-replay"
                                           : "--moe-route-trace";
  if (model.num_experts == 0) fail(Exit::bad_config, flag, ": needs --num-experts");
}

}  // namespace mt
