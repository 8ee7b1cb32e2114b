// ask_http: asks a server of HTTP/1.1, without TLS, several things at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

struct HttpPlace {
  std::string host, port;
  std::string api_key = {};  // sent as a bearer's; empty: none
};

struct HttpQuestion {
  std::string verb, path;
  std::string body;  // JSON
  // Called whenever more of the answer is there, with its status and all of its body so far.
  std::function<void(int status, const std::string& body)> heard = {};
};

struct HttpAnswer {
  int status = 0;         // 0: there is none
  std::string body = {};  // or why there is none
};

struct AskingLimits {
  static constexpr double kForEver = 1e8;  // seconds; a clock counts some more

  int at_once = 1;                  // requests, each with a connection of its own
  double seconds = kForEver;        // for all of them, that at most
  std::function<bool()> ends = {};  // asked each second: whether the rest is to stay unanswered
};

// In the order of the requests.
std::vector<HttpAnswer> ask_http(const HttpPlace& server, std::span<const HttpQuestion> requests,
                                 const AskingLimits& limits = {});

// The parts of HOST:PORT, where HOST may be [ADDRESS] of IPv6; Exit::usage for what has not both,
// or no port from 1 to 65535.
std::pair<std::string, std::string> host_and_port(const std::string& server);
// The first line of a file; of none, none.
std::string read_api_key(const std::string& file);
// Exit::bad_data, with the file it is from, for what no header of a request can bring.
void check_api_key(const std::string& file, std::string_view key);

}  // namespace mt
