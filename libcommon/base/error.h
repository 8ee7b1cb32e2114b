// Error: the one exception of the toolkit.  Its text is one line that says where, what and what was
// expected ("data.idx: 33 bytes, expected at least 34"); run_command() prints it and exits with its
// code.  Thread-safe.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
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

void append_number(std::string& line, long long number);
void append_number(std::string& line, unsigned long long number);
void append_number(std::string& line, double number);  // six digits

// Puts a part at the end of a line, as std::ostream prints it: text, a character, a number, or what
// has an append_to(line).
template <class Part>
void append(std::string& line, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>)
    line += std::string_view(part);
  else if constexpr (std::is_same_v<Part, char> || std::is_same_v<Part, signed char> ||
                     std::is_same_v<Part, unsigned char>)
    line += static_cast<char>(part);
  else if constexpr (std::is_floating_point_v<Part>)
    append_number(line, static_cast<double>(part));
  else if constexpr (std::is_unsigned_v<Part>)
    append_number(line, static_cast<unsigned long long>(part));
  else if constexpr (std::is_convertible_v<const Part&, long long>)
    append_number(line, static_cast<long long>(part));
  else
    part.append_to(line);
}

// The parts put one after another.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string line;
  (append(line, parts), ...);
  return line;
}

template <class... Parts>
[[noreturn]] void fail(Exit code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

// Throws for a failed system call on `path`: "path: what: No space left on device".  The code
// follows from errno: EACCES and EPERM no_permission, EROFS cannot_create, EIO and ENOSPC io_error,
// ENOMEM out_of_memory, ENOENT no_input unless `otherwise` is cannot_create; else `otherwise`.
[[noreturn]] void fail_errno(const std::string& path, const char* what, Exit otherwise);

}  // namespace mt
