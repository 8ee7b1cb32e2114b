#include "base/run_context.h"

#include "base/command.h"
#include "base/error.h"
#include "base/signals.h"

namespace mt {

void run_until_signal(const CommandLine& cl, const std::function<void(const RunContext&)>& work,
                      bool resumable) {
  Signals signals;
  signals.answer([&cl](Signal) { cl.log().draw_no_more(); });
  RunContext context{cl.log(), version_text(cl.program()), cl.arguments(), [&signals] {
                       if (const auto signal = signals.poll()) throw *signal;
                     }};
  context.version.erase(context.version.find('\n'));
  try {
    work(context);
  } catch (const Signal signal) {
    if (!resumable) end_by(signal);
    fail(Exit::stopped, "stopped by ", signal_name(signal), "; the same command goes on");
  }
}

}  // namespace mt
