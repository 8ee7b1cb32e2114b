#include "comm/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

namespace mt {

void LaunchOptions::add_to(CommandLine& cl) {
  cl.option("--gpus", &gpus, "N",
            "GPUs of this host, a rank each: as many processes, which the program starts itself "
            "where no launcher has",
            between(1, 1 << 10));
  cl.option("--nnodes", &nnodes, "N", "hosts of the run, on each of which the program is started",
            between(1, 1 << 20));
  cl.option("--node-rank", &node_rank, "N", "which of them this is, from 0", at_least(0));
  cl.option("--master", &master, "HOST:PORT",
            "where rank 0 listens for the others, if the launcher does not say");
  cl.option("--local-rank", &local_rank, "N",
            "which of its host's ranks this is, if the launcher does not say", at_least(0));
  cl.option("--max-restarts", &max_restarts, "N",
            "after a rank was lost, start all again, on every host, so often, from the last "
            "checkpoint in --save",
            at_least(0));
  cl.option("--distributed-timeout-minutes", &distributed_timeout_minutes, "N",
            "how long ranks wait for another before they name it and end", between(1, 1 << 20));
}

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

int Launch::gpu(int visible) const {
  if (visible == 1) return 0;  // the launcher shows each rank its own
  if (local_rank >= visible)
    fail(Exit::unavailable, "rank ", rank, ": is number ", local_rank, " of its host, which has ",
         visible, " GPUs that CUDA can use");
  return local_rank;
}

namespace {

constexpr int kMostPort = 65535;

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The variables of one launcher.
struct Names {
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpich = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr};

// What one launcher says, or the flags.
struct Set {
  std::string launcher;
  int rank = 0, size = 1;
  std::optional<int> local_rank, local_size;

  std::string text() const { return concat(launcher, " (rank ", rank, " of ", size, ")"); }
};

class Finder {
 public:
  Finder(const LaunchOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  Launch find() const;

 private:
  std::optional<int> number_of(const char* name) const;
  std::optional<Set> set_of(const Names& names) const;
  std::optional<Set> launched() const;
  std::optional<Set> asked() const;
  void check_agrees(const Set& set) const;
  void check_flags() const;
  void find_place(Launch* launch, const std::string& launcher) const;
  std::string run_id() const;
  std::optional<int> slurm_local_size() const;

  const LaunchOptions& options_;
  const Environment& environment_;
};

std::optional<int> Finder::number_of(const char* name) const {
  const auto text = name == nullptr ? std::nullopt : environment_(name);
  if (!text) return std::nullopt;
  const auto value = number(*text);
  if (!value) fail(Exit::usage, name, "=", *text, ": expected a number, at least 0");
  return value;
}

std::optional<Set> Finder::set_of(const Names& names) const {
  const auto rank = number_of(names.rank), size = number_of(names.size);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size)
    fail(Exit::usage, rank ? names.size : names.rank, ": not set, but ",
         rank ? names.rank : names.size, " is; ", names.launcher, " sets both");
  if (*rank >= *size)
    fail(Exit::usage, names.rank, "=", *rank, ": expected less than ", names.size, "=", *size);
  const auto local_rank = number_of(names.local_rank), local_size = number_of(names.local_size);
  if (local_size && (*local_size < 1 || *local_size > *size))
    fail(Exit::usage, names.local_size, "=", *local_size, ": expected 1 to ", names.size, "=",
         *size);
  if (local_rank && *local_rank >= local_size.value_or(*size))
    fail(Exit::usage, names.local_rank, "=", *local_rank, ": expected less than ",
         local_size ? names.local_size : names.size, "=", local_size.value_or(*size));
  return Set{names.launcher, *rank, *size, local_rank, local_size};
}

// What the launchers that have started us agree about.
std::optional<Set> Finder::launched() const {
  std::optional<Set> found;
  for (const Names& names : {kTorchrun, kOpenMpi, kMpich}) {
    const std::optional<Set> set = set_of(names);
    if (!set) continue;
    if (found && found->size > 1 && set->size > 1 &&
        (found->rank != set->rank || found->size != set->size))
      fail(Exit::usage, "the environment contradicts itself: ", found->text(), ", ", set->text(),
           "; unset the variables of one");
    if (!found || set->size > found->size) found = set;
  }
  const bool in_step = environment_("SLURM_STEP_NODELIST").has_value();
  // Also the only rank of a supervise(), which is not to start one in its turn.
  const bool supervised = found && environment_("TORCHELASTIC_RESTART_COUNT").has_value();
  if ((found && found->size > 1) || supervised || options_.nnodes || !in_step) return found;
  std::optional<Set> step = set_of(kSlurm);
  if (step) step->local_size = slurm_local_size();
  return step ? step : found;
}

// SLURM_STEP_TASKS_PER_NODE, "4(x2),3", at SLURM_NODEID.
std::optional<int> Finder::slurm_local_size() const {
  std::string list = environment_("SLURM_STEP_TASKS_PER_NODE").value_or("");
  int node = number_of("SLURM_NODEID").value_or(0);
  while (!list.empty()) {
    const std::string item = list.substr(0, list.find(','));
    list.erase(0, item.size() + 1);
    const std::size_t times = item.find("(x");
    const auto tasks = number(item.substr(0, times));
    if (!tasks) break;
    const int nodes = times == std::string::npos ? 1 : std::atoi(item.c_str() + times + 2);
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return std::nullopt;
}

void Finder::check_flags() const {
  const int nodes = options_.nnodes.value_or(1);
  if (options_.node_rank && !options_.nnodes) fail(Exit::usage, "--node-rank: needs --nnodes");
  if (nodes > 1 && !options_.node_rank && options_.runs)
    fail(Exit::usage, "--nnodes ", nodes, ": needs --node-rank, from 0 to ", nodes - 1);
  if (options_.node_rank.value_or(0) >= nodes)
    fail(Exit::usage, "--node-rank ", *options_.node_rank, ": expected less than --nnodes ", nodes);
}

// What the flags ask for.
std::optional<Set> Finder::asked() const {
  check_flags();
  if (!options_.gpus && !options_.nnodes && options_.max_restarts == 0) return std::nullopt;
  const int local = options_.gpus.value_or(1);
  return Set{"the flags", options_.node_rank.value_or(0) * local,
             options_.nnodes.value_or(1) * local, 0, local};
}

// A launcher may have started just the ranks that the flags ask for.
void Finder::check_agrees(const Set& set) const {
  const std::optional<Set> flags = asked();
  const auto disagree = [&](const auto&... parts) {
    fail(Exit::usage, parts..., ": ", set.launcher, " has started rank ", set.rank, " of ",
         set.size, set.local_size ? concat(", ", *set.local_size, " on this host") : "",
         "; leave the flag to it");
  };
  if (options_.gpus && set.local_size.value_or(*options_.gpus) != *options_.gpus)
    disagree("--gpus ", *options_.gpus);
  if (options_.nnodes && flags->size != set.size) disagree("--nnodes ", *options_.nnodes);
  if (options_.node_rank && flags->rank + set.local_rank.value_or(0) != set.rank)
    disagree("--node-rank ", *options_.node_rank);
  const int restarts = number_of("TORCHELASTIC_MAX_RESTARTS").value_or(0);
  if (options_.max_restarts > 0 && options_.max_restarts != restarts)
    disagree("--max-restarts ", options_.max_restarts);
  if (options_.local_rank && set.local_rank && *options_.local_rank != *set.local_rank)
    disagree("--local-rank ", *options_.local_rank);
}

std::string Finder::run_id() const {
  if (const auto id = environment_("TORCHELASTIC_RUN_ID")) return *id;
  if (const auto id = environment_("PMIX_NAMESPACE")) return *id;
  const auto job = environment_("SLURM_JOB_ID");
  return job ? concat("Slurm's ", *job, ".", environment_("SLURM_STEP_ID").value_or("")) : "";
}

// Where rank 0 listens: --master or MASTER_ADDR and MASTER_PORT; for Slurm a place of its own.
void Finder::find_place(Launch* launch, const std::string& launcher) const {
  const auto host = environment_("MASTER_ADDR");
  const auto port = number_of("MASTER_PORT");
  if (!options_.master.empty()) {
    const std::size_t colon = options_.master.rfind(':');
    const auto given = number(colon == std::string::npos ? "" : options_.master.substr(colon + 1));
    if (!given || *given < 1 || *given > kMostPort || colon == 0)
      fail(Exit::usage, "--master ", options_.master, ": expected HOST:PORT");
    launch->host = options_.master.substr(0, colon);
    if (launch->host.front() == '[' && launch->host.back() == ']')  // [::1]:29500
      launch->host = launch->host.substr(1, launch->host.size() - 2);
    launch->port = *given;
  } else if (host && port) {
    if (*port < 1 || *port > kMostPort)
      fail(Exit::usage, "MASTER_PORT=", *port, ": expected 1 to ", kMostPort);
    launch->host = *host;
    // torchrun's agent listens at its port itself.
    const bool taken = environment_("TORCHELASTIC_USE_AGENT_STORE") == "True";
    launch->port = *port + (taken ? *port < kMostPort ? 1 : -1 : 0);
  } else if (launcher == kSlurm.launcher) {
    launch->host = first_slurm_host(*environment_("SLURM_STEP_NODELIST"));
    // The port is one that no outgoing connection is given; jobs and steps that follow each other,
    // which may share a host, have different ones.
    const std::int64_t job = number_of("SLURM_JOB_ID").value_or(0);
    const std::int64_t step = number_of("SLURM_STEP_ID").value_or(0);
    launch->port = static_cast<int>(15000 + (job + 131 * step) % 17000);
  } else if (!launch->must_start || launch->local_size != launch->size) {
    fail(Exit::usage, "rank ", launch->rank, " of ", launch->size, " by ", launcher,
         ": where do the ranks meet? Set --master HOST:PORT, or MASTER_ADDR and MASTER_PORT");
  }
}

Launch Finder::find() const {
  const std::optional<Set> flags = asked(), by_launcher = launched();
  // A step of one task may be where a program is to start its ranks.
  const bool started =
      by_launcher && (by_launcher->size > 1 || !flags ||
                      (flags->size == 1 && by_launcher->launcher != kSlurm.launcher));
  if (started) check_agrees(*by_launcher);
  if (!started && options_.local_rank)
    fail(Exit::usage, "--local-rank ", *options_.local_rank,
         ": needs a launcher, which has started this rank; see --gpus");
  const Set set = started ? *by_launcher : flags.value_or(Set{"", 0, 1, 0, 1});
  Launch launch{
      .rank = set.rank,
      .size = set.size,
      .local_rank = set.local_rank.value_or(options_.local_rank.value_or(0)),
      .local_size = std::max(1, set.local_size.value_or(1)),
      .run_id = run_id(),
      .must_start = !started && (set.local_size.value_or(1) > 1 || options_.max_restarts > 0),
      .attempt = number_of("TORCHELASTIC_RESTART_COUNT").value_or(0),
      .max_restarts = number_of("TORCHELASTIC_MAX_RESTARTS").value_or(0)};
  if (launch.size > 1 && options_.runs) find_place(&launch, set.launcher);
  return launch;
}

}  // namespace

Launch find_launch(const LaunchOptions& options, const Environment& environment) {
  return Finder(options, environment).find();
}

std::string first_slurm_host(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t close = std::min(list.find(']', i), list.size());
    host += list.substr(i + 1, std::min(list.find_first_of(",-", i), close) - i - 1);
    i = close;
  }
  return host;
}

}  // namespace mt
