#include "serve/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "serve/request_json.h"

namespace mt {

namespace asio = boost::asio;
namespace http = boost::beast::http;

HttpAnswer http_put(const std::string& host, const std::string& port, const std::string& path,
                    const std::string& body, const std::string& api_key) {
  try {
    asio::io_context io;
    asio::ip::tcp::socket socket(io);
    asio::connect(socket, asio::ip::tcp::resolver(io).resolve(host, port));
    http::request<http::string_body> request(http::verb::put, path, 11);
    request.set(http::field::host, host + ":" + port);
    request.set(http::field::content_type, "application/json");
    if (!api_key.empty()) request.set(http::field::authorization, "Bearer " + api_key);
    request.keep_alive(false);
    request.body() = body;
    request.prepare_payload();
    http::write(socket, request);
    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> answer;
    answer.body_limit(std::size_t{1} << 30);
    http::read(socket, buffer, answer);
    return {static_cast<int>(answer.get().result_int()), std::move(answer.get().body())};
  } catch (const boost::system::system_error& error) {
    fail(Exit::unavailable, host, ":", port, ": ", error.code().message());
  }
}

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

std::pair<std::string, std::string> host_and_port(const std::string& server) {
  const std::size_t colon = std::min(server.rfind(':'), server.size());
  const std::string host = server.substr(0, colon);
  const std::string port = server.substr(std::min(colon + 1, server.size()));
  int number = 0;
  const char* const end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, number);
  if (host.empty() || read.ec != std::errc() || read.ptr != end || number < 1 || number > 65535)
    fail(Exit::usage, server, ": expected HOST:PORT");
  return {host, port};
}

std::string read_api_key(const std::string& file) {
  if (file.empty()) return "";
  std::string key = read_file(file);
  key.resize(std::min(key.find_first_of("\r\n"), key.size()));
  return key;
}

void talk(const ClientOptions& options, const std::function<bool(std::string& line)>& read,
          const std::function<void(std::string_view)>& print) {
  const auto [host, port] = host_and_port(options.server);
  const std::string key = read_api_key(options.api_key_file);
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
    const HttpAnswer answer = http_put(host, port, "/api", json.text(), key);
    if (answer.status == 200)
      print("Megatron Response: \n" + said(answer) + "\n");
    else
      print(concat("Error ", answer.status, ": ", said(answer), "\n"));
  }
  print("\n");
}

}  // namespace mt
