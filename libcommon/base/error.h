// Error: the one exception of the toolkit.  Its text is one line that says where, what and what was
// expected ("data.idx: 33 bytes, expected at least 34"); run_command() prints it and exits with its
// code.  Thread-safe.
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <utility>

namespace mt {

// Exit codes of every program, in the manner of sysexits.h.
enum class Exit : int {
  ok = 0,
  difference = 1,      // a check found a difference
  usage = 64,          // the command line is wrong
  bad_data = 65,       // an input's content is wrong
  no_input = 66,       // an input does not exist
  unavailable = 69,    // a device is missing
  internal = 70,       // our bug
  out_of_memory = 71,  // of the host or of a device
  cannot_create = 73,  // an output cannot be made
  io_error = 74,       // reading or writing failed; the disk is full
  stopped = 75,        // stopped on a signal with state saved: run me again
  peer_failed = 76,    // another rank failed
  no_permission = 77,
  bad_config = 78,  // options or settings that do not fit together
};

class Error : public std::exception {
 public:
  Error(Exit code, std::string line) : code_(code), line_(std::move(line)) {}
  Exit code() const { return code_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  Exit code_;
  std::string line_;
};

// The parts put one after another, as operator<< prints them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <class... Parts>
[[noreturn]] void fail(Exit code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

// Throws for a failed system call on `path`: "path: what: No space left on device".  The code
// follows from errno: ENOENT no_input, EACCES and EPERM no_permission, EROFS cannot_create, EIO and
// ENOSPC io_error, ENOMEM out_of_memory, else `otherwise`.
[[noreturn]] void fail_errno(const std::string& path, const char* what, Exit otherwise);

}  // namespace mt
