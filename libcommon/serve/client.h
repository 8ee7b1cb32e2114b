// client: talks to a server of PUT /api, as Megatron-LM's tools/text_generation_cli.py does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace mt {

// The status and the body of an answer.  Exit::unavailable if there is no server at HOST:PORT, or
// it does not answer.
struct HttpAnswer {
  int status = 0;
  std::string body;
};
HttpAnswer http_put(const std::string& host, const std::string& port, const std::string& path,
                    const std::string& body, const std::string& api_key);

// What the answer says for people: its text, or what is wrong.
std::string said(const HttpAnswer& answer);

// The parts of HOST:PORT; Exit::usage for what has not both, or no port from 1 to 65535.
std::pair<std::string, std::string> host_and_port(const std::string& server);
// The first line of a file; of none, none.
std::string read_api_key(const std::string& file);

struct ClientOptions {
  std::string server;  // HOST:PORT
  std::string api_key_file;
};

// Asks for a prompt and how many tokens shall follow, again and again until `read` has no line
// more, and prints what the server answers.
void talk(const ClientOptions& options, const std::function<bool(std::string& line)>& read,
          const std::function<void(std::string_view)>& print);

}  // namespace mt
