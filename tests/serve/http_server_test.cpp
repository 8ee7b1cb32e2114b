#include "serve/http_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <thread>

#include "base/error.h"

namespace mt {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

// A client that writes what it likes.
class Client {
 public:
  explicit Client(int port) {
    socket_.connect({asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(port)});
  }
  void write(std::string_view text) {
    boost::system::error_code error;
    asio::write(socket_, asio::buffer(text.data(), text.size()), error);
  }
  // Reads until the text has come or the server has closed.
  std::string read_to(std::string_view end) {
    while (read_.find(end) == std::string::npos) {
      char part[4096];
      boost::system::error_code error;
      const std::size_t bytes = socket_.read_some(asio::buffer(part), error);
      if (error) return std::exchange(read_, "");
      read_.append(part, bytes);
    }
    const std::size_t after = read_.find(end) + end.size();
    std::string text = read_.substr(0, after);
    read_.erase(0, after);
    return text;
  }
  std::string read_all() { return read_to(std::string(1, '\0') + "never"); }
  void close() { socket_.close(); }

 private:
  asio::io_context io_;
  tcp::socket socket_{io_};
  std::string read_;
};

std::string error_body(int status, std::string_view text) {
  return concat("{", status, " ", text, "}");
}

// Says back what it is asked.
void echo(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  exchange->answer(200, "text/plain",
                   concat(request.method, " ", request.path, " ", request.body, "\n"));
}

std::string asked(int port, std::string_view request, std::string_view end = "\n") {
  Client client(port);
  client.write(request);
  client.read_to("\r\n\r\n");
  return client.read_to(end);
}

TEST(HttpServer, AnswersOneAfterAnotherOnOneConnection) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body);
  Client client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.write("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_TRUE(client.read_to("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_EQ(client.read_to("\n"), "POST /a hi\n");
  }
  client.write(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");  // both at once
  EXPECT_NE(client.read_to("GET /1 \n"), "");
  EXPECT_NE(client.read_to("GET /2 \n"), "");
  client.write("GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.read_all().ends_with("GET /3 \n"));
}

TEST(HttpServer, OlderClientsAndHeads) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body);
  Client old(server.port());
  old.write("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.read_all().ends_with("\r\n\r\nGET /x \n"));
  Client head(server.port());
  head.write("HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = head.read_all();
  EXPECT_NE(answer.find("Content-Length: 8\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST(HttpServer, WhatIsNoRequest) {
  HttpServer server("127.0.0.1", 0, {.body = 10, .header = 200}, echo, error_body);
  EXPECT_EQ(asked(server.port(), "nonsense\r\n\r\n", "}"), "{400 malformed request}");
  EXPECT_EQ(asked(server.port(),
                  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world", "}"),
            "{413 the body is larger than 10 bytes}");
  EXPECT_EQ(asked(server.port(),
                  "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello "
                  "world\r\n0\r\n\r\n",
                  "}"),
            "{413 the body is larger than 10 bytes}");
  EXPECT_EQ(asked(server.port(),
                  "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(300, 'a') + "\r\n\r\n", "}"),
            "{431 the header is larger than 200 bytes}");
  EXPECT_EQ(asked(server.port(), "GET /still HTTP/1.1\r\nHost: x\r\n\r\n"), "GET /still \n");
}

// A client of HTTP/1.1 says whom it asks, once, and a body comes as it is, in chunks or whole.
TEST(HttpServer, HeadersThatAreNotTaken) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body);
  const auto post = [&](std::string_view headers, std::string_view end = "}") {
    return asked(server.port(), concat("POST / HTTP/1.1\r\n", headers), end);
  };
  EXPECT_EQ(post("\r\n"), "{400 0 headers \"Host\", expected one}");
  EXPECT_EQ(post("Host: x\r\nHost: y\r\n\r\n"), "{400 2 headers \"Host\", expected one}");
  EXPECT_EQ(post("Host: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi"),
            "{415 Content-Encoding: gzip: expected none}");
  EXPECT_EQ(post("Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            "{501 Transfer-Encoding: gzip, chunked: expected chunked}");
  EXPECT_EQ(post("Host: x\r\nContent-Encoding: identity\r\nContent-Encoding: br\r\n\r\n"),
            "{415 Content-Encoding: br: expected none}");
  EXPECT_EQ(post("Host: x/y\r\n\r\n"),
            "{400 Host: x/y: expected a name or an address, and a port}");
  EXPECT_EQ(post("Host: [::1]:80\r\nContent-Length: 0\r\n\r\n", "\n"), "POST / \n");
  // Two sizes, of which one may be an attack.
  for (const char* const more : {"Transfer-Encoding: chunked\r\n", "Content-Length: 3\r\n"})
    EXPECT_EQ(post(concat("Host: x\r\nContent-Length: 2\r\n", more, "\r\n0\r\n\r\n")),
              "{400 malformed request}");
  EXPECT_EQ(
      asked(server.port(), "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "}"),
      "{400 Transfer-Encoding: expected HTTP/1.1}");
  EXPECT_EQ(asked(server.port(), "GET / HTTP/2.0\r\nHost: x\r\n\r\n", "}"),
            "{505 expected HTTP/1.1}");
  EXPECT_EQ(post("Host:\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\nhi", "\n"),
            "POST / hi\n");
}

// A HEAD is told as much as a GET, and gets no body, whyever it is refused.
TEST(HttpServer, HeadsThatAreRefused) {
  HttpServer server("127.0.0.1", 0, {.body = 10, .header = 300}, echo, error_body,
                    [](const HttpRequest& request) { return request.path != "/unwanted"; });
  const std::pair<std::string, const char*> cases[] = {
      {"/ HTTP/1.1\r\n\r\n", "400 Bad Request"},
      {"/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400 Bad Request"},
      {"/ HTTP/1.1\r\nHost x\r\n\r\n", "400 Bad Request"},
      {"/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented"},
      {"/ HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n", "415 Unsupported Media Type"},
      {"/ HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", "413 Payload Too Large"},
      {"/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
       "413 Payload Too Large"},
      {"/ HTTP/1.1\r\nHost: x\r\nA: " + std::string(300, 'a') + "\r\n\r\n",
       "431 Request Header Fields Too Large"},
      {"/" + std::string(300, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n",
       "431 Request Header Fields Too Large"},
      {"/unwanted HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"},
      {"/ HTTP/2.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported"}};
  for (const auto& [request, status] : cases) {
    std::string answers[2];
    for (const bool head : {false, true}) {
      Client client(server.port());
      client.write(concat(head ? "HEAD " : "GET ", request));
      answers[head] = client.read_all();
    }
    const std::size_t body = answers[0].find("\r\n\r\n") + 4;
    EXPECT_LT(body, answers[0].size()) << request;
    EXPECT_EQ(answers[1].substr(0, answers[1].find("\r\n")), concat("HTTP/1.1 ", status))
        << request;
    EXPECT_EQ(answers[1].size(), body) << request << answers[1];
    EXPECT_NE(answers[1].find(concat("Content-Length: ", answers[0].size() - body, "\r\n")),
              std::string::npos)
        << request << answers[1];
  }
}

// A target may be a whole URL, as a proxy is asked, and empty lines may be in front of a request.
TEST(HttpServer, OtherFormsOfRequests) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body);
  const auto got = [&](std::string_view target) {
    return asked(server.port(), concat("GET ", target, " HTTP/1.1\r\nHost: x\r\n\r\n"));
  };
  EXPECT_EQ(got("http://x/a/b?c=d"), "GET /a/b \n");
  EXPECT_EQ(got("HTTPS://x:1/http://y/"), "GET /http://y/ \n");
  EXPECT_EQ(got("http://x"), "GET / \n");
  EXPECT_EQ(got("http://x?c=/d"), "GET / \n");
  EXPECT_EQ(got("*"), "GET * \n");
  Client client(server.port());
  client.write("\r\n\r");
  client.write("\nPOST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi\r\n");
  EXPECT_NE(client.read_to("POST /1 hi\n"), "");
  client.write("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_to("GET /2 \n"), "");
}

// Who asks whether to send a body is told to, and a client of HTTP/1.0, which cannot ask, is not.
TEST(HttpServer, BodiesThatAreAskedFor) {
  HttpServer server("127.0.0.1", 0, {.body = 10}, echo, error_body);
  const std::string asks = "Host: x\r\nExpect: 100-Continue\r\nContent-Length: ";
  Client client(server.port());
  client.write("POST / HTTP/1.1\r\n" + asks + "2\r\n\r\n");
  EXPECT_EQ(client.read_to("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.write("hi");
  EXPECT_TRUE(client.read_to("\n").starts_with("HTTP/1.1 200 OK\r\n"));
  Client old(server.port());
  old.write("POST / HTTP/1.0\r\n" + asks + "2\r\n\r\nhi");
  EXPECT_TRUE(old.read_all().starts_with("HTTP/1.0 200 OK\r\n"));
  Client refused(server.port());
  refused.write("POST / HTTP/1.1\r\n" + asks + "11\r\n\r\n");
  EXPECT_TRUE(refused.read_all().starts_with("HTTP/1.1 413 Payload Too Large\r\n"));
}

// What comes behind a request that ends the connection does not cost its answer, as a reset would.
TEST(HttpServer, MoreThanIsAnswered) {
  HttpServer server("127.0.0.1", 0, {.header = 300}, echo, error_body);
  const std::string more(1 << 20, 'x');
  for (const std::string request : {"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                                    "GET /last HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"}) {
    Client client(server.port());
    client.write(request + more);
    const std::string answer = client.read_all();
    EXPECT_TRUE(answer.ends_with("GET /last \n") || answer.ends_with("expected one}")) << answer;
  }
}

// What is not wanted is answered before its body comes.
TEST(HttpServer, WhatIsNotWanted) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body,
                    [](const HttpRequest& request) { return request.path == "/wanted"; });
  EXPECT_EQ(
      asked(server.port(), "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhi"),
      "POST /other \n");
  EXPECT_EQ(asked(server.port(), "POST /wanted HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"),
            "POST /wanted hi\n");
}

// A client that does not read what it is sent is let go before all of it lies in memory.
TEST(HttpServer, ClientsThatDoNotRead) {
  std::promise<std::shared_ptr<Exchange>> came;
  HttpServer server(
      "127.0.0.1", 0, {}, [&](const auto& exchange) { came.set_value(exchange); }, error_body);
  Client client(server.port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto exchange = came.get_future().get();
  std::promise<void> gone;
  exchange->when_gone([&] { gone.set_value(); });
  exchange->begin_stream("text/plain");
  const auto left = gone.get_future();
  for (int i = 0; i < 1000 && left.wait_for(0s) != std::future_status::ready; ++i) {
    exchange->send(std::string(1 << 20, 'x'));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(left.wait_for(0s), std::future_status::ready);
}

// Clients that say nothing, or not enough, are let go; others are answered meanwhile.
TEST(HttpServer, TimesOut) {
  HttpLimits limits;
  limits.header_time = limits.body_time = limits.idle_time = 500ms;
  HttpServer server("127.0.0.1", 0, limits, echo, error_body);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<Client>(server.port()));
  silent[0]->write("GET / HT");
  silent[1]->write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhi");
  EXPECT_EQ(asked(server.port(), "GET /x HTTP/1.1\r\nHost: x\r\n\r\n"), "GET /x \n");
  for (const auto& client : silent) EXPECT_EQ(client->read_all(), "");
}

TEST(HttpServer, Streams) {
  std::promise<std::shared_ptr<Exchange>> came;
  HttpServer server(
      "127.0.0.1", 0, {}, [&](const auto& exchange) { came.set_value(exchange); }, error_body);
  Client client(server.port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  {
    const std::shared_ptr<Exchange> exchange = came.get_future().get();
    exchange->begin_stream("text/event-stream");
    const std::string head = client.read_to("\r\n\r\n");
    EXPECT_NE(head.find("Transfer-Encoding: chunked"), std::string::npos);
    exchange->send("one");
    EXPECT_EQ(client.read_to("\r\none\r\n"), "3\r\none\r\n");
    exchange->send("");
    exchange->send("twelve bytes");
    exchange->end_stream();
  }
  EXPECT_EQ(client.read_to("\r\n0\r\n\r\n"), "c\r\ntwelve bytes\r\n0\r\n\r\n");
}

// A stream that has nothing to say says so, and whole answers do not.
TEST(HttpServer, Pings) {
  std::promise<std::shared_ptr<Exchange>> asked_for;
  HttpServer server(
      "127.0.0.1", 0, {.ping_time = 1ms},
      [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->begin_stream("text/plain", {}, ": ping\n");
        asked_for.set_value(exchange);
      },
      error_body);
  Client client(server.port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  for (int i = 0; i < 3; ++i) EXPECT_NE(client.read_to(": ping\n"), "");
  const auto exchange = asked_for.get_future().get();
  exchange->send("news\n");
  exchange->end_stream();
  EXPECT_NE(client.read_to("news\n"), "");
  EXPECT_TRUE(client.read_to("0\r\n\r\n").ends_with("0\r\n\r\n"));
}

// An old client gets the pieces as they are, and the end is the end of the connection; one that is
// cut off sees it by the missing last chunk.
TEST(HttpServer, StreamsThatEndOtherwise) {
  HttpServer server(
      "127.0.0.1", 0, {},
      [](const auto& exchange) {
        exchange->begin_stream("text/plain");
        exchange->send("text");
        exchange->end_stream(exchange->request().path == "/whole");
      },
      error_body);
  Client old(server.port());
  old.write("GET /whole HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.read_all().ends_with("\r\n\r\ntext"));
  Client cut(server.port());
  cut.write("GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(cut.read_all().ends_with("\r\n\r\n4\r\ntext\r\n"));
}

// Who answers is told of a client that leaves, before an answer and in the midst of one.
TEST(HttpServer, ClientsThatLeave) {
  std::promise<std::shared_ptr<Exchange>> came[2];
  int count = 0;
  HttpServer server(
      "127.0.0.1", 0, {}, [&](const auto& exchange) { came[count++].set_value(exchange); },
      error_body);
  for (const bool begun : {false, true}) {
    Client client(server.port());
    client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto exchange = came[begun].get_future().get();
    std::promise<void> gone;
    exchange->when_gone([&] { gone.set_value(); });
    if (begun) exchange->begin_stream("text/plain");
    client.close();
    EXPECT_EQ(gone.get_future().wait_for(10s), std::future_status::ready);
    exchange->send("nobody reads this");
    std::promise<void> at_once;
    exchange->when_gone([&] { at_once.set_value(); });
    EXPECT_EQ(at_once.get_future().wait_for(0s), std::future_status::ready);
  }
}

// What was asked is answered, and then nothing more.
TEST(HttpServer, Drains) {
  std::promise<std::shared_ptr<Exchange>> came;
  HttpServer server(
      "127.0.0.1", 0, {}, [&](const auto& exchange) { came.set_value(exchange); }, error_body);
  Client client(server.port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  {
    const std::shared_ptr<Exchange> exchange = came.get_future().get();
    server.drain();
    EXPECT_FALSE(server.wait_idle(20ms));
    exchange->answer(200, "text/plain", "late");
  }
  EXPECT_TRUE(server.wait_idle(10s));
  EXPECT_TRUE(client.read_to("late").ends_with("late"));
}

TEST(HttpServer, PortThatIsTaken) {
  HttpServer server("127.0.0.1", 0, {}, echo, error_body);
  EXPECT_THROW(HttpServer("127.0.0.1", server.port(), {}, echo, error_body), Error);
  EXPECT_THROW(HttpServer("no address", 0, {}, echo, error_body), Error);
}

}  // namespace
}  // namespace mt
