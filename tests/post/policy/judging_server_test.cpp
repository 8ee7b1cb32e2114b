// What a server's model says of texts is their reward, and what is wrong with it costs it alone.
#include "post/policy/judging_server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

// Answers so many requests with what `answer` makes of their bodies: a status and a body; no
// status: nothing, until the client is gone.  Only when so many of them are there at once, or some
// seconds have passed in which no other came, which is answered with 503.
class Server {
 public:
  using Answer = std::function<std::pair<int, std::string>(const std::string& body)>;
  Server(int requests, Answer answer, int at_once = 1)
      : acceptor_(io_, {asio::ip::make_address("127.0.0.1"), 0}), answer_(std::move(answer)) {
    url_ = concat("http://127.0.0.1:", acceptor_.local_endpoint().port());
    thread_ = std::thread([this, requests, at_once] {
      for (int i = 0; i < requests; i += at_once) serve(at_once);
    });
  }
  ~Server() { thread_.join(); }

  const std::string& url() const { return url_; }
  std::vector<std::string> seen;  // "POST /path BODY", once it has ended

 private:
  bool is_another_there() {
    pollfd another{acceptor_.native_handle(), POLLIN, 0};
    return ::poll(&another, 1, 3000) == 1;
  }

  void serve(int at_once) {
    std::vector<tcp::socket> sockets;
    while (std::ssize(sockets) < at_once && (sockets.empty() || is_another_there()))
      sockets.push_back(acceptor_.accept());
    for (tcp::socket& socket : sockets) serve_one(socket, std::ssize(sockets) == at_once);
  }

  void serve_one(tcp::socket& socket, bool are_all_there) {
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    boost::system::error_code error;
    http::read(socket, buffer, request, error);
    seen.push_back(concat(std::string(request.method_string()), " ", std::string(request.target()),
                          " ", request.body()));
    const auto [status, body] =
        are_all_there ? answer_(request.body()) : std::pair(503, std::string());
    if (status == 0) {
      char byte = 0;
      socket.read_some(asio::buffer(&byte, 1), error);
      return;
    }
    http::response<http::string_body> response(static_cast<http::status>(status), 11);
    response.body() = body;
    response.prepare_payload();
    http::write(socket, response, error);
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  Answer answer_;
  std::string url_;
  std::thread thread_;
};

std::string completion(const std::string& content, const std::string& finish_reason = "stop") {
  return concat(R"({"choices":[{"index":0,"message":{"role":"assistant","content":")", content,
                R"("},"finish_reason":")", finish_reason, "\"}]}");
}

const std::string kAnswer = "5";
const std::vector<Response> kResponses = {
    {.prompt = "<user>2+3=", .text = "good {answer}", .asked = "2+3=", .answer = &kAnswer},
    {.prompt = "\"", .text = "bad\n", .asked = "\"", .truncated = true}};

Judge::Verdict said_by(const std::string& url, const JudgingOptions& options = {},
                       double seconds = 60) {
  return JudgingServer(url, options, seconds).judge(kResponses, [] { return false; });
}

TEST(JudgingServer, SaysANumberOfEachText) {
  Scratch scratch;
  write_file_atomically(scratch.path("ask"), "{prompt}|{response}|{answer}|{", false);
  JudgingOptions options{.model = "large", .prompt_file = scratch.path("ask"), .requests = 1};
  std::vector<std::string> seen;
  {
    Server server(2, [](const std::string& body) {
      return std::pair(200, completion(body.find("2+3") != body.npos ? "Score: 7.5" : "-1"));
    });
    const Judge::Verdict verdict = said_by(server.url() + "/v2/", options);
    EXPECT_EQ(verdict.wrong, "");
    EXPECT_EQ(verdict.rewards, (std::vector<double>{7.5, -1}));
    seen = server.seen;
  }
  const std::string begin = R"(POST /v2/chat/completions {"model":"large","messages":[{"role":)"
                            R"("user","content":")",
                    end = R"("}],"max_tokens":64,"temperature":0})";
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], begin + "2+3=|good {answer}|5|{" + end);
  EXPECT_EQ(seen[1], begin + R"(\"|bad\n||{)" + end);
}

TEST(JudgingServer, SaysANumberAndNothingElse) {
  const std::pair<const char*, double> said[] = {{"8", 8},
                                                 {" 8.\n", 8},
                                                 {"8/10", 8},
                                                 {"8 / 10.", 8},
                                                 {"8 out of 10", 8},
                                                 {"**7**/10", 7},
                                                 {"**7**", 7},
                                                 {"Score: 7", 7},
                                                 {"**Final rating**: 7.5/10", 7.5},
                                                 {"**Score: 7**.", 7},
                                                 {"-3", -3},
                                                 {"**-3**", -3},
                                                 {"\u22123", -3},
                                                 {"Rating: \u2212.5", -0.5},
                                                 {"+2", 2},
                                                 {"1.5e3", 1500},
                                                 {"2E-1", 0.2}};
  for (const auto& [text, number] : said) {
    const std::optional<double> read = judged_number(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, number) << text;
  }
  for (const char* const text : {"",
                                 "good",
                                 R"({"score": 7, "max": 10})",
                                 "7 or 8",
                                 "7 8",
                                 "2*4",
                                 "1,000",
                                 "8%",
                                 "- 3",
                                 "--3",
                                 "8/",
                                 "8/ten",
                                 "8 out of",
                                 "8 of 10: 7",
                                 "1e400",
                                 "inf",
                                 "nan",
                                 "0x10",
                                 "Score 7",
                                 "7: good",
                                 "It is a: 7",
                                 "I say 7",
                                 "7 because it is short"})
    EXPECT_FALSE(judged_number(text)) << text;
}

// By default it is asked how good a response is, of one path, and of two before either is answered.
TEST(JudgingServer, IsAskedOfSeveralAtATime) {
  Server server(
      2,
      [](const std::string& body) {
        return std::pair(200, completion(body.find("2+3") != body.npos ? "10" : "0"));
      },
      2);
  const Judge::Verdict verdict = said_by(server.url());
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(verdict.rewards, (std::vector<double>{10, 0}));
}

TEST(JudgingServer, WhatIsWrongIsNamed) {
  struct Wrong {
    int status;
    std::string body, what;
  };
  for (const Wrong& wrong :
       {Wrong{500, completion("3"), "answered with status 500"},
        Wrong{404, R"({"error":{"message":"no such model"}})",
              "answered with status 404: no such model"},
        Wrong{200, "3", "answered with no chat completion"},
        Wrong{200, R"({"choices":[]})", "answered with no chat completion"},
        Wrong{200, completion("good"), "answered with something else than a number"},
        Wrong{0, "", "no answer in 1 s"}}) {
    Server server(2, [&](const std::string& body) {
      return body.find("2+3") != body.npos ? std::pair(200, completion("7"))
                                           : std::pair(wrong.status, wrong.body);
    });
    const double seconds = wrong.status == 0 ? 1 : 60;
    const Judge::Verdict verdict = said_by(server.url(), {.requests = 1}, seconds);
    EXPECT_EQ(verdict.wrong, wrong.what);
    EXPECT_EQ(verdict.rewards[0], 7);
    EXPECT_TRUE(std::isnan(verdict.rewards[1])) << wrong.what;
  }
}

// It may take any time.
TEST(JudgingServer, IsWaitedForLong) {
  for (const double seconds : {1e12, 1e300}) {
    Server server(2, [](const std::string&) { return std::pair(200, completion("7")); });
    EXPECT_EQ(said_by(server.url(), {}, seconds).rewards, (std::vector<double>{7, 7}));
  }
}

TEST(JudgingServer, IsNotThere) {
  std::string url;
  { url = Server(0, {}).url(); }
  const Judge::Verdict verdict = said_by(url);
  EXPECT_EQ(verdict.wrong, "Connection refused");
  EXPECT_TRUE(std::isnan(verdict.rewards[0]) && std::isnan(verdict.rewards[1]));
}

// A run that is to end does not wait for it.
TEST(JudgingServer, IsWaitedForNoMore) {
  Server server(1, [](const std::string&) { return std::pair(0, ""); });
  int asked = 0;
  const auto begin = std::chrono::steady_clock::now();
  JudgingServer(server.url(), {.requests = 1}, 60).judge(kResponses, [&] { return ++asked > 1; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(JudgingServer, IsAskedWhereTheUrlSays) {
  struct Place {
    const char *url, *host, *port, *path;
  };
  for (const Place& place :
       {Place{"http://localhost", "localhost", "80", "/v1/chat/completions"},
        Place{"http://a:8000/", "a", "8000", "/v1/chat/completions"},
        Place{"http://a/v2/", "a", "80", "/v2/chat/completions"},
        Place{"http://a:1/x/chat/completions", "a", "1", "/x/chat/completions"},
        Place{"http://[::1]:8000", "::1", "8000", "/v1/chat/completions"},
        Place{"http://[::1]/v1", "::1", "80", "/v1/chat/completions"}}) {
    const auto [server, path] = judging_place(place.url);
    EXPECT_EQ(server.host, place.host) << place.url;
    EXPECT_EQ(server.port, place.port) << place.url;
    EXPECT_EQ(path, place.path) << place.url;
  }
  for (const char* const url : {"https://localhost", "localhost:80", "http://", "http://a:0/v1",
                                "http://a/v1?key=b", "http://a/v1#b", "http://a /v1",
                                "http://a/v1\n", "http://[::1", "http://[]:80", "http://me@a"})
    EXPECT_THROW(judging_place(url), Error) << url;
}

}  // namespace
}  // namespace mt
