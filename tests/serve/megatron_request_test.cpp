#include "serve/megatron_request.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/infer/letters.h"

namespace mt {
namespace {

// What is said to a body; with "400 " in front where Megatron-LM's server says it so.
std::string refusal(const std::string& body) {
  try {
    parse_megatron_request(body);
  } catch (const MegatronRefusal& refused) {
    return (refused.bad_request ? "400 " : "") + refused.text;
  }
  return "";
}

TEST(MegatronRequest, Defaults) {
  const MegatronRequest request = parse_megatron_request(R"({"prompts":["a","b"],"other":1})");
  EXPECT_EQ(request.prompts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.tokens_to_generate, 64);
  EXPECT_EQ(request.temperature, 1);
  EXPECT_FALSE(request.logprobs || request.add_bos || request.random_seed || request.beam_width);
}

TEST(MegatronRequest, EachTextOfItsServer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "400 prompts argument required"},
      {R"({"prompts":["a"],"max_len":3})",
       "400 max_len is no longer used.  Replace with tokens_to_generate"},
      {R"({"prompts":["a"],"sentences":3})",
       "400 sentences is no longer used.  Replace with prompts"},
      {R"({"prompts":"a"})", "400 prompts is not a list of strings"},
      {R"({"prompts":[]})", "400 prompts is empty"},
      {R"("tokens_to_generate":1.5)", "tokens_to_generate must be an integer greater than 0"},
      {R"("tokens_to_generate":-1)",
       "tokens_to_generate must be an integer greater than or equal to 0"},
      {R"("logprobs":1)", "logprobs must be a boolean value"},
      {R"("tokens_to_generate":0)", "tokens_to_generate=0 implies logprobs should be True"},
      {R"("temperature":"x")",
       "temperature must be a positive number less than or equal to 1000.0"},
      {R"("temperature":0)", "temperature must be a positive number less than or equal to 100.0"},
      {R"("temperature":100.5)",
       "temperature must be a positive number less than or equal to 100.0"},
      {R"("top_k":0.5)",
       "top_k must be an integer equal to or greater than 0 and less than or equal to 1000"},
      {R"("top_k":1001)",
       "top_k must be equal to or greater than 0 and less than or equal to 1000"},
      {R"("top_p":1)", "top_p must be a positive float less than or equal to 1.0"},
      {R"("top_k":5,"top_p":0.9)", "cannot set both top-k and top-p samplings."},
      {R"("top_p":1.5)", "top_p must be less than or equal to 1.0"},
      {R"("top_p_decay":1)", "top_p_decay must be a positive float less than or equal to 1.0"},
      {R"("top_p_decay":0.5)", "top_p_decay cannot be set without top_p"},
      {R"("top_p":0.5,"top_p_decay":1.5)", "top_p_decay must be less than or equal to 1.0"},
      {R"("top_p_bound":1)", "top_p_bound must be a positive float less than or equal to top_p"},
      {R"("top_p_bound":0.5)", "top_p_bound cannot be set without top_p"},
      {R"("top_p":0.5,"top_p_bound":0.6)",
       "top_p_bound must be greater than 0 and less than top_p"},
      {R"("add_BOS":1)", "add_BOS must be a boolean value"},
      {R"({"prompts":["a",""]})", "Empty prompts require add_BOS=true"},
      {R"("stop_on_double_eol":0)", "stop_on_double_eol must be a boolean value"},
      {R"("stop_on_eol":0)", "stop_on_eol must be a boolean value"},
      {R"("prevent_newline_after_colon":0)", "prevent_newline_after_colon must be a boolean value"},
      {R"("random_seed":0.5)", "random_seed must be integer"},
      {R"("random_seed":-1)", "random_seed must be a positive integer"},
      {R"("no_log":0)", "no_log must be a boolean value"},
      {R"("beam_width":0.5)", "beam_width must be integer"},
      {R"("beam_width":0)", "beam_width must be an integer > 1"},
      {R"({"prompts":["a","b"],"beam_width":2})", "When doing beam_search, batch size must be 1"},
      {R"("stop_token":0.5)", "stop_token must be an integer"},
      {R"("length_penalty":1)", "length_penalty must be a float"},
      {R"([)", "400 the body is no JSON object"},
      {R"([1])", "400 the body is no JSON object"},
  };
  for (const auto& [body, text] : cases) {
    const bool whole = body[0] == '{' || body[0] == '[';
    EXPECT_EQ(refusal(whole ? body : concat(R"({"prompts":["a"],)", body, "}")), text) << body;
  }
  std::string many = R"({"prompts":["a")";
  for (int i = 0; i < 128; ++i) many += R"(,"a")";
  EXPECT_EQ(refusal(many + "]}"), "400 Maximum number of prompts is 128");
}

// Of several the first in the server's order.
TEST(MegatronRequest, Order) {
  EXPECT_EQ(refusal(R"({"prompts":[],"max_len":3})"),
            "400 max_len is no longer used.  Replace with tokens_to_generate");
  EXPECT_EQ(refusal(R"({"prompts":[""],"top_p":1})"),
            "top_p must be a positive float less than or equal to 1.0");
}

// True is the integer 1 there.
TEST(MegatronRequest, TruthsAreIntegers) {
  EXPECT_EQ(parse_megatron_request(R"({"prompts":["a"],"top_k":true})").top_k, 1);
}

// A tokenizer with tokens for a newline (0), two of them (1) and a colon (2).
class Lines final : public Letters {
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.push_back(text == "\n" ? 0 : text == "\n\n" ? 1 : 2);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return ids[0] == 0 ? "\n" : ids[0] == 1 ? "\n\n" : ":";
  }
};

TEST(MegatronRequest, Completion) {
  const Lines tokenizer;
  const auto options_of = [&](const std::string& fields) {
    return parse_megatron_request(R"({"prompts":["a"],)" + fields + "}").completion(tokenizer, 7);
  };
  const CompletionOptions options = options_of(
      R"("tokens_to_generate":3,"top_p":0.9,"top_p_decay":0.5,"top_p_bound":0.1,"temperature":2,
         "add_BOS":true,"logprobs":true,"prevent_newline_after_colon":true)");
  EXPECT_EQ(options.num_tokens, 3);
  EXPECT_EQ(options.sampling, (SamplingOptions{{.temperature = 2, .top_p = 0.9, .seed = 7}}));
  EXPECT_EQ(options.top_p_decay, (TopPDecay{0.5, 0.1}));
  EXPECT_TRUE(options.begin_document && !options.ignore_eod);
  EXPECT_EQ(options.logprobs, 0);
  EXPECT_EQ(options.rules.never_behind, std::pair(2, 0));

  const CompletionOptions line = options_of(R"("stop_on_eol":true)");
  EXPECT_TRUE(line.ignore_eod);
  EXPECT_EQ(line.last_tokens, (std::vector<std::int32_t>{1, 0}));
  const CompletionOptions lines = options_of(R"("stop_on_double_eol":true,"stop_on_eol":true)");
  EXPECT_EQ(lines.last_tokens, std::vector<std::int32_t>{1});
  EXPECT_EQ(lines.last_pair, 0);
}

}  // namespace
}  // namespace mt
