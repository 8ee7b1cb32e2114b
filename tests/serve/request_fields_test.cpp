#include "serve/request_fields.h"

#include <gtest/gtest.h>

#include "serve/completion_request.h"

namespace mt {
namespace {

// "param: message" of what is wrong with the fields of a completion's request beside its prompt.
std::string wrong(const std::string& body) {
  try {
    RequestFields fields(body);
    read_completion_request(fields, 1);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param + ": " + error.message;
  }
  return "";
}
std::string wrong_field(const std::string& field) {
  return wrong(R"({"prompt":"a",)" + field + "}");
}

TEST(RequestFields, Bodies) {
  EXPECT_EQ(wrong("{"), ": the body is no JSON");
  EXPECT_EQ(wrong(""), ": the body is no JSON");
  EXPECT_EQ(wrong("[]"), ": the body is no JSON object");
  EXPECT_EQ(wrong_field(R"("temperature":NaN)"), ": the body is no JSON");
  EXPECT_EQ(wrong_field(R"("temperature":Infinity)"),
            "temperature: temperature: expected a number from 0 to 100");
  const std::string deep(70, '[');
  EXPECT_EQ(wrong(R"({"prompt":)" + deep + std::string(70, ']') + "}"),
            ": the body has more than 64 lists and objects in each other");
}

TEST(RequestFields, EveryFieldHasAType) {
  for (const char* const name : {"model",
                                 "max_tokens",
                                 "min_tokens",
                                 "temperature",
                                 "top_p",
                                 "top_k",
                                 "min_p",
                                 "frequency_penalty",
                                 "presence_penalty",
                                 "repetition_penalty",
                                 "logit_bias",
                                 "n",
                                 "best_of",
                                 "seed",
                                 "stop",
                                 "stop_token_ids",
                                 "ignore_eos",
                                 "include_stop_str_in_output",
                                 "skip_special_tokens",
                                 "logprobs",
                                 "prompt_logprobs",
                                 "echo",
                                 "suffix",
                                 "stream",
                                 "stream_options"}) {
    int fits = 0;
    for (const char* const value : {"true", "1.5", "-3", R"("a")", "[]", "[[1]]", R"({"a":1})",
                                    "1e300", "123456789012345678"}) {
      const std::string error = wrong_field('"' + std::string(name) + "\":" + value);
      if (error.empty())
        ++fits;
      else
        EXPECT_TRUE(error.starts_with(name)) << name << ' ' << value << ": " << error;
    }
    EXPECT_LT(fits, 9) << name;
    EXPECT_EQ(wrong_field('"' + std::string(name) + "\":null"), "") << name;
  }
}

TEST(RequestFields, Ranges) {
  EXPECT_EQ(wrong_field(R"("top_p":0)"), "top_p: top_p: expected a number above 0 to 1");
  EXPECT_EQ(wrong_field(R"("max_tokens":0)"),
            "max_tokens: max_tokens: expected at least 1, without \"echo\": true");
  EXPECT_EQ(wrong_field(R"("max_tokens":0,"echo":true)"), "");
  EXPECT_EQ(wrong_field(R"("n":3,"best_of":2)"), "best_of: best_of: expected at least n");
  EXPECT_EQ(wrong_field(R"("best_of":2,"stream":true)"),
            "best_of: best_of: expected n, in a stream");
  EXPECT_EQ(wrong_field(R"("prompt_logprobs":1,"stream":true)"),
            "prompt_logprobs: prompt_logprobs: expected nothing, in a stream");
  EXPECT_NE(wrong_field(R"("stop":["a",""])"), "");
  EXPECT_NE(wrong_field(R"("logit_bias":{"1":101})"), "");
  EXPECT_NE(wrong_field(R"("logit_bias":{"x":1})"), "");
  EXPECT_EQ(wrong_field(R"("logit_bias":{"1":-100,"22":3.5})"), "");
}

TEST(RequestFields, Prompts) {
  const auto count = [](const std::string& prompt) {
    RequestFields fields(R"({"prompt":)" + prompt + "}");
    return read_completion_request(fields, 1).prompts.size();
  };
  EXPECT_EQ(count(R"("")"), 1U);
  EXPECT_EQ(count(R"(["a","b"])"), 2U);
  EXPECT_EQ(count("[1,2]"), 1U);
  EXPECT_EQ(count("[[1,2],[3]]"), 2U);
  EXPECT_NE(wrong("{}"), "");
  for (const char* const prompt : {"[]", "[[]]", "[1,-2]", "[1,\"a\"]", "[[1],2]", "3", "{}"})
    EXPECT_NE(wrong(R"({"prompt":)" + std::string(prompt) + "}"), "") << prompt;
}

TEST(RequestFields, Unknown) {
  RequestFields fields(R"({"prompt":"a","foo":1,"user":"me"})");
  read_completion_request(fields, 1);
  EXPECT_EQ(fields.unknown(), std::vector<std::string>{"foo"});
  RequestFields stream(R"({"prompt":"a","stream":true,"stream_options":{"bar":true}})");
  read_completion_request(stream, 1);
  EXPECT_EQ(stream.unknown(), std::vector<std::string>{"stream_options.bar"});
}

}  // namespace
}  // namespace mt
