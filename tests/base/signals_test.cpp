// Signals are sent to a child process of its own, since what they do is to end a process.
#include "base/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

namespace mt {

// The child's exit code, or 128 plus the signal that ended it.
static int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Signals, ArePolledOnce) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              if (signals.poll()) return 1;
              for (const Signal one : {Signal::terminate, Signal::hangup, Signal::user1}) {
                ::kill(::getpid(), static_cast<int>(one));
                if (signals.poll() != one) return 2;
                if (signals.poll()) return 3;
              }
              return 0;
            }),
            0);
}

TEST(Signals, SecondInterruptEndsTheProgram) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              ::kill(::getpid(), SIGINT);
              if (signals.poll() != Signal::interrupt) return 1;
              ::kill(::getpid(), SIGINT);
              return 2;
            }),
            128 + SIGINT);
}

TEST(Signals, InterruptsBeforeThePollAreOne) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              ::kill(::getpid(), SIGINT);
              ::kill(::getpid(), SIGINT);
              if (signals.poll() != Signal::interrupt) return 1;
              return signals.poll() ? 2 : 0;
            }),
            0);
}

TEST(Signals, TerminateMayComeTwice) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              for (int i = 0; i < 2; ++i) {
                ::kill(::getpid(), SIGTERM);
                if (signals.poll() != Signal::terminate) return 1;
              }
              return 0;
            }),
            0);
}

// A thread that was there before holds nothing back, and the kernel may choose it.
TEST(Signals, OlderThreadsDoNotLoseThem) {
  EXPECT_EQ(in_child([] {
              std::thread([] { ::pause(); }).detach();
              std::thread([] { ::pause(); }).detach();
              Signals signals;
              for (int i = 0; i < 3; ++i)
                for (const Signal one : {Signal::terminate, Signal::hangup, Signal::user1}) {
                  ::kill(::getpid(), static_cast<int>(one));
                  std::optional<Signal> got;
                  for (int wait = 0; wait < 1000 && !got; ++wait) {
                    got = signals.poll();
                    ::usleep(1000);
                  }
                  if (got != one) return 1;
                  if (signals.poll()) return 2;
                }
              return 0;
            }),
            0);
}

TEST(Signals, SecondInterruptEndsTheProgramWithOlderThreads) {
  EXPECT_EQ(in_child([] {
              std::thread([] { ::pause(); }).detach();
              Signals signals;
              ::kill(::getpid(), SIGINT);
              std::optional<Signal> got;
              while (!(got = signals.poll())) ::usleep(1000);
              if (got != Signal::interrupt) return 1;
              ::kill(::getpid(), SIGINT);
              ::sleep(5);
              return 2;
            }),
            128 + SIGINT);
}

TEST(Signals, DoNotChangeTheExitCodeOfWhoIsDone) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    EXPECT_EQ(in_child([number] {
                {
                  Signals signals;
                  ::kill(::getpid(), number);  // never polled
                }
                ::kill(::getpid(), number);
                return 75;
              }),
              75);
}

TEST(Signals, EndTheProgramIfItSays) {
  for (const Signal signal : {Signal::interrupt, Signal::terminate, Signal::pipe})
    EXPECT_EQ(in_child([signal] {
                Signals signals;
                ::signal(SIGPIPE, SIG_IGN);
                end_by(signal);
                return 0;
              }),
              128 + static_cast<int>(signal));
}

TEST(Signals, IgnoredOnesStayIgnored) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    EXPECT_EQ(in_child([number] {
                ::signal(number, SIG_IGN);
                Signals signals;
                ::kill(::getpid(), number);
                return signals.poll() ? 1 : 0;
              }),
              0);
}

TEST(Signals, AreAnsweredAtOnceAndPolledOnce) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              std::atomic<int> answers = 0;
              signals.answer([&](Signal signal) { answers += signal == Signal::terminate; });
              ::kill(::getpid(), SIGTERM);
              while (answers == 0) ::usleep(1000);
              std::optional<Signal> got;
              while (!(got = signals.poll())) ::usleep(1000);
              signals.answer({});
              ::kill(::getpid(), SIGHUP);
              while (!(got = signals.poll())) ::usleep(1000);
              return answers == 1 && got == Signal::hangup && !signals.poll() ? 0 : 1;
            }),
            0);
}

TEST(Signals, SecondInterruptEndsTheProgramWhereNobodyPolls) {
  EXPECT_EQ(in_child([] {
              Signals signals;
              std::atomic<bool> told = false;
              signals.answer([&](Signal) { told = true; });
              ::kill(::getpid(), SIGINT);
              while (!told) ::usleep(1000);
              ::kill(::getpid(), SIGINT);
              ::sleep(5);
              return 2;
            }),
            128 + SIGINT);
}

TEST(StateRequests, AreAnsweredAndEndNothing) {
  EXPECT_EQ(in_child([] {
              std::atomic<int> told = 0;
              {
                const StateRequests requests([&] { ++told; });
                ::kill(::getpid(), SIGUSR2);
                while (told == 0) ::usleep(1000);
              }
              ::kill(::getpid(), SIGUSR2);  // nobody is there to answer
              return told == 1 ? 0 : 1;
            }),
            0);
}

TEST(StateRequests, IgnoredOnesStayIgnored) {
  EXPECT_EQ(in_child([] {
              ::signal(SIGUSR2, SIG_IGN);
              std::atomic<int> told = 0;
              {
                const StateRequests requests([&] { ++told; });
                ::kill(::getpid(), SIGUSR2);
                ::usleep(20000);
              }
              return told.load();
            }),
            0);
}

TEST(Signals, HaveNames) {
  EXPECT_STREQ(signal_name(Signal::user1), "SIGUSR1");
  EXPECT_STREQ(signal_name(Signal::interrupt), "SIGINT");
}

}  // namespace mt
