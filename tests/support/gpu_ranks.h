// A test's body on every GPU of the machine, as ranks of an NCCL group, each a process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "comm/nccl_group.h"
#include "comm/socket.h"

namespace mt {

// A process that used CUDA has no use of it in its children: one of those counts.
inline int count_gpus() {
  const pid_t child = fork();
  if (child == 0) _exit(device::count());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

using GpuRank = std::function<void(Rendezvous&, Group&, Stream&)>;

inline void run_gpu_rank(const Launch& launch, std::chrono::seconds timeout, const GpuRank& body) {
  try {
    device::use(launch.local_rank);
    Stream stream(Device::cuda);
    Rendezvous ranks(launch, timeout);
    const auto group = make_nccl_group(ranks, stream);
    body(ranks, *group, stream);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << launch.rank << ": " << error.what();
  }
}

// Skips the test where there are not two GPUs.
inline void run_gpu_ranks(std::chrono::seconds timeout, const GpuRank& body) {
  const int ranks = count_gpus();
  if (ranks < 2) GTEST_SKIP() << "needs two GPUs";
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    run_gpu_rank({.rank = rank,
                  .size = ranks,
                  .local_rank = rank,
                  .local_size = ranks,
                  .port = port,
                  .run_id = "test"},
                 timeout, body);
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[static_cast<std::size_t>(rank)], &status, 0);
    EXPECT_EQ(status, 0) << "process of rank " << rank;
  }
}

inline void run_gpu_ranks(const std::function<void(Group&, Stream&)>& body) {
  run_gpu_ranks(std::chrono::seconds(20),
                [&](Rendezvous&, Group& group, Stream& stream) { body(group, stream); });
}

}  // namespace mt
