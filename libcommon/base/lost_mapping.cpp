// The line and the exit code of a program that reads a mapped byte which cannot be had any more.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace mt {
namespace {

// A text of bounded length: a signal handler must not allocate.
struct Line {
  char bytes[PATH_MAX + 256];
  std::size_t size = 0;
  void add(std::string_view text) {
    const std::size_t count = std::min(text.size(), sizeof bytes - size);
    std::memcpy(bytes + size, text.data(), count);
    size += count;
  }
  std::string_view text() const { return {bytes, size}; }
};

// The path in a line of /proc/PID/maps, "55d0-55e0 r--p 00000000 fe:01 1234   /data/x.bin", if the
// line's addresses hold `address`; else nothing.
std::string_view path_of(std::string_view line, std::uintptr_t address) {
  std::uintptr_t begin = 0, end = 0;
  const char* const stop = line.data() + line.size();
  const char* const dash = std::from_chars(line.data(), stop, begin, 16).ptr;
  if (dash == stop || std::from_chars(dash + 1, stop, end, 16).ec != std::errc()) return {};
  const std::size_t slash = line.find('/');
  return begin <= address && address < end && slash != line.npos ? line.substr(slash) : "";
}

// Appends the path of the file that is mapped at `address`; nothing if there is none.
void add_mapped_path(std::uintptr_t address, Line& to) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char block[1024];
  Line line;
  for (ssize_t count; (count = ::read(maps, block, sizeof block)) > 0;) {
    for (const char c : std::string_view(block, static_cast<std::size_t>(count))) {
      if (c != '\n') {
        line.add({&c, 1});
        continue;
      }
      to.add(path_of(line.text(), address));
      line.size = 0;
    }
  }
  ::close(maps);
}

// All that is called here is async-signal-safe.
void on_bus_error(int number, siginfo_t* info, void*) {
  static std::atomic_flag told;
  Line path, line;
  if (info->si_code == BUS_ADRERR)
    add_mapped_path(reinterpret_cast<std::uintptr_t>(info->si_addr), path);
  if (path.size == 0) {  // our bug, or sent by somebody
    ::signal(number, SIG_DFL);
    ::raise(number);
    return;
  }
  while (told.test_and_set()) ::pause();  // another thread found it too and is ending us
  line.add(program_invocation_short_name);
  line.add(": ");
  line.add(path.text());
  line.add(": cannot read: cut off while in use, or the disk failed\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.bytes, line.size);
  ::_exit(static_cast<int>(Exit::io_error));
}

}  // namespace

void report_lost_mappings() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace mt
