// What is asked of a task's documents is what lm-evaluation-harness asks.
#include "eval/tasks/task_prompt.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "eval/tasks/builtin_tasks.h"
#include "text/chat/chat_python.h"

namespace mt {
namespace {

std::vector<ChatValue> lines_of(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<ChatValue> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(chat_value_of_json(std::string_view(text).substr(at, end - at), path));
    at = end + 1;
  }
  return lines;
}

// Made by scripts/compare-tasks.py --goldens: what the harness itself asks.
TEST(TaskPrompt, AsTheHarness) {
  const std::vector<ChatValue> lines = lines_of(MT_TESTDATA "/eval/prompts.jsonl");
  ASSERT_EQ(lines.size(), 42U);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string name = *lines[i].find("task")->text();
    const std::int64_t shots = *lines[i].find("num_fewshot")->integer();
    SCOPED_TRACE(name + " " + std::to_string(shots));
    const EvalTask task = read_eval_task(builtin_task(name).value(), name);
    TaskPrompts prompts(task, *lines[i].find("pool")->items(), "pool", {.num_fewshot = shots});
    const auto& docs = *lines[i].find("documents")->items();
    for (std::size_t k = 0; k < docs.size(); ++k) {
      const EvalItem item = prompts.item(static_cast<std::int64_t>(k), docs[k], "documents");
      const auto& asked = *(*lines[i].find("requests")->items())[k].items();
      ASSERT_EQ(item.requests.size(), asked.size());
      for (std::size_t r = 0; r < asked.size(); ++r) {
        EXPECT_EQ(item.requests[r].context, python_text((*asked[r].items())[0]));
        const bool follows = asked[r].items()->size() > 1;
        EXPECT_EQ(item.requests[r].continuation,
                  follows ? python_text((*asked[r].items())[1]) : "");
      }
      EXPECT_EQ(python_repr(item.target), python_repr((*lines[i].find("targets")->items())[k]));
      EXPECT_EQ(sha256_hex(chat_value_json(item.doc, {.indent = 2, .item = ","})),
                python_text((*lines[i].find("hashes")->items())[k]));
    }
  }
}

EvalTask task_of(std::string_view keys) {
  return read_eval_task(concat("task: t\noutput_type: multiple_choice\ndoc_to_text: q\n",
                               "doc_to_choice: [\"x\", \"y\"]\ndoc_to_target: a\n", keys),
                        "t.task");
}
ChatValue doc(const char* json) { return chat_value_of_json(json, "doc"); }

// A conversation is one message of all examples, or two of each; the answer's beginning is begun.
TEST(TaskPrompt, Conversations) {
  const EvalTask task = task_of("gen_prefix: \"So\"\ndescription: \"D.\"\n");
  const auto chat = [](const ChatValue& messages, bool goes_on) {
    return chat_value_json(messages) + (goes_on ? " goes on" : "");
  };
  const std::vector<ChatValue> pool = {doc(R"({"q":"1?","a":0})")};
  const auto context = [&](bool multiturn) {
    const EvalTask of =
        task_of("fewshot_split: train\ntest_split: test\ngen_prefix: So\ndescription: D.\n");
    TaskPrompts prompts(of, pool, "pool",
                        {.num_fewshot = 1, .system = "S", .chat = chat, .multiturn = multiturn});
    const EvalItem item = prompts.item(0, doc(R"({"q":"2?","a":1})"), "doc");
    EXPECT_EQ(item.requests[1].continuation, " y");
    return item.requests[0].context;
  };
  EXPECT_EQ(context(false), R"([{"role": "system", "content": "S\n\nD."}, )"
                            R"({"role": "user", "content": "1? So x\n\n2?"}, )"
                            R"({"role": "assistant", "content": "So"}] goes on)");
  EXPECT_EQ(context(true),
            R"([{"role": "system", "content": "S\n\nD."}, {"role": "user", "content": "1?"}, )"
            R"({"role": "assistant", "content": "So x"}, {"role": "user", "content": "2?"}, )"
            R"({"role": "assistant", "content": "So"}] goes on)");
}

TEST(TaskPrompt, RefusesWhatItCannotAsk) {
  const auto wrong = [](std::string_view keys, const char* json) -> std::string {
    try {
      const EvalTask task = task_of(keys);
      TaskPrompts prompts(task, {}, "pool", {});
      prompts.item(0, doc(json), "d.jsonl:1");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(wrong("", R"({"q":"?","a":0})"), "");
  EXPECT_EQ(wrong("include: x\n", "{}"), "t.task: include: is not supported");
  EXPECT_EQ(wrong("process_results: !function u.f\n", "{}"),
            "t.task:6: \"!function u.f\": code is not run; a template can say it");
  EXPECT_EQ(wrong("metric_list:\n- metric: bleu\n", "{}"),
            "t.task: metric_list: the metric bleu is not supported");
  EXPECT_EQ(wrong("metric_list: [{metric: perplexity}]\n", "{}"),
            "t.task: metric_list: the metric perplexity is none of multiple_choice");
  EXPECT_EQ(wrong("description: \"{{ b }}\"\n", R"({"q":"?","a":0})"),
            "d.jsonl:1: t.task: description:1:4: 'b' is undefined");
}

}  // namespace
}  // namespace mt
