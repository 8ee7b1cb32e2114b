#include "base/temporary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace mt {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp.";
constexpr pid_t kMostProcesses = 1
                                 << 22;  // Linux gives no larger number: a date, 20261126, is none

std::string temporary_name(const std::string& path) { return concat(path, kTemporary, ::getpid()); }

std::string temporary_name_of_thread(const std::string& path) {
  const pid_t thread = ::gettid();
  return temporary_name(path) + (thread == ::getpid() ? "" : concat(".", thread));
}

Temporary parse_temporary(const std::string& filename) {
  const std::size_t at = filename.rfind(kTemporary);
  if (at == std::string::npos) return {};
  const char* const end = filename.data() + filename.size();
  Temporary found{.stem = filename.substr(0, at)};
  std::from_chars_result read =
      std::from_chars(filename.data() + at + kTemporary.size(), end, found.writer);
  int number = 0;
  while (read.ec == std::errc() && read.ptr != end && *read.ptr == '.')
    read = std::from_chars(read.ptr + 1, end, number);
  if (read.ec != std::errc() || read.ptr != end || found.writer < 0 ||
      found.writer > kMostProcesses)
    found.writer = 0;
  return found;
}

// One that has ended may keep its number until its parent looks, which some never do.
static bool has_ended(pid_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_ends = stat.rfind(") ");
  return name_ends != std::string::npos &&
         (stat[name_ends + 2] == 'Z' || stat[name_ends + 2] == 'X');
}

static bool is_running(pid_t pid) {
  return (::kill(pid, 0) == 0 || errno != ESRCH) && !has_ended(pid);
}

bool is_locked(const std::string& path, pid_t writer) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return is_running(writer);
  const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  const bool unknown = locked && errno != EWOULDBLOCK;
  ::close(descriptor);
  return unknown ? is_running(writer) : locked;
}

void sweep_temporaries(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  std::error_code error;
  for (fs::directory_iterator entry(parent_directory(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const Temporary found = parse_temporary(entry->path().filename().string());
    if (found.writer == 0 || found.stem != name) continue;
    std::error_code none;
    if (!fs::is_regular_file(entry->symlink_status(none)) || is_running(found.writer) ||
        is_locked(entry->path().string(), found.writer))
      continue;
    fs::remove(entry->path(), none);
  }
}

}  // namespace mt
