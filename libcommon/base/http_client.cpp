#include "base/http_client.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>

#include "base/error.h"
#include "base/file.h"

namespace mt {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

class Asking {
 public:
  Asking(const HttpPlace& server, std::span<const HttpQuestion> requests,
         const AskingLimits& limits)
      : server_(server), requests_(requests), limits_(limits) {
    answers_.assign(requests.size(), {.body = concat("no answer in ", limits.seconds, " s")});
  }

  std::vector<HttpAnswer> answers() {
    boost::system::error_code error;
    places_ = tcp::resolver(io_).resolve(server_.host, server_.port, error);
    if (error) {
      std::ranges::fill(answers_, HttpAnswer{.body = error.message()});
      return std::move(answers_);
    }
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           std::min(limits_.seconds, AskingLimits::kForEver)));
    for (int i = 0; i < std::min<std::int64_t>(limits_.at_once, std::ssize(requests_)); ++i)
      asio::co_spawn(io_, ask_one_by_one(), [](const std::exception_ptr& thrown) {
        if (thrown) std::rethrow_exception(thrown);
      });
    while (!io_.stopped() && Clock::now() < end && !(limits_.ends && limits_.ends()))
      io_.run_until(std::min(end, Clock::now() + std::chrono::seconds(1)));
    return std::move(answers_);
  }

 private:
  // Each takes the next that nobody has taken.
  asio::awaitable<void> ask_one_by_one() {
    while (taken_ < requests_.size()) {
      const std::size_t i = taken_++;
      try {
        co_await ask(requests_[i], answers_[i]);
      } catch (const boost::system::system_error& error) {
        answers_[i] = {.body = error.code().message()};
      }
    }
  }

  asio::awaitable<void> ask(const HttpQuestion& asked, HttpAnswer& answer) {
    constexpr std::size_t kMostBody = std::size_t{1} << 30;
    tcp::socket stream(io_);
    co_await asio::async_connect(stream, places_, asio::use_awaitable);
    http::request<http::string_body> request(http::string_to_verb(asked.verb), asked.path, 11);
    const bool is_address = server_.host.find(':') != server_.host.npos;
    request.set(http::field::host,
                concat(is_address ? "[" : "", server_.host, is_address ? "]:" : ":", server_.port));
    request.set(http::field::content_type, "application/json");
    if (!server_.api_key.empty())
      request.set(http::field::authorization, "Bearer " + server_.api_key);
    request.keep_alive(false);
    request.body() = asked.body;
    request.prepare_payload();
    co_await http::async_write(stream, request, asio::use_awaitable);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> response;
    response.body_limit(kMostBody);
    co_await http::async_read_header(stream, buffer, response, asio::use_awaitable);
    const int status = static_cast<int>(response.get().result_int());
    while (!response.is_done()) {
      co_await http::async_read_some(stream, buffer, response, asio::use_awaitable);
      if (asked.heard) asked.heard(status, response.get().body());
    }
    answer = {status, std::move(response.get().body())};
  }

  const HttpPlace& server_;
  std::span<const HttpQuestion> requests_;
  const AskingLimits& limits_;
  std::vector<HttpAnswer> answers_;
  tcp::resolver::results_type places_;
  std::size_t taken_ = 0;
  asio::io_context io_{1};  // last: it ends what is still being asked
};

}  // namespace

std::vector<HttpAnswer> ask_http(const HttpPlace& server, std::span<const HttpQuestion> requests,
                                 const AskingLimits& limits) {
  return Asking(server, requests, limits).answers();
}

std::pair<std::string, std::string> host_and_port(const std::string& server) {
  const std::size_t colon = std::min(server.rfind(':'), server.size());
  std::string host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port = server.substr(std::min(colon + 1, server.size()));
  int number = 0;
  const char* const end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, number);
  if (host.empty() || host.starts_with('[') || host.find('/') != host.npos ||
      read.ec != std::errc() || read.ptr != end || number < 1 || number > 65535)
    fail(Exit::usage, server, ": expected HOST:PORT");
  return {host, port};
}

std::string read_api_key(const std::string& file) {
  if (file.empty()) return "";
  std::string key = read_file(file);
  key.resize(std::min(key.find_first_of("\r\n"), key.size()));
  check_api_key(file, key);
  return key;
}

void check_api_key(const std::string& file, std::string_view key) {
  if (key.empty()) fail(Exit::bad_data, file, ": has no key in its first line");
  if (!std::ranges::all_of(key, [](char c) { return '!' <= c && c <= '~'; }))
    fail(Exit::bad_data, file,
         ": has a key that no request can bring; expected lines of visible ASCII characters");
}

}  // namespace mt
