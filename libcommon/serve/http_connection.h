// One connection of an HttpServer: requests are read from a socket and answered, one after the
// other.
#pragma once

#include <utility>  // before awaitable.hpp, which needs it and does not include it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "serve/http_shared.h"

namespace mt {

// Until one of the two sides closes. It is counted in shared.connections from this call on.
boost::asio::awaitable<void> serve_connection(HttpShared& shared,
                                              boost::asio::ip::tcp::socket socket);

}  // namespace mt
