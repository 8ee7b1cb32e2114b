#include "serve/client.h"

#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "serve/request_json.h"

namespace mt {

// A string, or an object with a message; text[0] of Megatron's answers.
std::string said(const HttpAnswer& answer) {
  simdjson::dom::parser parser;
  simdjson::dom::element body;
  std::string_view text;
  if (parse_request(parser, answer.body).get(body) != simdjson::SUCCESS) return answer.body;
  for (const char* const where : {"", "/text/0", "/message", "/error/message"})
    if (body.at_pointer(where).get(text) == simdjson::SUCCESS) return std::string(text);
  return answer.body;
}

void talk(const ClientOptions& options, const std::function<bool(std::string& line)>& read,
          const std::function<void(std::string_view)>& print) {
  const auto [host, port] = host_and_port(options.server);
  const HttpPlace server{host, port, read_api_key(options.api_key_file)};
  for (std::string prompt, tokens;;) {
    print("Enter prompt: ");
    if (!read(prompt)) break;
    print("Enter number of tokens to generate: ");
    if (!read(tokens)) break;
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(tokens.data(), tokens.data() + tokens.size(), count);
    if (error != std::errc() || end != tokens.data() + tokens.size()) {
      print(concat("\"", tokens, "\" is no number\n"));
      continue;
    }
    JsonWriter json;
    json.begin_object().key("prompts").begin_array().value(prompt).end_array();
    json.member("tokens_to_generate", count).end_object();
    const HttpQuestion request{"PUT", "/api", json.text()};
    const HttpAnswer answer = ask_http(server, {&request, 1}).front();
    if (answer.status == 0) fail(Exit::unavailable, options.server, ": ", answer.body);
    if (answer.status == 200)
      print("Megatron Response: \n" + said(answer) + "\n");
    else
      print(concat("Error ", answer.status, ": ", said(answer), "\n"));
  }
  print("\n");
}

}  // namespace mt
