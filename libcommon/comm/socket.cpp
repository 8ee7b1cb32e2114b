#include "comm/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>

#include "base/error.h"

namespace mt {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The addresses of a host and port; those of the wildcard for an empty host.  Null, and why, if
// there are none.
Addresses addresses_of(const std::string& host, int port, std::string* why) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    *why = ::gai_strerror(error);
    return {nullptr, &::freeaddrinfo};
  }
  return {found, &::freeaddrinfo};
}

Socket new_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void send_at_once(const Socket& socket) {
  const int yes = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::string error_text() { return std::generic_category().message(errno); }

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// A connection to a free port of one's own machine may meet itself.
bool is_of_itself(const Socket& socket) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own), &own_size);
  ::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&other), &other_size);
  return own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

Socket connect_one(const addrinfo& address, int milliseconds, std::string* why) {
  Socket socket = new_socket(address);
  int error = 0;
  socklen_t size = sizeof error;
  if (!socket) {
    error = errno;
  } else if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      error = errno;
    else if (socket.wait(POLLOUT, milliseconds) == 0)
      error = ETIMEDOUT;
    else
      ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0 && is_of_itself(socket)) error = ECONNREFUSED;
  if (error != 0) {
    *why = std::generic_category().message(error);
    return {};
  }
  send_at_once(socket);
  return socket;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Socket::receive(std::string& to) {
  char buffer[1 << 16];
  for (std::size_t more = 1 << 20; more > 0;) {
    const ssize_t got = ::recv(descriptor_, buffer, std::min(more, sizeof buffer), 0);
    if (got > 0) {
      to.append(buffer, static_cast<std::size_t>(got));
      more -= static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return true;
}

bool Socket::send(std::string& from) {
  while (!from.empty()) {
    const ssize_t sent = ::send(descriptor_, from.data(), from.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      from.erase(0, static_cast<std::size_t>(sent));
    else if (errno == EAGAIN)
      return true;
    else if (errno != EINTR)
      return false;
  }
  return true;
}

int Socket::wait(short events, int milliseconds) const {
  pollfd one = {descriptor_, events, 0};
  return ::poll(&one, 1, milliseconds) > 0 ? one.revents : 0;
}

Socket listen_on(const std::string& host, int port) {
  std::string why = "no address";
  Addresses own = addresses_of(host, port, &why);
  const bool local = own && is_loopback(own->ai_addr);
  if (!local) own = addresses_of("", port, &why);
  // The wildcard of IPv6 takes IPv4's connections too; where there is no IPv6, IPv4's is next.
  for (const int family : {AF_INET6, AF_INET})
    for (const addrinfo* address = own.get(); address != nullptr; address = address->ai_next) {
      if (address->ai_family != family) continue;
      Socket socket = new_socket(*address);
      if (!socket) {
        why = error_text();
        continue;
      }
      const int yes = 1, no = 0;
      ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (family == AF_INET6 && !local)
        ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
      if (::bind(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0 &&
          ::listen(socket.descriptor(), SOMAXCONN) == 0)
        return socket;
      why = error_text();
    }
  fail(Exit::io_error, host, ":", port, ": rank 0 cannot listen there: ", why,
       "; is another run there? Choose another port");
}

int free_port() {
  std::mt19937 random(std::random_device{}());
  for (int tries = 0;; ++tries) {
    const int port = 15000 + static_cast<int>(random() % 17000);
    try {
      listen_on("localhost", port);
      return port;
    } catch (const Error&) {
      if (tries == 100) throw;
    }
  }
}

Socket accept_from(const Socket& listener, std::string* from) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  Socket socket(::accept4(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return {};
  char name[NI_MAXHOST] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, name, sizeof name, nullptr, 0,
                NI_NUMERICHOST);
  *from = name;
  send_at_once(socket);
  return socket;
}

Socket connect_to(const std::string& host, int port, int milliseconds, std::string* why) {
  const Addresses all = addresses_of(host, port, why);
  for (const addrinfo* address = all.get(); address != nullptr; address = address->ai_next)
    if (Socket socket = connect_one(*address, milliseconds, why)) return socket;
  return {};
}

}  // namespace mt
