#include "post/policy/line_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace mt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostOutput = std::size_t{1} << 26;  // bytes

// What is run in front of the program, whose group has nobody left once this process is gone, by
// whichever signal: one of the group waits for the end of a pipe that only this process holds.  It
// is no child of the program's, which may wait for all of its own.
constexpr const char* kWatched =
    "( { read x; kill -KILL 0; } <&3 >/dev/null 2>&1 & ); exec 3<&-; exec /bin/sh -c \"$0\"";

// A program that reads a pipe and writes into another, in a group of processes of its own.
class Child {
 public:
  Child(const std::string& command, const std::string& name) {
    auto [read_in, write_in] = new_pipe(name);
    auto [read_out, write_out] = new_pipe(name);
    auto [read_alive, write_alive] = new_pipe(name);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, read_in.descriptor(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, write_out.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, read_alive.descriptor(), 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::string words[] = {"sh", "-c", kWatched, command};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                               nullptr};
    const int error = posix_spawn(&pid_, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) fail(Exit::out_of_memory, name, ": cannot be started: error ", error);
    in_ = std::move(write_in);
    out_ = std::move(read_out);
    alive_ = std::move(write_alive);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!ended_) reap(nullptr);
  }

  // Gives it all of `input` and takes what it prints until there is no more; false where the time
  // is over before, where it prints too much, or where `stop` says so.
  bool talk(std::string_view input, std::string& output, Clock::time_point end,
            const std::function<bool()>& stop) {
    ::fcntl(in_.descriptor(), F_SETFL, O_NONBLOCK);
    bool writes = true;
    while (output.size() < kMostOutput) {
      pollfd of[] = {{out_.descriptor(), POLLIN, 0}, {writes ? in_.descriptor() : -1, POLLOUT, 0}};
      if (!wait(of, end) || stop()) return false;
      if (of[1].revents != 0) {
        const ssize_t count = ::write(in_.descriptor(), input.data(), input.size());
        if (count > 0) input.remove_prefix(static_cast<std::size_t>(count));
        const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
        writes = later || (count > 0 && !input.empty());
        if (!writes) in_.close();  // it has read all, or reads no more
      }
      if (of[0].revents == 0) continue;
      char piece[1 << 16];
      const ssize_t count = ::read(out_.descriptor(), piece, sizeof piece);
      if (count == 0) return true;
      if (count > 0) output.append(piece, static_cast<std::size_t>(count));
    }
    return false;
  }

  // Its status, once it has ended; false where the time is over before.
  bool ends(int& status, Clock::time_point end) {
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != pid_) {
      if (Clock::now() >= end) return false;
      ::poll(nullptr, 0, 1);
    }
    reap(&status);
    return true;
  }

 private:
  // Kills what is left of its group first, whose number is nobody else's until it is waited for.
  void reap(int* status) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, status, 0);
    ended_ = true;
  }
  static std::pair<File, File> new_pipe(const std::string& name) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail(Exit::out_of_memory, name, ": there can be no more pipes");
    return {File(ends[0], "pipe"), File(ends[1], "pipe")};
  }
  static bool wait(std::span<pollfd> of, Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    ::poll(of.data(), of.size(), static_cast<int>(std::min<std::int64_t>(left, 1000)));
    return true;
  }

  pid_t pid_ = 0;
  File in_{-1, ""}, out_{-1, ""}, alive_{-1, ""};
  bool ended_ = false;
};

}  // namespace

// What a copy of it has printed, and what was wrong with it; empty: nothing.
struct LineProgram::Printed {
  std::string output, wrong;
};

static Clock::duration duration_of(double seconds) {
  constexpr double kForEver = 1e8;  // seconds; a clock counts some more
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kForEver)));
}

LineProgram::Printed LineProgram::run(const std::string& lines,
                                      const std::function<bool()>& ends) const {
  const double seconds = options_.seconds;
  const Clock::time_point end = Clock::now() + duration_of(seconds);
  Printed printed;
  int status = 0;
  {
    Child child(command_, name());
    if (!child.talk(lines, printed.output, end, ends))
      printed.wrong = printed.output.size() >= kMostOutput ? "printed more than 64 MiB"
                      : child.ends(status, {})
                          ? concat("ended, but what it started holds its output for ", "more than ",
                                   seconds, " s")
                          : concat("took more than ", seconds, " s");
    else if (!child.ends(status, end))
      printed.wrong = concat("took more than ", seconds, " s");
  }
  if (WIFSIGNALED(status))
    printed.wrong = concat("died of signal ", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    printed.wrong = concat("exited with ", WEXITSTATUS(status));
  return printed;
}

std::string LineProgram::take_lines(const Printed& printed,
                                    const std::function<std::string(std::string_view line)>& take,
                                    const std::function<bool()>& ends) const {
  constexpr std::int64_t kMostWrong = 1000;  // lines
  std::string wrong = printed.wrong;
  const Clock::time_point end = Clock::now() + duration_of(options_.seconds);
  std::int64_t number = 0, left_wrong = printed.output.size() < kMostOutput ? kMostWrong : 1;
  for (std::string_view left = printed.output; !left.empty() && left_wrong > 0;) {
    if (number % 256 == 255 && (Clock::now() >= end || ends())) {
      if (wrong.empty())
        wrong = concat("printed more than can be read in ", options_.seconds, " s");
      break;
    }
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string of_line = take(line);
    if (of_line.empty()) continue;
    --left_wrong;
    if (wrong.empty()) wrong = concat("printed line ", number, ", which ", of_line);
  }
  return wrong;
}

std::string LineProgram::ask(std::span<const std::string> lines,
                             const std::function<std::string(std::string_view line)>& take,
                             const std::function<bool()>& ends) const {
  const std::size_t copies =
      std::clamp<std::size_t>(lines.size(), 1, static_cast<std::size_t>(options_.jobs));
  std::vector<std::string> parts(copies);
  for (std::size_t i = 0; i < lines.size(); ++i) parts[i * copies / lines.size()] += lines[i];
  std::mutex asking;
  std::atomic<bool> given_up = false;  // one cannot be started, and nobody reads what others print
  const auto one_at_a_time = [&] {
    const std::scoped_lock lock(asking);
    return given_up || ends();
  };
  const auto run_part = [&](std::size_t i) {
    try {
      return run(parts[i], one_at_a_time);
    } catch (...) {
      given_up = true;
      throw;
    }
  };
  std::vector<std::future<Printed>> others;
  std::vector<Printed> printed;
  try {
    for (std::size_t i = 1; i < copies; ++i)
      others.push_back(std::async(std::launch::async, run_part, i));
    printed.push_back(run_part(0));
  } catch (...) {  // a thread cannot be started, too
    given_up = true;
    throw;
  }
  for (std::future<Printed>& one : others) printed.push_back(one.get());
  std::string wrong;
  for (const Printed& one : printed) {
    std::string of_copy = take_lines(one, take, ends);
    if (wrong.empty()) wrong = std::move(of_copy);
  }
  return wrong;
}

}  // namespace mt
