// Socket: one end of a TCP connection, IPv4 or IPv6, that never waits.  Closes itself; movable.
#pragma once

#include <string>
#include <utility>

namespace mt {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  // Appends what has come, about 1 MiB at most.  False if there will be no more: closed by the
  // other side, or lost.
  bool receive(std::string& to);
  // Sends what can go now of `from`, and takes it away there.  False if the connection is lost.
  bool send(std::string& from);
  int wait(short events, int milliseconds) const;  // poll(2); what has happened, 0 in that time

 private:
  int descriptor_ = -1;
};

// Listens on the port of every address of this machine, or, where `host` is the machine itself
// (localhost), of the loopback alone.  Exit::io_error if the port is taken.
Socket listen_on(const std::string& host, int port);
// A port of the loopback that nobody listens at, and that no outgoing connection is given: those
// come from 32768 on.
int free_port();
// The next connection and whom it is from ("10.1.2.3"); no socket if there is none.
Socket accept_from(const Socket& listener, std::string* from);
// Tries each address of the host, so long at most; no socket, and why, if none answers.
Socket connect_to(const std::string& host, int port, int milliseconds, std::string* why);

}  // namespace mt
