#include "serve/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <ctime>
#include <optional>

#include "base/error.h"

namespace mt {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLook{100};  // how often a client is looked for

// One that is not answered yet.
class Open {
 public:
  explicit Open(HttpShared& shared) : shared_(shared) {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.open;
  }
  Open(const Open&) = delete;
  ~Open() {
    const std::lock_guard lock(shared_.mutex);
    if (--shared_.open == 0) shared_.idle.notify_all();
  }

 private:
  HttpShared& shared_;
};

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return text;
}

using Request = http::request<http::string_body>;

std::string text_of(beast::string_view view) { return {view.data(), view.size()}; }

// An answer that the server gives by itself.
struct Refusal {
  int status;
  std::string text;
};

// A name or an address, and a port, by their letters (RFC 3986, 3.2.2); empty where there is none.
bool is_host(std::string_view text) {
  return text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=%:[]") ==
         text.npos;
}

// The first value of a header that is something, and not `expected`, in any case.
std::optional<std::string> other_than(const char* expected, http::field name,
                                      const Request& request) {
  const auto [first, last] = request.equal_range(name);
  for (auto at = first; at != last; ++at)
    if (!at->value().empty() && !beast::iequals(at->value(), expected)) return text_of(at->value());
  return {};
}

// What a header asks for that is not done, or lacks (RFC 9112, 3.2 and 6.1; RFC 9110, 15.5.16).
std::optional<Refusal> refusal_of_header(const Request& request) {
  const auto hosts = request.count(http::field::host);
  if (hosts != 1 && (request.version() >= 11 || hosts > 1))
    return Refusal{400, concat(hosts, " headers \"Host\", expected one")};
  if (const std::string host = text_of(request[http::field::host]); !is_host(host))
    return Refusal{400, concat("Host: ", host, ": expected a name or an address, and a port")};
  if (request.version() < 11 && request.count(http::field::transfer_encoding) > 0)
    return Refusal{400, "Transfer-Encoding: expected HTTP/1.1"};
  if (const auto other = other_than("chunked", http::field::transfer_encoding, request))
    return Refusal{501, concat("Transfer-Encoding: ", *other, ": expected chunked")};
  if (const auto other = other_than("identity", http::field::content_encoding, request))
    return Refusal{415, concat("Content-Encoding: ", *other, ": expected none")};
  return {};
}

// The path of a target, which may be a whole URL (RFC 9112, 3.2.2).
std::string path_of(beast::string_view target) {
  for (const beast::string_view scheme : {"http://", "https://"}) {
    if (!beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    if (!target.starts_with('/')) return "/";
  }
  return text_of(target.substr(0, target.find('?')));
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpShared& shared, tcp::socket socket) : shared_(shared), stream_(std::move(socket)) {
    ++shared_.connections;
    error_code error;
    stream_.socket().set_option(tcp::no_delay(true), error);
    const tcp::endpoint peer = stream_.socket().remote_endpoint(error);
    if (!error) peer_ = peer.address().to_string();
  }
  ~Connection() { --shared_.connections; }

  static asio::awaitable<void> run(std::shared_ptr<Connection> self) {
    for (bool first = true;; first = false)
      if (!co_await self->converse(first)) break;
    error_code error;
    self->stream_.socket().shutdown(tcp::socket::shutdown_both, error);
    self->stream_.close();
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  asio::awaitable<bool> converse(bool first) {
    error_code error;
    stream_.expires_after(first ? shared_.limits.header_time : shared_.limits.idle_time);
    while (!has_begun()) {
      const std::size_t bytes =
          co_await stream_.async_read_some(buffer_.prepare(4096), or_error(error));
      if (error) co_return false;
      buffer_.commit(bytes);
    }
    if (shared_.draining) co_return false;
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(shared_.limits.header));
    parser.body_limit(shared_.limits.body);
    stream_.expires_after(shared_.limits.header_time);
    co_await http::async_read_header(stream_, buffer_, parser, or_error(error));
    std::optional<Refusal> refusal;
    if (!error) refusal = refusal_of_header(parser.get());
    if (refusal) {
      co_await refuse(*refusal, parser);
      co_return false;
    }
    // What would be refused anyhow needs no body.
    if (!error && !shared_.wanted(request_of(parser.get()))) {
      stream_.expires_never();
      co_await respond(parser.release(), false);
      co_await read_rest();
      co_return false;
    }
    if (!error && parser.get().version() >= 11 &&
        beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(stream_, asio::buffer(kGoOn), or_error(error));
    }
    if (!error) {
      stream_.expires_after(shared_.limits.body_time);
      co_await http::async_read(stream_, buffer_, parser, or_error(error));
    }
    stream_.expires_never();
    if (error) {
      refusal = refusal_of(error);
      if (refusal) co_await refuse(*refusal, parser);
      co_return false;
    }
    const bool more = co_await respond(parser.release(), true);
    if (!more && has_unread()) co_await read_rest();
    co_return more;
  }

  // Whether there is something of a request, behind empty lines, which are dropped (RFC 9112, 2.2).
  bool has_begun() {
    while (buffer_.size() > 0 && (first_byte() == '\r' || first_byte() == '\n')) buffer_.consume(1);
    return buffer_.size() > 0;
  }
  char first_byte() const { return *static_cast<const char*>(buffer_.cdata().data()); }

  // Whether more came than was asked for.
  bool has_unread() {
    error_code error;
    return buffer_.size() > 0 || stream_.socket().available(error) > 0;
  }

  // What came is no request that is taken; if it is none at all, there is nothing to say.
  std::optional<Refusal> refusal_of(error_code error) const {
    if (error == http::error::header_limit)
      return Refusal{431, concat("the header is larger than ", shared_.limits.header, " bytes")};
    if (error == http::error::body_limit)
      return Refusal{413, concat("the body is larger than ", shared_.limits.body, " bytes")};
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        error.category() != http::make_error_code(http::error::bad_method).category())
      return {};
    if (error == http::error::bad_version) return Refusal{505, "expected HTTP/1.1"};
    return Refusal{400, "malformed request"};
  }

  asio::awaitable<void> refuse(const Refusal& refusal, const Parser& parser) {
    error_code error;
    co_await write_whole(refusal.status, "application/json",
                         shared_.error_body(refusal.status, refusal.text), {}, 11, false,
                         is_head(parser), error);
    co_await read_rest();
  }

  // Says it of a request of which not even the first line may have been read.
  bool is_head(const Parser& parser) const {
    const http::verb method = parser.get().method();
    const std::string_view unread(static_cast<const char*>(buffer_.cdata().data()), buffer_.size());
    return method == http::verb::head ||
           (method == http::verb::unknown && unread.starts_with("HEAD "));
  }

  // A client that still writes would see a reset instead of the answer: read on for a moment.
  asio::awaitable<void> read_rest() {
    error_code error;
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    stream_.expires_after(std::chrono::seconds(2));
    for (std::size_t bytes = 0; bytes < std::size_t{64} << 20 && !error;)
      bytes += co_await stream_.async_read_some(buffer_.prepare(1 << 16), or_error(error));
  }

  HttpRequest request_of(const Request& request) const {
    const bool head = request.method() == http::verb::head;
    return {.method = head ? "GET" : text_of(request.method_string()),
            .path = path_of(request.target()),
            .body = {},
            .authorization = text_of(request[http::field::authorization]),
            .peer = peer_};
  }

  // Whether the connection may go on.
  asio::awaitable<bool> respond(Request request, bool whole) {
    const bool keep = whole && request.keep_alive();
    const bool head = request.method() == http::verb::head;
    HttpRequest asked = request_of(request);
    asked.body = std::move(request.body());
    const Open open(shared_);
    const auto exchange =
        std::make_shared<Exchange>(std::make_unique<Exchange::Impl>(shared_, std::move(asked)));
    try {
      shared_.handler(exchange);
    } catch (...) {
      fail_with(*exchange);
    }
    const bool more = co_await send_answer(exchange->impl(), request.version(), keep, head);
    if (!more) exchange->impl().leave();
    co_return more && !shared_.draining;
  }

  // A handler that threw has nothing to say, or not all of it.
  void fail_with(Exchange& exchange) {
    bool unsaid = false;
    {
      const std::lock_guard lock(exchange.impl().mutex);
      unsaid = exchange.impl().status == 0;
    }
    if (unsaid)
      exchange.answer(500, "application/json", shared_.error_body(500, "the server failed"));
    else
      exchange.end_stream(false);
  }

  // A client that closes while its answer is made does not want it any more.
  bool has_left() {
    pollfd at{.fd = stream_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&at, 1, 0) > 0;
  }

  // Whether the connection may go on.
  asio::awaitable<bool> send_answer(Exchange::Impl& of, unsigned version, bool keep, bool head) {
    error_code error;
    bool begun = false;
    for (;;) {
      std::deque<std::string> pieces;
      bool ended = false, has_status = false;
      {
        const std::lock_guard lock(of.mutex);
        if (of.gone) co_return false;
        has_status = of.status != 0;
        ended = of.ended;
        pieces = std::exchange(of.pieces, {});
        of.queued = 0;
      }
      const bool chunked = version >= 11;
      if (has_status && !of.stream) {
        co_await write_whole(of.status, of.type, std::move(pieces.front()), of.headers, version,
                             keep, head, error);
        co_return !error && keep;
      }
      if (has_status && !begun) {
        begun = true;
        http::response<http::empty_body> start =
            begin<http::empty_body>(of.status, of.type, of.headers, version, keep && chunked);
        if (chunked) start.chunked(true);
        http::response_serializer<http::empty_body> serializer(start);
        stream_.expires_after(shared_.limits.write_time);
        co_await http::async_write_header(stream_, serializer, or_error(error));
      }
      for (const std::string& piece : pieces) {
        if (error || head) break;
        stream_.expires_after(shared_.limits.write_time);
        if (chunked)
          co_await asio::async_write(stream_, http::make_chunk(asio::buffer(piece)),
                                     or_error(error));
        else
          co_await asio::async_write(stream_, asio::buffer(piece), or_error(error));
      }
      if (error) co_return false;
      if (ended) {
        if (!of.whole) co_return false;
        if (chunked && !head) {
          stream_.expires_after(shared_.limits.write_time);
          co_await asio::async_write(stream_, http::make_chunk_last(), or_error(error));
        }
        stream_.expires_never();
        co_return !error && keep && chunked;
      }
      stream_.expires_never();
      const auto pings = std::chrono::steady_clock::now() + shared_.limits.ping_time;
      while (!has_news(of, begun)) {
        error_code woken;
        of.news.expires_after(kLook);
        co_await of.news.async_wait(or_error(woken));
        if (!woken && has_left()) co_return false;
        if (begun && std::chrono::steady_clock::now() >= pings) ping(of);
      }
    }
  }

  static void ping(Exchange::Impl& of) {
    const std::lock_guard lock(of.mutex);
    if (!of.ping.empty() && !of.ended) of.pieces.push_back(of.ping);
  }

  static bool has_news(Exchange::Impl& of, bool begun) {
    const std::lock_guard lock(of.mutex);
    return of.gone || of.ended || !of.pieces.empty() || (of.status != 0 && !begun);
  }

  template <class Body>
  http::response<Body> begin(int status, const std::string& type, const Exchange::Headers& headers,
                             unsigned version, bool keep) const {
    http::response<Body> response(static_cast<http::status>(status), version);
    response.set(http::field::server, "mt");
    response.set(http::field::date, http_date());
    response.set(http::field::content_type, type);
    for (const Exchange::Headers& some : {shared_.always, headers})
      for (const auto& [name, value] : some) response.set(name, value);
    response.keep_alive(keep);
    return response;
  }

  asio::awaitable<void> write_whole(int status, const std::string& type, std::string body,
                                    const Exchange::Headers& headers, unsigned version, bool keep,
                                    bool head, error_code& error) {
    auto response = begin<http::string_body>(status, type, headers, version, keep);
    response.content_length(body.size());
    if (!head) response.body() = std::move(body);
    stream_.expires_after(shared_.limits.write_time);
    co_await http::async_write(stream_, response, or_error(error));
    stream_.expires_never();
  }

  HttpShared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::string peer_;
};

}  // namespace

asio::awaitable<void> serve_connection(HttpShared& shared, tcp::socket socket) {
  return Connection::run(std::make_shared<Connection>(shared, std::move(socket)));
}

}  // namespace mt
