// client: talks to a server of PUT /api, as Megatron-LM's tools/text_generation_cli.py does.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/http_client.h"

namespace mt {

// What the answer says for people: its text, or what is wrong.
std::string said(const HttpAnswer& answer);

struct ClientOptions {
  std::string server;  // HOST:PORT
  std::string api_key_file;
};

// Asks for a prompt and how many tokens shall follow, again and again until `read` has no line
// more, and prints what the server answers.
void talk(const ClientOptions& options, const std::function<bool(std::string& line)>& read,
          const std::function<void(std::string_view)>& print);

}  // namespace mt
