// Which rank a process is, from what each launcher sets; what contradicts itself is refused.
#include "comm/launch.h"

#include <gtest/gtest.h>

#include <map>

namespace mt {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables, const LaunchOptions& options = {}) {
  return find_launch(options, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string text_of(const Variables& variables, const LaunchOptions& options = {}) {
  const Launch launch = launch_of(variables, options);
  return concat("rank ", launch.rank, "/", launch.size, " local ", launch.local_rank, "/",
                launch.local_size, " at ", launch.host, ":", launch.port,
                launch.run_id.empty() ? "" : " of " + launch.run_id,
                launch.must_start ? ", must start" : "");
}

std::string usage_of(const Variables& variables, const LaunchOptions& options = {}) {
  try {
    return concat("no error: ", text_of(variables, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage);
    return error.what();
  }
}

Variables with(Variables some, const Variables& more) {
  some.insert(more.begin(), more.end());
  return some;
}

const Variables kMaster = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Variables kTorch = with(
    kMaster, {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}});
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                          {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                          {"SLURM_JOB_ID", "1234567"},
                          {"SLURM_STEP_ID", "0"}};

TEST(Launch, OfEveryLauncher) {
  EXPECT_EQ(text_of({}), "rank 0/1 local 0/1 at localhost:0");
  EXPECT_EQ(text_of(kTorch), "rank 5/8 local 1/4 at node1:29500");
  EXPECT_EQ(text_of(with(kMaster, {{"RANK", "1"}, {"WORLD_SIZE", "2"}})),  // a PyTorchJob
            "rank 1/2 local 0/1 at node1:29500");
  EXPECT_EQ(text_of(with(kMaster, kOpenMpi)), "rank 5/8 local 1/4 at node1:29500");
  EXPECT_EQ(text_of(with(kMaster, {{"PMI_RANK", "5"},
                                   {"PMI_SIZE", "8"},
                                   {"MPI_LOCALRANKID", "1"},
                                   {"MPI_LOCALNRANKS", "4"}})),
            "rank 5/8 local 1/4 at node1:29500");
  EXPECT_EQ(text_of(kSlurm), "rank 5/8 local 1/4 at gpu07:25567 of Slurm's 1234567.0");
  const Variables next_step = {{"SLURM_STEP_ID", "1"}}, next_job = {{"SLURM_JOB_ID", "1234568"}};
  const int port = launch_of(kSlurm).port;
  EXPECT_NE(launch_of(with(next_step, kSlurm)).port, port);
  EXPECT_NE(launch_of(with(next_job, kSlurm)).port, port);
  EXPECT_EQ(text_of(with(kSlurm, kMaster)),
            "rank 5/8 local 1/4 at node1:29500 of Slurm's 1234567.0");
}

// What starts nothing has neither a host nor a place where ranks meet.
TEST(Launch, OfAPlan) {
  EXPECT_EQ(launch_of({}, {.gpus = 8, .nnodes = 2, .runs = false}).size, 16);
  EXPECT_EQ(launch_of({}, {.nnodes = 4, .runs = false}).size, 4);
  EXPECT_EQ(usage_of({}, {.nnodes = 2, .node_rank = 2, .runs = false}),
            "--node-rank 2: expected less than --nnodes 2");
}

TEST(Launch, OfFlags) {
  EXPECT_EQ(text_of({}, {.gpus = 4}), "rank 0/4 local 0/4 at localhost:0, must start");
  EXPECT_EQ(text_of({}, {.gpus = 1}), "rank 0/1 local 0/1 at localhost:0");
  EXPECT_EQ(text_of({}, {.max_restarts = 1}), "rank 0/1 local 0/1 at localhost:0, must start");
  EXPECT_EQ(text_of({}, {.gpus = 2, .nnodes = 3, .node_rank = 1, .master = "h:77"}),
            "rank 2/6 local 0/2 at h:77, must start");
  EXPECT_EQ(text_of({}, {.nnodes = 3, .node_rank = 2, .master = "[::1]:77"}),
            "rank 2/3 local 0/1 at ::1:77");
  EXPECT_EQ(text_of(kOpenMpi, {.master = "h:77"}), "rank 5/8 local 1/4 at h:77");
}

// The flags of a program that has started its ranks, and of one inside a step of Slurm's.
TEST(Launch, OfFlagsWithAnEnvironment) {
  EXPECT_EQ(text_of(kTorch, {.gpus = 4}), "rank 5/8 local 1/4 at node1:29500");
  EXPECT_EQ(text_of(kTorch, {.gpus = 4, .nnodes = 2, .node_rank = 1, .master = "h:77"}),
            "rank 5/8 local 1/4 at h:77");
  Variables one_task = kSlurm;
  one_task["SLURM_NTASKS"] = "1", one_task["SLURM_PROCID"] = one_task["SLURM_LOCALID"] = "0";
  EXPECT_EQ(text_of(one_task, {.gpus = 4}),
            "rank 0/4 local 0/4 at localhost:0 of Slurm's 1234567.0, must start");
  Variables of_two = kSlurm;
  of_two["SLURM_NTASKS"] = "2", of_two["SLURM_PROCID"] = "1";
  EXPECT_EQ(text_of(one_task, {.gpus = 1, .max_restarts = 1}),
            "rank 0/1 local 0/1 at localhost:0 of Slurm's 1234567.0, must start");
  const Variables child = {{"RANK", "0"},
                           {"WORLD_SIZE", "1"},
                           {"TORCHELASTIC_RESTART_COUNT", "0"},
                           {"TORCHELASTIC_MAX_RESTARTS", "1"}};
  EXPECT_EQ(text_of(child, {.max_restarts = 1}), "rank 0/1 local 0/1 at localhost:0");
  EXPECT_EQ(text_of(with(child, one_task), {.gpus = 1, .max_restarts = 1}),
            "rank 0/1 local 0/1 at localhost:0 of Slurm's 1234567.0");
  EXPECT_EQ(text_of(of_two, {.gpus = 4, .nnodes = 2, .node_rank = 1, .master = "h:77"}),
            "rank 4/8 local 0/4 at h:77 of Slurm's 1234567.0, must start");
  EXPECT_EQ(text_of(with(with(kTorch, of_two), {{"TORCHELASTIC_RUN_ID", "mine"}})),
            "rank 5/8 local 1/4 at node1:29500 of mine");
}

TEST(Launch, TorchrunListensAtItsPortItself) {
  const Variables agent = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(launch_of(with(kTorch, agent)).port, 29501);
  EXPECT_EQ(launch_of(with({{"MASTER_PORT", "65535"}}, with(kTorch, agent))).port, 65534);
}

TEST(Launch, WhatContradictsItselfIsRefused) {
  EXPECT_EQ(usage_of({{"RANK", "1"}}), "WORLD_SIZE: not set, but RANK is; torchrun sets both");
  EXPECT_EQ(usage_of({{"PMI_SIZE", "2"}}), "PMI_RANK: not set, but PMI_SIZE is; MPICH sets both");
  EXPECT_EQ(usage_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "RANK=x: expected a number, at least 0");
  EXPECT_EQ(usage_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "RANK=2: expected less than WORLD_SIZE=2");
  EXPECT_EQ(usage_of(with({{"LOCAL_RANK", "4"}}, kTorch)),
            "LOCAL_RANK=4: expected less than LOCAL_WORLD_SIZE=4");
  EXPECT_EQ(usage_of({{"SLURM_PROCID", "1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_LOCALID", "2"},
                      {"SLURM_STEP_NODELIST", "n"}}),
            "SLURM_LOCALID=2: expected less than SLURM_NTASKS=2");
  for (const char* size : {"0", "9"})
    EXPECT_EQ(usage_of(with({{"LOCAL_WORLD_SIZE", size}}, kTorch)),
              concat("LOCAL_WORLD_SIZE=", size, ": expected 1 to WORLD_SIZE=8"));
  EXPECT_EQ(usage_of(with({{"RANK", "2"}}, with(kTorch, kOpenMpi))),
            "the environment contradicts itself: torchrun (rank 2 of 8), Open MPI (rank 5 of 8); "
            "unset the variables of one");
  EXPECT_EQ(usage_of(kTorch, {.gpus = 8}),
            "--gpus 8: torchrun has started rank 5 of 8, 4 on this host; leave the flag to it");
  EXPECT_EQ(usage_of(kTorch, {.gpus = 4, .nnodes = 3, .node_rank = 1}),
            "--nnodes 3: torchrun has started rank 5 of 8, 4 on this host; leave the flag to it");
  EXPECT_EQ(usage_of(kTorch, {.gpus = 4, .nnodes = 2, .node_rank = 0}),
            "--node-rank 0: torchrun has started rank 5 of 8, 4 on this host; leave the flag to "
            "it");
  EXPECT_EQ(usage_of(kTorch, {.max_restarts = 2}),
            "--max-restarts 2: torchrun has started rank 5 of 8, 4 on this host; leave the flag to "
            "it");
  EXPECT_EQ(usage_of(kTorch, {.local_rank = 2}),
            "--local-rank 2: torchrun has started rank 5 of 8, 4 on this host; leave the flag to "
            "it");
}

TEST(Launch, WhatIsMissingIsNamed) {
  EXPECT_EQ(usage_of(kOpenMpi),
            "rank 5 of 8 by Open MPI: where do the ranks meet? Set --master HOST:PORT, or "
            "MASTER_ADDR and MASTER_PORT");
  EXPECT_EQ(usage_of({}, {.gpus = 2, .nnodes = 2, .node_rank = 0}),
            "rank 0 of 4 by the flags: where do the ranks meet? Set --master HOST:PORT, or "
            "MASTER_ADDR and MASTER_PORT");
  EXPECT_EQ(usage_of({}, {.nnodes = 2}), "--nnodes 2: needs --node-rank, from 0 to 1");
  EXPECT_EQ(usage_of({}, {.node_rank = 1}), "--node-rank: needs --nnodes");
  EXPECT_EQ(usage_of({}, {.local_rank = 1}),
            "--local-rank 1: needs a launcher, which has started this rank; see --gpus");
  EXPECT_EQ(usage_of({}, {.nnodes = 2, .node_rank = 2}),
            "--node-rank 2: expected less than --nnodes 2");
  for (const char* port : {"0", "65536"})
    EXPECT_EQ(usage_of(with({{"MASTER_PORT", port}}, kTorch)),
              concat("MASTER_PORT=", port, ": expected 1 to 65535"));
  for (const char* master : {"host", "host:", "host:0", "host:65536", ":5", "host:5x"})
    EXPECT_EQ(usage_of({}, {.nnodes = 2, .node_rank = 0, .master = master}),
              concat("--master ", master, ": expected HOST:PORT"));
}

TEST(Launch, GpuOfARank) {
  const Launch launch{.rank = 6, .size = 8, .local_rank = 2, .local_size = 4};
  EXPECT_EQ(launch.gpu(4), 2);
  EXPECT_EQ(launch.gpu(1), 0);
  EXPECT_THROW(launch.gpu(2), Error);
}

TEST(Launch, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_slurm_host("gpu5"), "gpu5");
  EXPECT_EQ(first_slurm_host("gpu5,gpu7"), "gpu5");
  EXPECT_EQ(first_slurm_host("node[01-04,07],gpu5"), "node01");
  EXPECT_EQ(first_slurm_host("node[7,9-12]"), "node7");
  EXPECT_EQ(first_slurm_host("rack[1-2]n[03-04]x"), "rack1n03x");
  EXPECT_EQ(first_slurm_host("odd[12"), "odd12");
}

}  // namespace
}  // namespace mt
