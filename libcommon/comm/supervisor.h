// supervise(): starts the ranks of this host, a child process each, and stays with them (DESIGN
// D6).
//
// A child finds its rank in torchrun's variables (launch.h), is a process group of its own, so that
// a terminal's signals come to it through the supervisor alone, and is killed when the supervisor
// dies.  INT, TERM, HUP, USR1 and USR2 are passed on to every child.  Rank 0 has the supervisor's
// stdout and stderr; what the others say goes to stderr, each line behind "rank 3: ", but for JSON
// lines.
//
// After a failure the others have some time to end by themselves, as they do who are told of it by
// their Rendezvous; then they are killed.  So they have when rank 0, which completes what is saved,
// has ended on a signal.  The first failure counts that is not merely that of
// having been told; where all are started again after one, hosts agree on it (hosts.h).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/signals.h"
#include "comm/launch.h"

namespace mt {

struct Supervision {
  std::vector<std::string> arguments;  // of each child, which runs this program
  int max_restarts = 0;  // start all again so often, unless the failure would come again: a wrong
                         // option or input, or a signal that ends the run
  std::chrono::milliseconds after_failure{5000}, after_end{60000};  // for the others to end
  std::chrono::milliseconds timeout{600000};                        // for other hosts to come
};

// Returns when all ranks have ended well.  Else throws the first failure's exit code, 128 + n where
// signal n killed the rank, with a line that names the rank, and what the others did about it; the
// line is empty for an orderly end on a signal, of which rank 0 has spoken.
void supervise(const Launch& launch, const Supervision& supervision, Signals& signals,
               const Log& log);

}  // namespace mt
