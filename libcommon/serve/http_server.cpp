#include "serve/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "serve/http_connection.h"

namespace mt {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Accepts connections; where there are too many, or no file descriptors, they wait.
asio::awaitable<void> accept(HttpShared& shared, tcp::acceptor& acceptor) {
  asio::steady_timer pause(shared.io);
  for (;;) {
    error_code error;
    if (shared.connections < shared.limits.connections) {
      tcp::socket socket = co_await acceptor.async_accept(or_error(error));
      if (error == asio::error::operation_aborted) co_return;
      if (!error) {
        asio::co_spawn(shared.io, serve_connection(shared, std::move(socket)), asio::detached);
        continue;
      }
    }
    pause.expires_after(std::chrono::milliseconds(50));
    co_await pause.async_wait(or_error(error));
    if (shared.draining) co_return;
  }
}

}  // namespace

struct HttpServer::Impl {
  HttpShared shared;
  tcp::acceptor acceptor{shared.io};
  asio::executor_work_guard<asio::io_context::executor_type> works{shared.io.get_executor()};
  std::thread thread;
};

HttpServer::HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler,
                       ErrorBody error_body, Wanted wanted, Exchange::Headers always)
    : impl_(std::make_unique<Impl>()) {
  HttpShared& shared = impl_->shared;
  allow_open_files(limits.connections);
  shared.limits = limits;
  shared.handler = std::move(handler);
  shared.wanted = std::move(wanted);
  shared.error_body = std::move(error_body);
  shared.always = std::move(always);
  const auto check = [&](const error_code& error) {
    if (error) fail(Exit::unavailable, host, ":", port, ": cannot listen: ", error.message());
  };
  error_code error;
  const asio::ip::address address =
      asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  check(error);
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  tcp::acceptor& acceptor = impl_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  check(error);
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  check(error);
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  check(error);
  asio::co_spawn(shared.io, accept(shared, acceptor), asio::detached);
  impl_->thread = std::thread([this] { impl_->shared.io.run(); });
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::stop() {
  impl_->shared.io.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

int HttpServer::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpServer::drain() {
  impl_->shared.draining = true;
  asio::post(impl_->shared.io, [this] {
    error_code error;
    impl_->acceptor.close(error);
  });
}

bool HttpServer::wait_idle(std::chrono::milliseconds most) {
  HttpShared& shared = impl_->shared;
  std::unique_lock lock(shared.mutex);
  return shared.idle.wait_for(lock, most, [&] { return shared.open == 0; });
}

}  // namespace mt
