// Rendezvous: where the processes of a run meet over TCP, exchange what is small (NCCL's ids, host
// names, layouts) and learn of each other's end.  Rank 0 listens, the others connect to it until
// the timeout.  Messages go through rank 0; a thread of each process carries them and says every
// few moments that the process is alive, so that one that is killed, is stopped, or gives up is
// named to all:
//
//   rank 2 (node07): token 99 of shard 7                        it has called abort()
//   rank 2 (node07) is gone: its connection was lost            killed, or crashed
//   rank 2 (node07) has said nothing for 600 s: ...             stopped, or its host is cut off
//   rank 2 (node07) did not come to an all_gather in 600 s      it does something else
//
// GPUs that wait for each other say nothing; how far they have come is known from follow():
//
//   rank 2 (node07) did not come to operation 18 of its group, all_reduce of 4096 bfloat16 among 8,
//   in 600 s
//   rank 2 (node07) is in operation 18 of its group, split among 8, while rank 0 (node01) is in …
//   rank 2 (node07) has said nothing for 600 s: …; rank 0 (node01) has waited for its GPU for 600 s
//   since it has begun operation 18 of its group, all_reduce of 4096 bfloat16 among 8
//
// The first such line is the run's: every later call of every rank throws it as Exit::peer_failed.
// Frames: kind u32, bytes u32, then so many bytes; numbers as the machine has them.
//
// broadcast(), all_gather() and barrier() are collectives: all ranks call the same ones in the same
// order, each from one thread.  abort() and failure() may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/launch.h"

namespace mt {

class Rendezvous {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Returns when launch.size ranks have met.  Exit::peer_failed names who is missing after the
  // timeout, or disagrees about the size or the run; connections of anything else are turned away.
  // `checkpoint` runs every few moments until they have; what it throws ends the wait.
  Rendezvous(
      const Launch& launch, Milliseconds timeout, const std::function<void()>& checkpoint = [] {});
  // Leaves in peace: that is no failure, unless somebody waits for this rank.
  ~Rendezvous();

  int rank() const;
  int size() const;

  // The root's bytes, on every rank.
  std::vector<std::byte> broadcast(Bytes bytes, int root = 0);
  // Every rank's bytes, by rank.
  std::vector<std::vector<std::byte>> all_gather(Bytes bytes);
  void barrier();

  // Tells all that this rank fails, and why; they fail too.  Does not wait and does not throw.
  void abort(const std::string& why, Exit code = Exit::internal);
  // How far this rank has come among others.
  struct Progress {
    struct InGroup {
      std::string group;        // the same on all its ranks
      std::uint64_t begun = 0;  // operations
      std::string last;         // of them: "all_reduce of 4096 bfloat16 among 8"
    };
    Milliseconds waits{0};  // for the others, so long by now; 0: it does not
    std::string latest;  // what it has begun last: "operation 18 of its group, all_reduce of …"
    std::vector<InGroup> groups;
  };
  // Asks for it from now on, every few moments and by another thread; never again once this was
  // called with null.  When a rank has waited until the timeout, the run fails, and the line names
  // who has not come to what the others are in.
  void follow(std::function<Progress()> progress);
  // While one lives, how long this rank waits is not told: others may take as long as they like,
  // and only who is gone, or says nothing at all, ends the run.  Of null, which ranks are that are
  // no processes, it does nothing.
  class Patience {
   public:
    explicit Patience(Rendezvous* ranks) : ranks_(ranks) {
      if (ranks_ != nullptr) ranks_->add_patience(1);
    }
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;
    ~Patience() {
      if (ranks_ != nullptr) ranks_->add_patience(-1);
    }

   private:
    Rendezvous* ranks_;
  };
  // Ends the run as if it had waited until the timeout, since `why`: the line also says, as far as
  // this rank knows, who has not come to what others are in.
  void end_waiting(const std::string& why, Exit code);
  // From now on the timeout is no longer than this, as at a run's end, when nothing takes long.
  void wait_at_most(Milliseconds limit);
  // What has ended the run, or nothing; waits up to so long for it to be known.
  std::string failure(Milliseconds wait = Milliseconds(0)) const;
  // Called by another thread some seconds after a failure, if this object is there still: its owner
  // hangs, as in waiting for a GPU that waits for a rank that is gone.  With the line, and the code
  // that goes with it: Exit::peer_failed, or that of abort().
  using Stuck = std::function<void(const std::string& line, Exit code)>;
  void if_stuck(Stuck then);

 private:
  void add_patience(int more);

  struct State;
  std::unique_ptr<State> state_;
};

// Exit::unavailable where two ranks name the same GPU, each its own by these bytes.
void check_own_gpus(Rendezvous& ranks, Bytes own);

// Runs body(rendezvous).  What it throws is told to the other ranks, unless it is their failure
// that it was told, or the run's orderly end on a signal, of which rank 0 alone speaks; the others
// have 20 s to come to that.
void run_process(const Launch& launch, Rendezvous::Milliseconds timeout,
                 const std::function<void(Rendezvous&)>& body);
// Runs a part of run_process()'s body, whose end may hang, and tells the other ranks if it fails
// before what it holds is given back.
void tell_failures(Rendezvous& ranks, const std::function<void()>& part);

}  // namespace mt
