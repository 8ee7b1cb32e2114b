// A program of ranks as mt-pretrain is one, for tests of what starts and supervises it.  Each rank
// meets the others and takes steps, a barrier each; after the first step some of them misbehave.
// With --hang the others then say that they wait in an operation of their GPUs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "base/signals.h"
#include "comm/rendezvous.h"
#include "comm/supervisor.h"

namespace mt {
namespace {

// What a rank does after its first step: "2:throw".
void misbehave(const std::string& how) {
  if (how == "throw") fail(Exit::bad_data, "token 99 of shard 7");
  if (how == "break") fail(Exit::io_error, "disk 3");
  if (how == "kill") std::raise(SIGKILL);
  if (how == "stop") std::raise(SIGSTOP);
  if (how == "leave") ::_exit(0);
  if (how == "end") ::_exit(static_cast<int>(Exit::stopped));
}

// Until the run ends: in an operation, in another one, or, "idle", in none.
[[noreturn]] void hang(Rendezvous& ranks, const std::string& how) {
  using Clock = std::chrono::steady_clock;
  const std::string operation = how == "other" ? "all_gather of 64" : "all_reduce of 4096";
  ranks.follow([idle = how == "idle", operation, size = ranks.size(), since = Clock::now()] {
    Rendezvous::Progress progress;
    if (!idle)
      progress.waits = std::chrono::duration_cast<Rendezvous::Milliseconds>(Clock::now() - since);
    progress.latest = concat("operation 7 of its group, ", operation, " float32 among ", size);
    progress.groups = {{"all", idle ? 6U : 7U, concat(operation, " float32 among ", size)}};
    return progress;
  });
  std::string failure;
  while (failure.empty()) failure = ranks.failure(std::chrono::seconds(1));
  fail(Exit::peer_failed, failure);
}

struct Steps {
  int count = 1;
  std::vector<std::string> misbehaviour;
  bool misbehave_always = false, hangs = false;

  std::string misbehaviour_of(const Launch& launch) const;
  void run(const Launch& launch, Rendezvous& ranks, Signals& signals) const;
};

std::string Steps::misbehaviour_of(const Launch& launch) const {
  std::string how;
  for (const std::string& one : misbehaviour)
    if ((launch.attempt == 0 || misbehave_always) && one.starts_with(concat(launch.rank, ":")))
      how = one.substr(one.find(':') + 1);
  return how;
}

void Steps::run(const Launch& launch, Rendezvous& ranks, Signals& signals) const {
  for (int step = 1; step <= count; ++step) {
    const std::byte signal[] = {std::byte{signals.poll().has_value()}};
    for (const auto& of_rank : ranks.all_gather(signal))
      if (of_rank[0] != std::byte{0}) fail(Exit::stopped, "stopped after step ", step);
    if (step > 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    std::cerr << concat("attempt ", launch.attempt, "\n");
    const std::string how = misbehaviour_of(launch);
    misbehave(how);
    if (hangs) hang(ranks, how);
  }
  if (launch.rank == 0) std::cout << "done by " << launch.size << "\n";
}

void run(CommandLine& cl) {
  LaunchOptions options;
  Steps steps;
  int milliseconds = 20000;
  options.add_to(cl);
  cl.option("--steps", &steps.count, "N", "how many");
  cl.option(
      "--misbehaviour", &steps.misbehaviour, "RANK:HOW",
      "throw, break, kill, stop, leave or end; before it meets the others: absent; with --hang: "
      "idle or other");
  cl.flag("--hang", &steps.hangs, "wait in an operation of GPUs after the first step");
  cl.flag("--always", &steps.misbehave_always, "also when it was started again");
  cl.option("--milliseconds", &milliseconds, "N", "timeout");
  cl.parse();
  const Launch launch = find_launch(options);
  Signals signals;
  if (launch.must_start) {
    const Supervision supervision{
        .arguments = cl.arguments(),
        .max_restarts = options.max_restarts,
        .after_failure = std::chrono::milliseconds(std::clamp(milliseconds, 1000, 5000)),
        .timeout = std::chrono::milliseconds(milliseconds)};
    return supervise(launch, supervision, signals, cl.log());
  }
  if (steps.misbehaviour_of(launch) == "absent") std::raise(SIGKILL);
  run_process(launch, Rendezvous::Milliseconds(milliseconds),
              [&](Rendezvous& ranks) { steps.run(launch, ranks, signals); });
}

}  // namespace
}  // namespace mt

int main(int argc, char** argv) { return mt::run_command("ranks", argc, argv, mt::run); }
