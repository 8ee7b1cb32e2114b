// Any bytes as what a client sends: each request is answered or refused in HTTP, and the server
// goes on.
//
// Parser: libcommon/serve/http_connection.cpp
// Parser: libcommon/serve/http_exchange.cpp
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "serve/http_server.h"

namespace {

// The path says how it is answered.
void answer(const std::shared_ptr<mt::Exchange>& exchange) {
  const mt::HttpRequest& request = exchange->request();
  exchange->when_gone([] {});
  if (request.path == "/fail") throw std::runtime_error("fail");
  if (!request.path.starts_with("/stream")) {
    exchange->answer(200, "text/plain", request.method + request.body + request.authorization,
                     {{"X-Path", "/"}});
    return;
  }
  exchange->begin_stream("text/plain", {{"X-Stream", "1"}}, "ping");
  exchange->send(request.body);
  if (request.path == "/stream/fail") throw std::runtime_error("fail");
  exchange->send("end");
  exchange->end_stream(request.path != "/stream/part");
}

// Never ended: it serves all inputs.
int port_of_server() {
  static auto* const server = new mt::HttpServer(
      "127.0.0.1", 0, {.body = 256, .header = 512}, answer,
      [](int, std::string_view text) { return std::string(text); },
      [](const mt::HttpRequest& request) { return request.path != "/unwanted"; });
  return server->port();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port_of_server()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    std::abort();  // no server any more
  while (size > 0) {
    const ssize_t sent = ::send(client, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) break;  // it has closed
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  ::shutdown(client, SHUT_WR);
  std::string said;
  char part[4096];
  for (ssize_t count = 0; (count = ::recv(client, part, sizeof part, 0)) > 0;)
    said.append(part, static_cast<std::size_t>(count));
  ::close(client);
  if (!said.empty() && !said.starts_with("HTTP/1.")) std::abort();
  return 0;
}
