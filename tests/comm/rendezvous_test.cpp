// Ranks that meet over the loopback, as threads and as processes; each way in which one can be
// missing, disagree or end is named on all others.
#include "comm/rendezvous.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "comm/socket.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

using Milliseconds = Rendezvous::Milliseconds;
constexpr Milliseconds kTimeout(20000);

// Of tests that run one after another, each has a port of its own.
Launch launch_of(int rank, int size, int port) {
  return {.rank = rank, .size = size, .host = "localhost", .port = port, .run_id = "test"};
}

// Bodies of ranks as threads; what each ended with: "", or code and text.
std::vector<std::string> outcomes(const std::vector<std::function<void()>>& ranks) {
  std::vector<std::string> texts(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        ranks[i]();
      } catch (const Error& error) {
        texts[i] = concat(static_cast<int>(error.code()), " ", error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return texts;
}

std::vector<std::string> outcomes(int size, Milliseconds timeout,
                                  const std::function<void(Rendezvous&)>& body) {
  const int port = free_port();
  std::vector<std::function<void()>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([=] { run_process(launch_of(rank, size, port), timeout, body); });
  return outcomes(ranks);
}

void expect_all(const std::vector<std::string>& texts, const std::string& pattern) {
  for (const std::string& text : texts) EXPECT_TRUE(matches(text, pattern)) << text;
}

// Of ranks that wait until a timeout, which a busy machine's processes may need longer than a short
// one to come to: with one of some, all say what they should; in the pattern TIME is the timeout.
void expect_all_in_time(const std::function<std::vector<std::string>(Milliseconds)>& run,
                        const std::string& pattern) {
  for (const int milliseconds : {800, 3200, 12800}) {
    std::string in_time = pattern;
    const std::string time = concat(milliseconds / 1000.0, " s");
    for (std::size_t at = 0; (at = in_time.find("TIME")) != std::string::npos;)
      in_time.replace(at, 4, time);
    const std::vector<std::string> texts = run(Milliseconds(milliseconds));
    const auto fits = [&](const std::string& text) { return matches(text, in_time); };
    if (std::ranges::all_of(texts, fits)) return;
    if (milliseconds == 12800) expect_all(texts, in_time);
  }
}

std::string text_of(const std::vector<std::byte>& bytes) { return std::string(as_text(bytes)); }

TEST(Rendezvous, BroadcastsAndGathers) {
  expect_all(
      outcomes(4, kTimeout,
               [](Rendezvous& ranks) {
                 const std::string own = std::to_string(ranks.rank());
                 for (int root = 0; root < 4; ++root)
                   EXPECT_EQ(text_of(ranks.broadcast(as_bytes(own), root)), std::to_string(root));
                 ranks.barrier();
                 const std::string long_one(100000, static_cast<char>('a' + ranks.rank()));
                 const auto all = ranks.all_gather(as_bytes(long_one));
                 ASSERT_EQ(all.size(), 4U);
                 for (std::size_t i = 0; i < 4; ++i)
                   EXPECT_EQ(text_of(all[i]), std::string(100000, static_cast<char>('a' + i)));
                 EXPECT_EQ(ranks.failure(), "");
               }),
      "");
}

TEST(Rendezvous, OneRankMeetsNobody) {
  run_process({}, kTimeout, [](Rendezvous& ranks) {
    EXPECT_EQ(text_of(ranks.broadcast(as_bytes("x"))), "x");
    EXPECT_EQ(ranks.all_gather(as_bytes("y")).size(), 1U);
    ranks.barrier();
  });
}

TEST(Rendezvous, WhoIsMissingIsNamedOnAll) {
  const auto meet = [](const std::vector<int>& numbers) {
    return [=](Milliseconds timeout) {
      const int port = free_port();
      std::vector<std::function<void()>> ranks;
      for (const int number : numbers)
        ranks.emplace_back([=] { Rendezvous(launch_of(number, 4, port), timeout); });
      return outcomes(ranks);
    };
  };
  expect_all_in_time(meet({0, 2}),
                     "76 ranks 1, 3 of 4 did not come to rank 0 \\(.+\\) at localhost:[0-9]+ in "
                     "TIME; are they started, and can they reach it\\?");
  expect_all_in_time(meet({1}),
                     "76 rank 1 \\(.+\\): no rank 0 at localhost:[0-9]+ in TIME: Connection "
                     "refused; is it started, and can this host reach it\\?");
}

TEST(Rendezvous, WhoDisagreesIsNamedOnAll) {
  const auto together = [](const std::vector<Launch>& launches) {
    const int port = free_port();
    std::vector<std::function<void()>> ranks;
    for (Launch launch : launches)
      ranks.emplace_back([=]() mutable {
        launch.host = "localhost", launch.port = port;
        Rendezvous(launch, kTimeout);
      });
    return outcomes(ranks);
  };
  expect_all(together({{.rank = 0, .size = 2}, {.rank = 1, .size = 4}}),
             "76 rank 1 \\(.+\\) was started as one of 4 ranks, rank 0 \\(.+\\) as one of 2; give "
             "all the same number");
  expect_all(together({{.rank = 0, .size = 3}, {.rank = 1, .size = 3}, {.rank = 1, .size = 3}}),
             "76 rank 1 \\(.+\\) came when rank 1 \\(.+\\) was there; give each rank its own "
             "number");
  expect_all(together({{.rank = 0, .size = 2}, {.rank = 2, .size = 2}}),
             "76 rank 2 \\(.+\\) is none of ranks 1 to 1");
}

TEST(Rendezvous, StrangersAreTurnedAway) {
  const int port = free_port();
  std::string answer;
  const auto texts =
      outcomes({[&] { Rendezvous(launch_of(0, 2, port), kTimeout).barrier(); },
                [&] {
                  const auto speak = [&](std::string words) {
                    std::string why;
                    Socket socket;
                    while (!socket) socket = connect_to("localhost", port, 1000, &why);
                    socket.send(words);
                    while (socket.receive(answer)) socket.wait(1 /* POLLIN */, 100);
                  };
                  speak("GET / HTTP/1.1\r\n\r\n");
                  speak(std::string(8, '\xFF'));
                  speak(std::string("1met\x01\x10\0\0", 8) + std::string(4 << 20, 'x'));
                  Launch other = launch_of(1, 2, port);
                  other.run_id = "another";
                  try {
                    Rendezvous stranger(other, kTimeout);
                  } catch (const Error& error) {
                    answer = error.what();
                  }
                  Rendezvous(launch_of(1, 2, port), kTimeout).barrier();
                }});
  expect_all(texts, "");
  EXPECT_TRUE(matches(answer,
                      "rank 0 \\(.+\\) at localhost:[0-9]+ turns this rank away: its run is "
                      "another, not test; two runs need two ports"))
      << answer;
}

TEST(Rendezvous, WhoThrowsIsNamedOnAll) {
  for (const int thrower : {0, 2}) {
    const auto texts = outcomes(3, kTimeout, [=](Rendezvous& ranks) {
      ranks.barrier();
      if (ranks.rank() == thrower) fail(Exit::bad_data, "token 99 of shard 7");
      EXPECT_TRUE(matches(ranks.failure(kTimeout), "rank . \\(.+\\): token 99 of shard 7"));
      for (;;) ranks.barrier();
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& text = texts[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(matches(
          text, rank == thrower ? "65 token 99 of shard 7"
                                : concat("76 rank ", thrower, " \\(.+\\): token 99 of shard 7")))
          << text;
    }
  }
}

TEST(Rendezvous, WhoDoesNotComeIsNamedOnAll) {
  for (const int absent : {0, 2})
    expect_all_in_time(
        [=](Milliseconds timeout) {
          return outcomes(3, timeout, [=](Rendezvous& ranks) {
            ranks.barrier();
            if (ranks.rank() == absent) ranks.failure(kTimeout);
            ranks.barrier();
          });
        },
        concat("76 rank ", absent, " \\(.+\\) did not come to an all_gather in TIME"));
}

TEST(Rendezvous, WhoHasEndedIsNamedWhereOthersWait) {
  const auto texts = outcomes(3, kTimeout, [](Rendezvous& ranks) {
    if (ranks.rank() != 1) ranks.barrier();
  });
  EXPECT_EQ(texts[1], "");
  for (const int rank : {0, 2})
    EXPECT_TRUE(matches(texts[static_cast<std::size_t>(rank)],
                        "76 rank 1 \\(.+\\) has ended while others wait for it in an all_gather"));
}

TEST(Rendezvous, RanksThatDoDifferentThingsAreNamed) {
  const auto texts = outcomes(2, kTimeout, [](Rendezvous& ranks) {
    if (ranks.rank() == 0) ranks.broadcast({}, 1);
    ranks.barrier();
  });
  expect_all(texts,
             "76 rank 1 \\(.+\\) is in an all_gather while rank 0 \\(.+\\) is in a broadcast");
}

TEST(Rendezvous, TwoRanksOfOneGpuAreRefused) {
  expect_all(outcomes(3, kTimeout,
                      [](Rendezvous& ranks) {
                        check_own_gpus(ranks, as_bytes(std::to_string(ranks.rank())));
                      }),
             "");
  expect_all(
      outcomes(3, kTimeout,
               [](Rendezvous& ranks) {
                 check_own_gpus(ranks, as_bytes(ranks.rank() == 1 ? "a" : "b"));
               }),
      "(69|76 rank . \\(.+\\):) ranks 0 and 2 have the same GPU: show each process all of its "
      "host's, or only its own");
}

// At a run's end nobody is waited for until the timeout.
TEST(Rendezvous, WaitsGetShorter) {
  expect_all(outcomes(3, kTimeout,
                      [](Rendezvous& ranks) {
                        ranks.barrier();
                        ranks.wait_at_most(Milliseconds(800));
                        if (ranks.rank() == 1) ranks.failure(kTimeout);
                        ranks.barrier();
                      }),
             "76 rank 1 \\(.+\\) did not come to an all_gather in 0.8 s");
}

// What ends the waiting before the timeout says who is waited for, as far as a rank knows.
TEST(Rendezvous, WaitsThatAreEndedAreNamed) {
  const auto texts = outcomes(3, kTimeout, [](Rendezvous& ranks) {
    const bool idle = ranks.rank() == 1;
    ranks.follow([=] {
      Rendezvous::Progress progress;
      const std::string last = "all_reduce of 64 float32 among 3";
      progress.groups = {{"all", idle ? 6U : 7U, last}};
      progress.latest = "operation 7 of its group, " + last;
      if (!idle) progress.waits = std::chrono::seconds(9);
      return progress;
    });
    ranks.failure(kTimeout / 4);  // by then all have heard of all
    if (ranks.rank() == 0) ranks.end_waiting("SIGTERM came 20 s ago", Exit::stopped);
    ranks.barrier();
  });
  expect_all(texts,
             "76 SIGTERM came 20 s ago: rank 1 \\(.+\\) did not come to operation 7 of its group, "
             "all_reduce of 64 float32 among 3, in 9 s");
}

// Nobody is said to have waited who is patient.
TEST(Rendezvous, WhoIsPatientMayWaitForLong) {
  for (const bool patient : {false, true}) {
    const auto texts = outcomes(2, kTimeout, [=](Rendezvous& ranks) {
      ranks.follow([] {
        return Rendezvous::Progress{.waits = std::chrono::seconds(9),
                                    .latest = "operation 7 of its group, all_reduce among 2",
                                    .groups = {}};
      });
      const Rendezvous::Patience nobodys(nullptr), own(patient ? &ranks : nullptr);
      ranks.failure(kTimeout / 4);  // by then all have heard of all
      if (ranks.rank() == 0) ranks.end_waiting("SIGTERM came 20 s ago", Exit::stopped);
      ranks.barrier();
    });
    expect_all(texts, concat("76 SIGTERM came 20 s ago",
                             patient ? ""
                                     : ": rank . \\(.+\\) has waited for its GPU for 9 s since it "
                                       "has begun operation 7 of its group, all_reduce among 2, "
                                       "and all ranks have come to what it is in"));
  }
}

// Whoever hangs after a failure is ended from outside, with the code that its own error has.
TEST(Rendezvous, WhoHangsAfterAFailureIsCalledAway) {
  std::atomic<int> codes = 0;
  std::array<std::promise<void>, 2> calls;
  outcomes(2, kTimeout, [&](Rendezvous& ranks) {
    std::promise<void>& called = calls[static_cast<std::size_t>(ranks.rank())];
    ranks.if_stuck([&](const std::string& line, Exit code) {
      EXPECT_TRUE(matches(line, "rank 1 \\(.+\\): disk 3"));
      codes += static_cast<int>(code);
      called.set_value();
    });
    if (ranks.rank() == 1) ranks.abort("disk 3", Exit::io_error);
    called.get_future().wait();
  });
  EXPECT_EQ(codes, 74 + 76);
}

// Whoever has no memory left may hang in giving back what it has; its code says that the same comes
// again, and no supervisor starts it anew.
TEST(Rendezvous, WhoHasNoMemoryLeftEndsWithItsCode) {
  std::atomic<int> codes = 0;
  std::array<std::promise<void>, 2> calls;
  outcomes(2, kTimeout, [&](Rendezvous& ranks) {
    std::promise<void>& called = calls[static_cast<std::size_t>(ranks.rank())];
    ranks.if_stuck([&](const std::string& line, Exit code) {
      EXPECT_TRUE(matches(line, "rank 1 \\(.+\\): out of memory"));
      codes += static_cast<int>(code);
      called.set_value();
    });
    try {
      tell_failures(ranks, [&] {
        if (ranks.rank() == 1) throw std::bad_alloc();
      });
    } catch (const std::bad_alloc&) {
    }
    called.get_future().wait();
  });
  EXPECT_EQ(codes, 71 + 76);
}

// A signal that ends the run with all saved ends it so on every rank; one of them speaks of it.
TEST(Rendezvous, AnOrderlyEndIsNoFailure) {
  const auto texts = outcomes(3, kTimeout, [](Rendezvous& ranks) {
    ranks.barrier();
    fail(Exit::stopped, "stopped by SIGTERM");
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"75 stopped by SIGTERM", "75 ", "75 "}));
}

// Runs each rank in a process of its own; `from_outside` then acts on one of them.  What rank 0
// ended with, to which a process that is gone adds nothing.
std::string first_of_processes(int size, Milliseconds timeout,
                               const std::function<void(const std::vector<pid_t>&)>& from_outside) {
  const int port = free_port();
  std::vector<pid_t> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.push_back(::fork());
    if (ranks.back() != 0) continue;
    outcomes({[=] {
      Rendezvous process(launch_of(rank, size, port), timeout);
      process.barrier();
      for (;;) process.barrier();
    }});
    ::_exit(0);
  }
  const auto texts = outcomes({[=] {
    Rendezvous process(launch_of(0, size, port), timeout);
    process.barrier();
    from_outside(ranks);
    for (;;) process.barrier();
  }});
  for (const pid_t rank : ranks) {
    ::kill(rank, SIGKILL);
    ::waitpid(rank, nullptr, 0);
  }
  return texts[0];
}

TEST(Rendezvous, AProcessThatIsKilledIsNamed) {
  const std::string text = first_of_processes(
      3, kTimeout, [](const std::vector<pid_t>& ranks) { ::kill(ranks[1], SIGKILL); });
  EXPECT_TRUE(matches(text, "76 rank 2 \\(.+\\) is gone: its connection was lost")) << text;
}

TEST(Rendezvous, AProcessThatIsStoppedIsNamed) {
  expect_all_in_time(
      [](Milliseconds timeout) {
        return std::vector{first_of_processes(
            3, timeout, [](const std::vector<pid_t>& ranks) { ::kill(ranks[0], SIGSTOP); })};
      },
      "76 rank 1 \\(.+\\) (did not come to an all_gather in TIME|has said nothing for TIME: its "
      "process is stopped, or its host cannot be reached)");
}

}  // namespace
}  // namespace mt
