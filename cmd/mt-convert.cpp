// mt-convert: rewrite a checkpoint in another format or for another parallel layout.
#include <csignal>
#include <cstdio>

#include "base/command.h"
#include "base/signals.h"
#include "model/convert.h"

namespace {

using mt::CommandLine;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Runs `work` with a check that ends it on a signal, of which the program then dies.
template <class Work>
void run_until_signal(const Work& work) {
  int number = 0;
  try {
    mt::Signals signals;
    work([&signals] {
      const auto signal = signals.poll();
      if (signal && *signal != mt::Signal::user2) throw *signal;
    });
  } catch (const mt::Signal signal) {
    number = static_cast<int>(signal);
  }
  if (number != 0) std::raise(number);
}

void run_convert(CommandLine& cl) {
  mt::ConvertOptions options;
  bool json = false, dry_run = false;
  cl.describe("Rewrite a checkpoint in another format or for another parallel layout.");
  options.add_to(cl);
  cl.flag("--dry-run", &dry_run, "print what would be written, a tensor a line, and write nothing");
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  options.complete();
  if (dry_run) return print(describe_conversion(options));
  run_until_signal([&](const auto& check) {
    const mt::ConvertReport report = convert_checkpoint(options, cl.log(), check);
    cl.log().event("converted", {{"from", report.from},
                                 {"to", report.to},
                                 {"tensors", report.rows},
                                 {"bytes", report.bytes},
                                 {"compared", report.compared}});
    if (!json) return;
    mt::JsonWriter summary;
    report.write(summary);
    print(summary.text() + "\n");
  });
}

void run(CommandLine& cl) { run_convert(cl); }

}  // namespace

int main(int argc, char** argv) { return mt::run_command("mt-convert", argc, argv, run); }
