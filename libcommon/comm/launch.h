// Launch: which rank of how many this process is, and where the ranks meet, as the launcher says
// that started it:
//
//   torchrun, Kubernetes  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE      MASTER_ADDR MASTER_PORT
//   Open MPI              OMPI_COMM_WORLD_RANK _SIZE _LOCAL_RANK _LOCAL_SIZE   same, else --master
//   MPICH, Intel MPI      PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS    same, else --master
//   Slurm                 SLURM_PROCID SLURM_NTASKS SLURM_LOCALID              same, else the first
//                         host of SLURM_STEP_NODELIST and a port of SLURM_JOB_ID and _STEP_ID
//   flags                 --gpus --nnodes --node-rank                          --master
//
// Slurm's are those of a job step, inside which another launcher may have started us: they count
// where nothing else does.  All others must say the same, but for a set of one rank, which says
// nothing.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/command.h"

namespace mt {

struct LaunchOptions {
  std::optional<int> gpus = {}, nnodes = {}, node_rank = {}, local_rank = {};
  std::string master = {};
  int max_restarts = 0, distributed_timeout_minutes = 10;
  bool runs = true;  // else nothing is started, as for a plan, which needs no --node-rank, --master

  std::chrono::minutes timeout() const { return std::chrono::minutes(distributed_timeout_minutes); }
  void add_to(CommandLine& cl);
};

struct Launch {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the processes of this host
  std::string host = "localhost";      // where rank 0 listens
  int port = 0;                        // 0: not known yet, which is well for ranks of one host
  std::string run_id = {};             // what the launcher calls the run; empty: nothing
  bool must_start = false;  // the flags ask for several ranks, of which this is the first, or for
                            // one that is started again, and nobody has started them
  int attempt = 0, max_restarts = 0;  // how often all ranks were started again after a failure, and
                                      // how often they may be (torchrun and supervise() say so)

  // Which of the `visible` GPUs of its host is this rank's: the only one, or that of its local
  // rank; Exit::unavailable if there are too few.
  int gpu(int visible) const;
};

// A variable of the environment, nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> environment_variable(const char* name);

// Exit::usage for sets that contradict each other or lack a part.
Launch find_launch(const LaunchOptions& options,
                   const Environment& environment = environment_variable);

// The first host of Slurm's list: "node[01-04,07],gpu5" -> "node01".
std::string first_slurm_host(const std::string& list);

}  // namespace mt
