// JudgingServer: a server of OpenAI's API, the model of which says what texts are worth.  Of each a
// chat of one message is asked, POST PATH/chat/completions,
//   {"model":text?,"messages":[{"role":"user","content":text}],"max_tokens":number,"temperature":0}
// and the number that comes back, choices[0].message.content, is its reward (judged_number()).  The
// message is a template, with the response in the place of {response} and, where it has these, the
// prompt, as a reader sees it, and the answer in those of {prompt} and {answer}.  A text has no
// reward where there is no answer in time, another status than 200, or no number, or where the
// answer was cut, the finish_reason of which is "length".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/http_client.h"
#include "post/policy/judge.h"

namespace mt {

class CommandLine;

struct JudgingOptions {
  std::string model = {}, prompt_file = {}, api_key_file = {};
  std::int64_t max_tokens = 64;  // of what it says
  std::int64_t requests = 8;     // at a time

  void add_to(CommandLine& cl);
};

// Who is asked, and at which path, by a URL http://HOST[:PORT][/PATH], where HOST may be [ADDRESS]
// of IPv6, and PATH may end in /chat/completions; without a path it is /v1.  Exit::usage, beginning
// with --reward, for another.
std::pair<HttpPlace, std::string> judging_place(const std::string& url);

class JudgingServer final : public Judge {
 public:
  // url: of judging_place().  Exit::no_input for a file that is not there, Exit::bad_data for a
  // template without {response}.
  JudgingServer(const std::string& url, const JudgingOptions& options, double seconds);

  // Whether its template has a place for the answer.
  bool needs_answers() const;
  Verdict judge(std::span<const Response> responses,
                const std::function<bool()>& ends) const override;

 private:
  std::string request_of(const Response& response) const;

  JudgingOptions options_;
  double seconds_;
  HttpPlace server_;
  std::string path_, template_;
};

// What a judge says that says a number and nothing else, but for
//   a label in front, one word or two and a colon: "Score: 7"
//   what the number is out of, which is left out: "7/10" and "7 out of 10" are 7
//   a full stop behind, and white space and * anywhere between these: "**7**."
// A number has digits, a point among them or none, and maybe a sign (a minus may be U+2212) and an
// exponent.  Anything else says none.
std::optional<double> judged_number(std::string_view text);

}  // namespace mt
