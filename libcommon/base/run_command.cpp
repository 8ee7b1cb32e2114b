// run_command: the one place where exceptions become exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>

#include "base/command.h"
#include "base/file.h"
#include "base/print.h"
#include "base/signals.h"

namespace mt {

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      line += "\\x";
      line += "0123456789abcdef"[byte >> 4];
      line += "0123456789abcdef"[byte & 15];
    } else {
      line += c;
    }
  }
  return line;
}

static Exit code_of(const std::error_code& error) {
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
      error == std::errc::filename_too_long || error == std::errc::too_many_symbolic_link_levels)
    return Exit::no_input;
  if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted)
    return Exit::no_permission;
  if (error == std::errc::not_enough_memory) return Exit::out_of_memory;
  return Exit::io_error;
}

// A file opened while 0, 1 or 2 is closed would take its place and be mistaken for it.  What stands
// there instead can be opened but neither read nor written, so that using it is an error.
static void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// std::cout's way to C's stdout, which throws when a write fails, while errno says why; std::cout
// alone would drop all that follows and say at the end that something failed.
class CheckedStdout : public std::streambuf {
 public:
  CheckedStdout() : unchecked_(std::cout.rdbuf(this)) { std::cout.exceptions(std::ios::badbit); }
  CheckedStdout(const CheckedStdout&) = delete;
  CheckedStdout& operator=(const CheckedStdout&) = delete;
  ~CheckedStdout() override {
    std::cout.exceptions(std::ios::goodbit);
    std::cout.rdbuf(unchecked_);
  }

 private:
  static void check(bool written) {
    if (!written) fail_errno("stdout", "cannot write", Exit::io_error);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const auto size = static_cast<std::size_t>(count);
    check(std::fwrite(bytes, 1, size, stdout) == size);
    return count;
  }
  int_type overflow(int_type byte) override {
    check(traits_type::eq_int_type(byte, traits_type::eof()) || std::putchar(byte) != EOF);
    return traits_type::not_eof(byte);
  }
  int sync() override {
    check(std::fflush(stdout) == 0);
    return 0;
  }

  std::streambuf* unchecked_;
};

void print_now(std::string_view text) { std::cout << text << std::flush; }

// Throws if anything that was written to stdout did not get there.  Closing a copy reports what
// closing the last one would (NFS, quotas).
static void flush_stdout() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    if (errno == 0) fail(Exit::io_error, "stdout: an earlier write failed");
    fail_errno("stdout", "cannot write", Exit::io_error);
  }
  const int copy = ::dup(STDOUT_FILENO);
  if (copy >= 0 && ::close(copy) != 0) fail_errno("stdout", "cannot close", Exit::io_error);
}

// Whether it says that no thread more can be started; oneTBB has no type for it.
static bool lacks_threads(const std::exception& error) {
  if (const auto* const system = dynamic_cast<const std::system_error*>(&error))
    return system->code() == std::errc::resource_unavailable_try_again;
  return std::string_view(error.what()).starts_with("pthread_create");
}

static Exit guarded(const CommandLine& line, const std::function<void()>& body) {
  const auto say = [&](Exit code, const std::string& text) {
    line.log().error(one_line(text), static_cast<int>(code));
    return code;
  };
  try {
    body();
    return Exit::ok;
  } catch (const Error& error) {
    return *error.what() == '\0' ? error.code() : say(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return say(Exit::out_of_memory, "out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    return say(code_of(error.code()), concat(error.path1().string(), ": ", error.code().message()));
  } catch (const std::exception& error) {
    if (lacks_threads(error))
      return say(Exit::out_of_memory,
                 "no thread more can be started within ulimit -u (processes of a user) and ulimit "
                 "-v (KiB of memory)");
    if (const auto* const system = dynamic_cast<const std::system_error*>(&error))
      return say(code_of(system->code()), system->what());
    return say(Exit::internal, concat("internal error: ", error.what()));
  } catch (...) {
    return say(Exit::internal, "internal error: an exception of unknown type");
  }
}

int run_command(const char* program, int argc, char** argv, void (*run)(CommandLine&)) {
  occupy_standard_descriptors();
  report_lost_mappings();
  std::signal(SIGPIPE, SIG_DFL);  // also where the parent ignored it: `mt-x | head` ends quietly
  std::signal(SIGCHLD, SIG_DFL);  // where the parent ignored it nobody could wait for a child
  std::signal(SIGXFSZ, SIG_IGN);  // a file as large as `ulimit -f` allows is an error of its write
  CommandLine line(program, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  const StateRequests requests([&line] { line.tell_state(); });
  const Exit code = guarded(line, [&] {
    const CheckedStdout checked;
    try {
      run(line);
    } catch (const CommandLine::Finished&) {
    }
  });
  if (code == Exit::ok) return static_cast<int>(guarded(line, flush_stdout));
  std::cout.flush();  // what there was before the error; only that is reported
  std::fflush(stdout);
  return static_cast<int>(code);
}

}  // namespace mt
