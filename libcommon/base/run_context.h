// RunContext: what surrounds a program's work: where it talks, what its products say of their
// origin, and how it is stopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"

namespace mt {

class CommandLine;

struct RunContext {
  Log log;
  std::string version;                 // one line: program and version
  std::vector<std::string> arguments;  // of the command line, without the program
  // Work calls this between its parts and while it awaits input.  What it throws ends the run, and
  // nothing remains of it.
  std::function<void()> checkpoint = [] {};
};

// Runs `work` with a context whose checkpoint() ends it on a signal.  The program then dies of the
// signal, and nothing of the run remains; a resumable run ends with Exit::stopped instead, and the
// same command goes on with it.  A second INT ends it also where work calls nothing.
void run_until_signal(const CommandLine& cl, const std::function<void(const RunContext&)>& work,
                      bool resumable = false);

}  // namespace mt
