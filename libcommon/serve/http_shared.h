// What an HttpServer, its connections and their exchanges share; only their sources include it.
#pragma once

#include <utility>  // before awaitable.hpp, which needs it and does not include it

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "serve/http_server.h"

namespace mt {

struct HttpShared {
  HttpLimits limits;
  HttpServer::Handler handler;
  HttpServer::Wanted wanted;
  HttpServer::ErrorBody error_body;
  Exchange::Headers always;  // of every answer
  std::atomic<bool> draining = false;
  std::size_t connections = 0;  // of the server's thread
  std::mutex mutex;
  std::condition_variable idle;
  std::size_t open = 0;           // requests that are not answered yet
  boost::asio::io_context io{1};  // last: what waits in it counts with the others
};

struct Exchange::Impl {
  Impl(HttpShared& of, HttpRequest asked) : shared(of), request(std::move(asked)), news(of.io) {}

  HttpShared& shared;
  HttpRequest request;
  std::mutex mutex;  // of the next
  int status = 0;    // 0: nothing is said yet
  std::string type;
  Headers headers;
  std::string ping;
  std::deque<std::string> pieces;
  std::size_t queued = 0;  // bytes of them
  bool stream = false, ended = false, whole = true, gone = false;
  std::function<void()> left;
  // The server's thread waits for it, and is woken where there is something to do.
  boost::asio::steady_timer news;

  void leave();  // the client has gone; on the server's thread
};

// For an operation of Boost.Asio that is waited for: its error is put there, and not thrown.
inline auto or_error(boost::system::error_code& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

}  // namespace mt
