#include "post/policy/reward_program.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>

#include "base/error.h"

namespace mt {
namespace {

const std::string kAnswer = "5";
const std::vector<Response> kResponses = {
    {.prompt = "2+3=", .text = "5", .answer = &kAnswer, .metadata = R"({"a":[1]})"},
    {.prompt = "\"", .text = "\n", .truncated = true, .messages = "[]"}};

RewardProgram::Verdict said_by(const std::string& command, double seconds = 60) {
  std::signal(SIGPIPE, SIG_IGN);
  return RewardProgram(command, {.seconds = seconds}).judge(kResponses, [] { return false; });
}

TEST(RewardProgram, ReadsResponsesAndSaysRewards) {
  const RewardProgram::Verdict verdict = said_by(
      R"(read -r a; read -r b
[ "$a" = '{"id":0,"prompt":"2+3=","response":"5","answer":"5","truncated":false,"messages":null,"metadata":{"a":[1]}}' ] || exit 1
[ "$b" = '{"id":1,"prompt":"\"","response":"\n","answer":null,"truncated":true,"messages":[],"metadata":null}' ] || exit 2
echo '{"id":1,"reward":-0.5}'; echo; echo '{"id":0,"reward":2}')");
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(verdict.rewards, (std::vector<double>{2, -0.5}));
}

TEST(RewardProgram, HasNothingToSay) {
  const RewardProgram::Verdict verdict =
      said_by(R"(cat > /dev/null; echo '{"id":1,"reward":null}'; echo '{"id":0,"reward":1}')");
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(verdict.rewards[0], 1);
  EXPECT_TRUE(std::isnan(verdict.rewards[1]));
}

TEST(RewardProgram, SaysWhatARewardIsTheSumOf) {
  const RewardProgram::Verdict verdict = said_by(
      R"(cat > /dev/null; echo '{"id":1,"reward":{"right":1,"a/b":-0.25}}'
echo '{"id":0,"reward":{"right":1,"a/b":null}}')");
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_TRUE(std::isnan(verdict.rewards[0]));
  EXPECT_EQ(verdict.rewards[1], 0.75);
  EXPECT_EQ(verdict.named[1], (NamedRewards{{"right", 1}, {"a/b", -0.25}}));
}

// Of three texts two are the second copy's; each names what is wrong with it.
TEST(RewardProgram, CopiesEachHaveAPart) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<Response> responses(3);
  for (std::size_t i = 0; i < responses.size(); ++i) responses[i].text = std::to_string(i);
  const auto judged = [&](const std::string& command, int jobs) {
    return RewardProgram(command, {.seconds = 60, .jobs = jobs}).judge(responses, [] {
      return false;
    });
  };
  const std::string count = R"(jq -c -s 'length as $n | .[] | {id, reward: (10 * $n + .id)}')";
  EXPECT_EQ(judged(count, 1).rewards, (std::vector<double>{30, 31, 32}));
  EXPECT_EQ(judged(count, 2).rewards, (std::vector<double>{20, 21, 12}));
  EXPECT_EQ(judged(count, 100).rewards, (std::vector<double>{10, 11, 12}));
  const RewardProgram::Verdict verdict = judged(
      R"(jq -c 'if .id == 2 then error("none") else {id, reward: .id} end' 2> /dev/null)", 2);
  EXPECT_EQ(verdict.wrong, "exited with 5");
  EXPECT_EQ(verdict.rewards[1], 1);
  EXPECT_TRUE(std::isnan(verdict.rewards[2]));
}

TEST(RewardProgram, WhatIsWrongIsNamed) {
  struct Wrong {
    const char *command, *what;
    bool has_first;
  };
  const std::string first = R"(cat > /dev/null; echo '{"id":0,"reward":1}'; )";
  for (const Wrong& c :
       {Wrong{"exit 3", "exited with 3", true},
        {"kill -9 $$", "died of signal 9", true},
        {"echo nonsense", "printed line 2, which is no JSON object", true},
        {R"(echo '{"id":2,"reward":1}')", "printed line 2, which has the id of no text", true},
        {R"(echo '{"id":1,"reward":"1"}')",
         "printed line 2, which has no reward that is a number or null", true},
        {R"(echo '{"id":1}')", "printed line 2, which has no reward that is a number or null",
         true},
        {R"(echo '{"id":1,"reward":{}}')", "printed line 2, which has no reward", true},
        {R"(echo '{"id":1,"reward":{"a":"1"}}')",
         "printed line 2, which has a named reward that is no number", true},
        {R"(echo '{"id":1,"reward":{"a=b":1}}')",
         "printed line 2, which has a reward's name of other characters than letters, digits, "
         "_-./",
         true},
        {R"(echo '{"id":1,"reward":{"a":1,"a":1}}')",
         "printed line 2, which has two rewards of one name", true}}) {
    const RewardProgram::Verdict verdict = said_by(first + c.command);
    EXPECT_EQ(verdict.wrong, c.what);
    EXPECT_EQ(verdict.rewards[0], 1) << c.command;
    EXPECT_TRUE(std::isnan(verdict.rewards[1])) << c.command;
  }
  EXPECT_EQ(said_by("no-such-program 2> /dev/null").wrong, "exited with 127");
}

// Also what it has started, and though it has closed its output.
TEST(RewardProgram, ItsTimeIsLimited) {
  EXPECT_EQ(said_by("sleep 1000 & wait", 0.05).wrong, "took more than 0.05 s");
  EXPECT_EQ(said_by("exec > /dev/null; sleep 1000", 0.05).wrong, "took more than 0.05 s");
  EXPECT_EQ(said_by("sleep 1000 & exit", 0.2).wrong,
            "ended, but what it started holds its output for more than 0.2 s");
}

// Where one copy cannot be started, as there are pipes for one alone, the other is not waited for.
TEST(RewardProgram, CopiesAreGivenUpTogether) {
  std::signal(SIGPIPE, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(256, before.rlim_cur);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int one; (one = ::dup(STDERR_FILENO)) >= 0;) taken.push_back(one);
  for (int i = 0; i < 7; ++i, taken.pop_back()) ::close(taken.back());
  const auto begin = std::chrono::steady_clock::now();
  const RewardProgram program("cat > /dev/null; sleep 30", {.seconds = 30, .jobs = 2});
  EXPECT_THROW(program.judge(kResponses, [] { return false; }), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  for (const int one : taken) ::close(one);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(RewardProgram, MayWaitForAllOfItsChildren) {
  EXPECT_EQ(said_by("exec perl -e 'while (<>) {} system(\"true\"); 1 while wait > 0'", 5).wrong,
            "said nothing of 2 texts");
}

// Nor are the lines of one that prints too much read for long.
TEST(RewardProgram, ItsOutputIsLimited) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(said_by("yes").wrong, "printed more than 64 MiB");
  EXPECT_EQ(said_by("yes | head -c 10000000").wrong, "printed line 1, which is no JSON object");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

// More than a pipe holds, both ways, by one that reads nothing before it has written.
TEST(RewardProgram, LongTextsPassBothWays) {
  const std::string text(1 << 20, 'x');
  const std::vector<Response> responses = {{.prompt = text, .text = text}};
  std::signal(SIGPIPE, SIG_IGN);
  const auto judged = [&](const char* command) {
    return RewardProgram(command, {.seconds = 60}).judge(responses, [] { return false; });
  };
  EXPECT_EQ(
      judged(R"(head -c 1000000 /dev/zero | tr '\0' ' '; cat; echo '{"id":0,"reward":1}')").wrong,
      "printed line 1, which has no reward that is a number or null");
  EXPECT_EQ(judged(R"(echo '{"id":0,"reward":4}')").rewards, std::vector<double>{4});
}

}  // namespace
}  // namespace mt
