// Hosts: the programs that supervise the ranks of a run, one a host, among each other.  They begin
// every attempt together and agree on how it has ended, so that all count the same attempts, name
// the same rank, and end with the last of them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/signals.h"
#include "comm/launch.h"
#include "comm/rendezvous.h"

namespace mt {

struct RankFailure {
  int rank = 0;
  Exit code = Exit::ok;
  std::string how = {};     // "was killed by SIGKILL"
  bool is_orderly = false;  // on a signal, of which rank 0 speaks
  bool is_final = false;    // no attempt follows
};

class Hosts {
 public:
  // The hosts of a run, of which this one starts its own ranks; without other hosts all is as it
  // says itself.
  Hosts(const Launch& launch, std::chrono::milliseconds timeout, Signals& signals);

  // Waits for the others and returns the attempt's number, which one that was started again, and so
  // begins anew, learns from them.  Exit::peer_failed names who is missing after the timeout; a
  // signal ends the wait.
  int begin(int attempt);

  // What has failed on any host, if anything has; elsewhere it is Exit::peer_failed here.
  std::optional<RankFailure> agree(const std::optional<RankFailure>& own);

 private:
  bool alone() const { return place_.size == 1; }

  Launch place_;  // where they meet, as ranks of their own
  std::chrono::milliseconds timeout_;
  Signals& signals_;
  std::unique_ptr<Rendezvous> others_;
};

}  // namespace mt
