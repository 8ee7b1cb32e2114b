// A test's body on GPUs of the machine, as ranks of an NCCL group, each a process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

inline void run_gpu_ranks(int ranks, std::chrono::seconds timeout, const GpuRank& body) {
  SCOPED_TRACE(testing::Message() << ranks << " ranks");
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

// With 2, 3 and 4 ranks, as many as there are GPUs; skips the test where there are not two.
inline void run_gpu_ranks(const std::function<void(Group&, Stream&)>& body) {
  const int gpus = count_gpus();
  if (gpus < 2) GTEST_SKIP() << "needs two GPUs";
  for (int ranks = 2; ranks <= std::min(gpus, 4); ++ranks)
    run_gpu_ranks(ranks, std::chrono::seconds(20),
                  [&](Rendezvous&, Group& group, Stream& stream) { body(group, stream); });
}

}  // namespace mt
