#include "text/chat/chat_sources.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/base/scratch.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hf_files.h"

namespace mt {
namespace {

ChatValue json(std::string_view text) { return chat_value_of_json(text, "test"); }

ChatInput conversation(bool prompt = true) {
  return {
      .messages = json(R"([{"role":"system","content":"S"},{"role":"user","content":"U1"},)"
                       R"({"role":"assistant","content":"A1"},{"role":"user","content":"U2"}])"),
      .add_generation_prompt = prompt,
      .special_tokens = {{"bos_token", "<BOS>"}, {"eos_token", "<EOS>"}},
      .clock = [] { return std::time_t{1785585600}; }};
}

std::string built_in(std::string_view name, const ChatInput& input = conversation()) {
  return ChatTemplate(*builtin_chat(name), std::string(name)).render(input).text;
}

ChatInput without_system() {
  ChatInput input = conversation();
  std::vector<ChatValue> messages = *input.messages.items();
  messages.erase(messages.begin());
  input.messages = ChatValue::list(std::move(messages));
  return input;
}

class Folder {
 public:
  void put(const std::string& name, const std::string& content) const {
    const std::string path = folder_.path(name.c_str());
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << content;
  }
  std::string path() const { return folder_.path(""); }
  std::string chosen(const std::string& asked = "", bool tools = false) const {
    const auto files = chat_files_in(path());
    return choose_chat_template({.asked = asked, .files = files, .place = "F", .tools = tools})
        .source();
  }

 private:
  Scratch folder_;
};

}  // namespace

// What the templates of the families render, with transformers 5.24.
TEST(ChatFamilies, RenderAsTheirsDo) {
  const std::string turns =
      "<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
      "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n";
  const std::string chatml = "<|im_start|>system\nS<|im_end|>\n" + turns;
  EXPECT_EQ(built_in("chatml"), chatml);
  EXPECT_EQ(built_in("qwen2.5"), chatml);
  EXPECT_EQ(
      built_in("qwen2.5", without_system()),
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
      "<|im_end|>\n" +
          turns);
  EXPECT_EQ(built_in("qwen3"), chatml);
  EXPECT_EQ(built_in("nemotron3"),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n"
            "<|im_start|>assistant\n<think></think>A1<|im_end|>\n<|im_start|>user\nU2<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n");
  EXPECT_EQ(built_in("llama2"),
            "<BOS>[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 <EOS><BOS>[INST] U2 [/INST]");
  EXPECT_EQ(built_in("mistral-v1"), "<BOS> [INST] S\n\nU1 [/INST] A1<EOS> [INST] U2 [/INST]");
  for (const char* const name : {"mistral-v2", "mistral-v3"})
    EXPECT_EQ(built_in(name), "<BOS>[INST] U1[/INST] A1<EOS>[INST] S\n\nU2[/INST]");
  EXPECT_EQ(built_in("mistral-v3-tekken"), "<BOS>[INST]U1[/INST]A1<EOS>[INST]S\n\nU2[/INST]");
  EXPECT_EQ(built_in("mistral-v7"),
            "<BOS>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U1[/INST]A1<EOS>[INST]U2[/INST]");
  for (const char* const name : {"phi3", "phi3.5"})
    EXPECT_EQ(built_in(name),
              "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\n"
              "U2<|end|>\n<|assistant|>\n");
  EXPECT_EQ(built_in("phi4"),
            "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U1<|im_end|>"
            "<|im_start|>assistant<|im_sep|>A1<|im_end|><|im_start|>user<|im_sep|>U2<|im_end|>"
            "<|im_start|>assistant<|im_sep|>");
  EXPECT_EQ(built_in("deepseek-v3"),
            "<BOS>S<｜User｜>U1<｜Assistant｜>A1<｜end▁of▁sentence｜><｜User｜>U2<｜Assistant｜>");
  EXPECT_EQ(built_in("deepseek-r1"), built_in("deepseek-v3") + "<think>\n");
  const std::string turn = "<|START_OF_TURN_TOKEN|><|", end = "<|END_OF_TURN_TOKEN|>";
  EXPECT_EQ(built_in("cohere"), "<BOS>" + turn + "SYSTEM_TOKEN|>S" + end + turn + "USER_TOKEN|>U1" +
                                    end + turn + "CHATBOT_TOKEN|>A1" + end + turn +
                                    "USER_TOKEN|>U2" + end + turn + "CHATBOT_TOKEN|>");
  EXPECT_EQ(built_in("glm4"),
            "[gMASK]<sop><|system|>\nS<|user|>\nU1<|assistant|>\n<think></think>\nA1<|user|>\nU2"
            "<|assistant|>");
  EXPECT_EQ(built_in("exaone"),
            "[|system|]S[|endofturn|]\n[|user|]U1\n[|assistant|]A1[|endofturn|]\n[|user|]U2\n"
            "[|assistant|]");
  EXPECT_EQ(built_in("vicuna"), "S USER: U1 ASSISTANT: A1 USER: U2 ASSISTANT:");
  EXPECT_EQ(built_in("alpaca"),
            "<BOS>S\n\n### Instruction:\nU1\n\n### Response:\nA1<EOS>\n\n### Instruction:\nU2\n\n"
            "### Response:\n");
}

TEST(ChatFamilies, Llama3RendersAsTheirsDoes) {
  const auto turn = [](const std::string& role, const std::string& text) {
    return "<|start_header_id|>" + role + "<|end_header_id|>\n\n" + text;
  };
  const std::string turns = turn("user", "U1<|eot_id|>") + turn("assistant", "A1<|eot_id|>") +
                            turn("user", "U2<|eot_id|>") + turn("assistant", "");
  const auto dated = [&](const std::string& date, const std::string& system) {
    return "<BOS>" +
           turn("system", "Cutting Knowledge Date: December 2023\nToday Date: " + date + "\n\n" +
                              system + "<|eot_id|>") +
           turns;
  };
  EXPECT_EQ(built_in("llama3"), "<BOS>" + turn("system", "S<|eot_id|>") + turns);
  for (const char* const name : {"llama3.1", "llama3.3"}) {
    EXPECT_EQ(built_in(name), dated("26 Jul 2024", "S"));
    EXPECT_EQ(built_in(name, without_system()), dated("26 Jul 2024", ""));
  }
  EXPECT_EQ(built_in("llama3.2"), dated("01 Aug 2026", "S"));
  ChatInput input = conversation();
  input.kwargs = json(R"({"date_string":"1 Jan 2000"})");
  EXPECT_EQ(built_in("llama3.2", input), dated("1 Jan 2000", "S"));
}

TEST(ChatFamilies, GemmaAndGptOssRenderAsTheirsDo) {
  const std::string rest =
      "<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n<start_of_turn>user\nU2<end_of_turn>\n"
      "<start_of_turn>model\n";
  EXPECT_EQ(error_of([] { built_in("gemma"); }), "65 System role not supported");
  for (const char* const name : {"gemma", "gemma2", "gemma3"})
    EXPECT_EQ(built_in(name, without_system()), "<BOS><start_of_turn>user\nU1" + rest);
  EXPECT_EQ(built_in("gemma3"), "<BOS><start_of_turn>user\nS\n\nU1" + rest);
  ChatInput odd = conversation();
  odd.messages = json(R"([{"role":"assistant","content":"A"}])");
  EXPECT_EQ(error_of([&] { built_in("gemma", odd); }),
            "65 Conversation roles must alternate user/assistant/user/assistant/...");
  EXPECT_EQ(built_in("gpt-oss"),
            "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
            "Knowledge cutoff: 2024-06\nCurrent date: 2026-08-01\n\nReasoning: medium\n\n"
            "# Valid channels: analysis, commentary, final. Channel must be included for every "
            "message.<|end|><|start|>developer<|message|># Instructions\n\nS\n\n<|end|>"
            "<|start|>user<|message|>U1<|end|><|start|>assistant<|channel|>final<|message|>A1"
            "<|end|><|start|>user<|message|>U2<|end|><|start|>assistant");
}

TEST(ChatFamilies, Qwen3KeepsOnlyTheLastThoughts) {
  ChatInput input = conversation(false);
  input.messages = json(R"([{"role":"user","content":"U1"},)"
                        R"({"role":"assistant","content":"<think>\nhm\n</think>\n\nA1"},)"
                        R"({"role":"user","content":"U2"},)"
                        R"({"role":"assistant","content":"A2","reasoning_content":"so"}])");
  EXPECT_EQ(built_in("qwen3", input),
            "<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
            "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n<think>\nso\n</think>\n\nA2"
            "<|im_end|>\n");
  input = conversation();
  input.kwargs = json(R"({"enable_thinking":false})");
  EXPECT_TRUE(built_in("qwen3", input).ends_with("assistant\n<think>\n\n</think>\n\n"));
}

TEST(ChatFamilies, RefuseToolsWhichTheyDoNotKnow) {
  ChatInput input = conversation();
  input.tools = json(R"([{"name":"f"}])");
  for (const std::string_view name : builtin_chat_names())
    EXPECT_EQ(
        error_of([&] { built_in(name, input); }),
        concat("65 The template of the family ", name, " knows no tools; the model's own may"));
  input = conversation();
  input.messages = json(R"([{"role":"tool","content":"x"}])");
  EXPECT_EQ(error_of([&] { built_in("chatml", input); }),
            "65 The template of the family chatml knows no role tool");
  EXPECT_FALSE(builtin_chat("none"));
}

TEST(ChatFamilies, AreKnownByTheirTokens) {
  const auto known = [](const std::string& added) {
    return builtin_chat_of(HfFiles(HfParts{.added_tokens = "[" + added + "]"}.text()).load());
  };
  const std::string start = hf_added(9, "<|im_start|>", "special"),
                    end = hf_added(10, "<|im_end|>", "special");
  EXPECT_EQ(known(start + "," + end), "chatml");
  EXPECT_FALSE(known(start));
  EXPECT_EQ(known(start + "," + end + "," + hf_added(11, "<|im_sep|>", "special")), "phi4");
  EXPECT_EQ(known(hf_added(9, "<|start_header_id|>", "special")), "llama3");
}

TEST(ChatSources, TakeTheFirstOfSeveralPlaces) {
  const Folder folder;
  folder.put("chat_template.json", R"({"chat_template":"processor"})");
  EXPECT_EQ(folder.chosen(), "processor");
  folder.put("tokenizer_config.json", R"({"chat_template":"config","bos_token":"<s>"})");
  EXPECT_EQ(folder.chosen(), "config");
  folder.put("tokenizer_config.json",
             R"({"chat_template":[{"name":"default","template":"list"},)"
             R"({"name":"tool_use","template":"tools"},{"name":"rag","template":"rag"}]})");
  EXPECT_EQ(folder.chosen(), "list");
  EXPECT_EQ(folder.chosen("", true), "tools");
  EXPECT_EQ(folder.chosen("rag"), "rag");
  folder.put("additional_chat_templates/rag.jinja", "more");
  EXPECT_EQ(folder.chosen("rag"), "more");
  folder.put("chat_template.jinja", "own");
  EXPECT_EQ(folder.chosen(), "own");
  EXPECT_EQ(folder.chosen("", true), "tools");
  EXPECT_EQ(folder.chosen("chatml"), *builtin_chat("chatml"));
  folder.put("mine.jinja", "mine");
  EXPECT_EQ(folder.chosen(folder.path() + "/mine.jinja"), "mine");
}

TEST(ChatSources, RefuseWhatIsNoTemplate) {
  const Folder folder;
  EXPECT_TRUE(error_of([&] { folder.chosen(); })
                  .starts_with("78 F: has no chat template; --chat-template names a file, or a "
                               "family: alpaca, chatml, "));
  EXPECT_TRUE(
      error_of([&] { folder.chosen("chatnl"); })
          .starts_with("64 --chat-template: no template of the model, no family and no file: "
                       "chatnl; families: alpaca"));
  folder.put("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_EQ(error_of([&] { folder.chosen(); }),
            "65 F/tokenizer_config.json: \"chat_template\": expected a string or a list");
  folder.put("tokenizer_config.json", R"({"chat_template":[{"name":"x"}]})");
  EXPECT_EQ(error_of([&] { folder.chosen(); }),
            "65 F/tokenizer_config.json: \"chat_template\": expected a name and a template");
  folder.put("chat_template.jinja", "{{ x");
  folder.put("tokenizer_config.json", "{}");
  EXPECT_EQ(error_of([&] { folder.chosen(); }), "78 F: chat template:1:1: this tag has no end");
}

TEST(ChatSources, KnowTheSpecialTokens) {
  const Folder folder;
  folder.put("tokenizer_config.json",
             R"({"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>",)"
             R"("eos_token":{"content":"</s>","lstrip":false},"pad_token":null,)"
             R"("extra_special_tokens":{"image_token":"<image>"}})");
  const std::map<std::string, std::string> expected = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"image_token", "<image>"}};
  EXPECT_EQ(chat_special_tokens(chat_files_in(folder.path()), "F"), expected);
  const Gpt2Files files(vocabulary_of({}), "");
  const Gpt2Bpe tokenizer = files.load();
  EXPECT_EQ(chat_special_tokens({}, "F", &tokenizer).at("eos_token"), "<|endoftext|>");
}

}  // namespace mt
