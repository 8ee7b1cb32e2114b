// HttpServer: HTTP/1.1 on one thread of its own, after RFC 9112: keep-alive, whole answers and
// streams of chunks, with limits on all that a client may send and on how long it may take
// (RELIABILITY.md R22 to R25).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

class Log;

struct HttpRequest {
  std::string method, path;  // the path without what follows a "?"
  std::string body;
  std::string authorization;  // of its header
  std::string peer;           // the client's address
};

// Exchange: one request and its answer, which any thread may give, once: whole, or as a stream.
// Nothing is sent to a client that has left, and all functions may still be called.  Thread-safe.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;
  struct Impl;

  explicit Exchange(std::unique_ptr<Impl> impl);
  Exchange(const Exchange&) = delete;
  ~Exchange();

  const HttpRequest& request() const;
  void answer(int status, std::string_view type, std::string body, Headers headers = {});
  // An answer whose body comes in pieces, with status 200.  ping: a piece that is sent whenever
  // nothing else was for the time that the limits say; empty: none.
  void begin_stream(std::string_view type, Headers headers = {}, std::string_view ping = "");
  void send(std::string piece);
  void end_stream(bool whole = true);  // else the client sees that something is missing

  // The thread of the server calls `left` once the client has gone before its answer was sent; at
  // once, if it has.
  void when_gone(std::function<void()> left);

  Impl& impl() { return *impl_; }

 private:
  void tell();

  std::unique_ptr<Impl> impl_;
};

struct HttpLimits {
  std::size_t body = 4 << 20, header = 16 << 10;  // bytes
  std::size_t connections = 16384;                // open at a time
  std::chrono::milliseconds header_time{10'000}, body_time{30'000}, idle_time{60'000},
      write_time{30'000},  // of one write that the client does not take
      ping_time{15'000};   // of silence in a stream
};

class HttpServer {
 public:
  // The server's thread calls it with each request; it returns soon, and somebody answers later.
  using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;
  // Whether a request, whose body is not read yet, is worth to be: else the handler gets it
  // without.
  using Wanted = std::function<bool(const HttpRequest&)>;
  // The body of an answer that the server gives by itself, to what is no request.
  using ErrorBody = std::function<std::string(int status, std::string_view text)>;

  // Listens on an address and a port, of which 0 is any free one.  Exit::unavailable if it cannot.
  // always: headers of every answer.
  HttpServer(
      const std::string& host, int port, const HttpLimits& limits, Handler handler,
      ErrorBody error_body, Wanted wanted = [](const HttpRequest&) { return true; },
      Exchange::Headers always = {});
  HttpServer(const HttpServer&) = delete;
  ~HttpServer();

  int port() const;
  // From now on nothing is accepted, and each connection is closed behind its answer, or where it
  // asks again.
  void drain();
  // Waits until all answers are sent, no longer than `most`; false if some are not.
  bool wait_idle(std::chrono::milliseconds most);
  // Once this has returned, the handler is not called any more and nothing is written.  Exchanges
  // may live on, but not longer than the server.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mt
