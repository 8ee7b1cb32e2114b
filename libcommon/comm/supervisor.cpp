#include "comm/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/activity.h"
#include "base/file.h"
#include "comm/hosts.h"
#include "comm/socket.h"

namespace mt {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  int rank = 0;
  pid_t pid = -1;
  File output;  // what a rank other than 0 says; no descriptor once it is over
  std::string line = {};
  bool running = true;
  bool killed = false;  // by us
};

// Pointers into texts, as execve() wants them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::string random_id() {
  std::random_device random;
  std::ostringstream id;
  id << std::hex << random() << random();
  return std::move(id).str();
}

// Whether the same command would fail again.
bool comes_again(Exit code) {
  switch (code) {
    case Exit::difference:
    case Exit::usage:
    case Exit::bad_data:
    case Exit::no_input:
    case Exit::out_of_memory:
    case Exit::cannot_create:
    case Exit::stopped:
    case Exit::no_permission:
    case Exit::bad_config:
      return true;
    default:
      return false;
  }
}

class Supervisor {
 public:
  Supervisor(const Launch& launch, const Supervision& supervision, Signals& signals, const Log& log)
      : launch_(launch),
        supervision_(supervision),
        signals_(signals),
        log_(log),
        asked_(log, [this] { state_is_asked_for_ = true; }) {}
  Supervisor(const Supervisor&) = delete;
  ~Supervisor() { kill_all(); }

  // Starts all ranks and returns when they have ended, with the failure that counts.
  std::optional<RankFailure> run(int attempt);

 private:
  std::vector<std::string> environment(int attempt, int local_rank) const;
  void start(int attempt, int local_rank);
  void watch();
  void hear(Child& child);
  void say(const Child& child, const std::string& line) const;
  void bury(Child& child);
  void note(const Child& child, int status);
  void pass_signals_on();
  void kill_all();
  bool any_running() const { return std::ranges::any_of(children_, &Child::running); }

  const Launch& launch_;
  const Supervision& supervision_;
  Signals& signals_;
  const Log& log_;
  Launch place_;  // where the ranks of this attempt meet
  std::vector<Child> children_;
  std::optional<RankFailure> failure_;
  std::string stayed_;  // the ranks that we had to kill
  Clock::time_point deadline_ = Clock::time_point::max();
  bool stopped_ = false;  // by a signal
  std::atomic<bool> state_is_asked_for_ = false;
  Activity asked_;
};

std::vector<std::string> Supervisor::environment(int attempt, int local_rank) const {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");
  variables["RANK"] = std::to_string(launch_.rank + local_rank);
  variables["WORLD_SIZE"] = std::to_string(launch_.size);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["LOCAL_WORLD_SIZE"] = std::to_string(launch_.local_size);
  variables["MASTER_ADDR"] = place_.host;
  variables["MASTER_PORT"] = std::to_string(place_.port);
  if (!place_.run_id.empty()) variables["TORCHELASTIC_RUN_ID"] = place_.run_id;
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(attempt);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(supervision_.max_restarts);
  std::vector<std::string> texts;
  texts.reserve(variables.size());
  for (const auto& [name, value] : variables) texts.push_back(concat(name, "=", value));
  return texts;
}

// In the child, where only what is safe in a signal handler may be called: another thread may have
// held a lock when we forked.
[[noreturn]] void become(char* const* command, char* const* environment, int output, pid_t parent,
                         const std::string& cannot) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // it has died before it was asked for
  sigset_t held;
  ::sigemptyset(&held);
  ::sigaddset(&held, SIGUSR2);  // waits for who answers it (StateRequests)
  ::sigprocmask(SIG_SETMASK, &held, nullptr);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);  // a terminal's is not for many
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
  }
  ::execve(command[0], command, environment);
  const char* const why = ::strerrordesc_np(errno);
  const auto part = [](std::string_view text) {
    return iovec{const_cast<char*>(text.data()), text.size()};
  };
  const iovec line[] = {part(cannot), part(why ? why : "?"), part("\n")};  // others write there too
  [[maybe_unused]] const ssize_t ignored = ::writev(STDERR_FILENO, line, std::size(line));
  ::_exit(static_cast<int>(Exit::no_input));
}

void Supervisor::start(int attempt, int local_rank) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), supervision_.arguments.begin(), supervision_.arguments.end());
  std::vector<std::string> variables = environment(attempt, local_rank);
  const std::vector<char*> arguments = pointers(command), settings = pointers(variables);
  const int rank = launch_.rank + local_rank;
  int ends[2] = {-1, -1};
  if (rank != 0 && ::pipe2(ends, O_CLOEXEC) != 0) fail_errno("pipe", "cannot make", Exit::io_error);
  File output(ends[0], "output"), input(ends[1], "input");
  const std::string cannot = concat(command[0], ": cannot be started: ");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments.data(), settings.data(), input.descriptor(), parent, cannot);
  if (pid < 0) fail_errno(concat("rank ", rank), "cannot start its process", Exit::out_of_memory);
  ::setpgid(pid, pid);  // whoever comes first
  children_.push_back({rank, pid, std::move(output)});
}

void Supervisor::say(const Child& child, const std::string& line) const {
  const bool json = log_.settings().format == Log::Format::json;
  if (line.starts_with("{")) return log_.write_line(line);
  if (json) return log_.for_rank(child.rank).say("output", line);
  log_.write_line(concat("rank ", child.rank, ": ", line));
}

void Supervisor::hear(Child& child) {
  constexpr std::size_t kMostOfLine = 1 << 16;
  std::byte buffer[4096];
  const std::size_t got = child.output.read(buffer);
  child.line += as_text(Bytes(buffer, got));
  for (std::size_t end = 0; (end = child.line.find('\n')) != std::string::npos;) {
    say(child, child.line.substr(0, end));
    child.line.erase(0, end + 1);
  }
  if (child.line.size() > kMostOfLine) say(child, std::exchange(child.line, ""));
  if (got > 0) return;
  if (!child.line.empty()) say(child, child.line);
  child.output = File(-1, "");
}

// What has become of a child that has ended.
void Supervisor::note(const Child& child, int status) {
  RankFailure failure{.rank = child.rank};
  if (WIFSIGNALED(status)) {
    failure.code = static_cast<Exit>(128 + WTERMSIG(status));
    const char* const name = ::sigabbrev_np(WTERMSIG(status));
    failure.how = concat("was killed by SIG", name == nullptr ? "" : name);
  } else if (WEXITSTATUS(status) != 0) {
    failure.code = static_cast<Exit>(WEXITSTATUS(status));
    failure.how = concat("ended with exit code ", WEXITSTATUS(status));
    failure.is_orderly = failure.code == Exit::stopped || WEXITSTATUS(status) > 128;
  }
  const bool all_is_saved = failure.is_orderly && child.rank == 0;
  const bool may_go_on = !all_is_saved && (failure.code == Exit::ok || failure.is_orderly);
  const auto time = may_go_on ? supervision_.after_end : supervision_.after_failure;
  deadline_ = std::min(deadline_, Clock::now() + time);
  if (failure.code == Exit::ok) return;
  const bool told = failure_ && failure_->code == Exit::peer_failed;
  if (!failure_ || (told && failure.code != Exit::peer_failed)) failure_ = failure;
}

void Supervisor::bury(Child& child) {
  int status = 0;
  if (::waitpid(child.pid, &status, WNOHANG) != child.pid) return;
  child.running = false;
  ::kill(-child.pid, SIGKILL);  // what it may have left behind
  if (!child.killed) return note(child, status);
  stayed_ += concat(
      stayed_.empty() ? "; killed, since they did not end by themselves: rank " : ", ", child.rank);
}

void Supervisor::pass_signals_on() {
  const auto pass_on = [&](Signal signal) {
    for (const Child& child : children_)
      if (child.running) ::kill(child.pid, static_cast<int>(signal));
  };
  while (const std::optional<Signal> signal = signals_.poll()) {
    stopped_ = true;
    pass_on(*signal);
  }
  if (state_is_asked_for_.exchange(false)) pass_on(Signal::user2);
}

void Supervisor::kill_all() {
  for (Child& child : children_) {
    if (!child.running) continue;
    child.killed = true;
    ::kill(-child.pid, SIGKILL);
  }
}

void Supervisor::watch() {
  constexpr int kMilliseconds = 50;
  std::vector<pollfd> polled;
  while (any_running()) {
    polled.clear();
    for (const Child& child : children_) polled.push_back({child.output.descriptor(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), kMilliseconds);
    for (std::size_t i = 0; i < children_.size(); ++i)
      if (polled[i].revents != 0) hear(children_[i]);
    for (Child& child : children_)
      if (child.running) bury(child);
    pass_signals_on();
    if (Clock::now() >= deadline_) kill_all();
  }
  for (Child& child : children_) {  // their last words
    pollfd last = {child.output.descriptor(), POLLIN, 0};
    while (::poll(&last, 1, 0) > 0 && last.fd >= 0) {
      hear(child);
      last.fd = child.output.descriptor();
    }
  }
}

std::optional<RankFailure> Supervisor::run(int attempt) {
  children_.clear();
  failure_.reset();
  stayed_.clear();
  deadline_ = Clock::time_point::max();
  place_ = launch_;
  if (place_.port == 0) {  // all ranks are ours
    place_.port = free_port();
    place_.run_id = random_id();
  }
  for (int local_rank = 0; local_rank < launch_.local_size; ++local_rank)
    start(attempt, local_rank);
  watch();
  if (!failure_ && !stayed_.empty())  // an end that others did not come to
    failure_ = RankFailure{.rank = launch_.rank, .code = Exit::peer_failed, .how = "ended"};
  if (!failure_) return std::nullopt;
  failure_->how += stayed_;
  failure_->is_final =
      stopped_ || comes_again(failure_->code) || attempt >= supervision_.max_restarts;
  return failure_;
}

}  // namespace

void supervise(const Launch& launch, const Supervision& supervision, Signals& signals,
               const Log& log) {
  Supervisor supervisor(launch, supervision, signals, log);
  std::optional<Hosts> hosts;
  if (supervision.max_restarts > 0) hosts.emplace(launch, supervision.timeout, signals);
  for (int attempt = 0;; ++attempt) {
    if (hosts) attempt = hosts->begin(attempt);
    std::optional<RankFailure> failure = supervisor.run(attempt);
    if (hosts) failure = hosts->agree(failure);
    if (!failure) return;
    if (failure->is_orderly) throw Error(failure->code, "");
    const std::string line = concat("rank ", failure->rank, " ", failure->how);
    if (failure->is_final) fail(failure->code, line);
    log.warn(concat(line, "; starting all again, restart ", attempt + 1, " of ",
                    supervision.max_restarts));
  }
}

}  // namespace mt
