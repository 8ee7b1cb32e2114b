#include "post/policy/environment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "base/error.h"
#include "post/policy/policy_prompts.h"

namespace mt {
namespace {

// What a program answers to two texts.
struct Answered {
  EnvironmentProgram::Answers answers;
  std::vector<EnvironmentProgram::Dialogue> dialogues;
};

Answered answered_by(const std::string& command) {
  std::signal(SIGPIPE, SIG_IGN);
  static const PolicyPrompt kPrompt = {.ids = {}, .text = "2+3="};
  Answered all{.answers = {}, .dialogues = {2, {.prompt = &kPrompt, .response = "5"}}};
  EnvironmentProgram::Dialogue* const asked[] = {&all.dialogues[0], &all.dialogues[1]};
  all.answers = EnvironmentProgram(command, {.seconds = 60}).answer(asked, [] { return false; });
  return all;
}

TEST(EnvironmentProgram, WhatIsNullIsNotThere) {
  const Answered all = answered_by(
      R"(cat > /dev/null; echo '{"id":0,"reward":null,"observation":"So?","done":null}'
echo '{"id":1,"reward":2,"observation":null}')");
  EXPECT_EQ(all.answers.wrong, "");
  EXPECT_EQ(all.answers.go_on, (std::vector<bool>{true, false}));
  EXPECT_EQ(all.dialogues[0].reward, 0);
  EXPECT_EQ(all.dialogues[1].reward, 2);
  EXPECT_EQ(all.dialogues[0].messages.size(), 2U);
}

TEST(EnvironmentProgram, RewardsOfTurnsAreAddedUpByTheirNames) {
  Answered all = answered_by(
      R"(cat > /dev/null; echo '{"id":0,"reward":{"move":1,"win":0},"observation":"So?"}'
echo '{"id":1,"reward":{"move":-1},"done":true}')");
  EXPECT_EQ(all.answers.wrong, "");
  EnvironmentProgram::Dialogue* const first[] = {&all.dialogues[0]};
  EnvironmentProgram(R"(cat > /dev/null; echo '{"id":0,"reward":{"win":2,"move":1}}')",
                     {.seconds = 60})
      .answer(first, [] { return false; });
  EXPECT_EQ(all.dialogues[0].reward, 4);
  EXPECT_EQ(all.dialogues[0].named, (NamedRewards{{"move", 2}, {"win", 2}}));
  EXPECT_EQ(all.dialogues[1].reward, -1);
}

// Also of one that has said something of each text.
TEST(EnvironmentProgram, WhatIsWrongIsNamed) {
  const std::string both =
      R"(cat > /dev/null; echo '{"id":0,"done":true}'; echo '{"id":1,"reward":1}'; )";
  Answered all = answered_by(both + "exit 3");
  EXPECT_EQ(all.answers.wrong, "exited with 3");
  EXPECT_EQ(all.dialogues[1].reward, 1);
  all = answered_by(both + "echo nonsense");
  EXPECT_EQ(all.answers.wrong, "printed line 3, which is no JSON object");
  EXPECT_EQ(all.dialogues[1].reward, 1);
  for (const char* const stop : {"\"a\"", "[\"\"]", "[1]"})
    EXPECT_EQ(answered_by(concat(R"(cat > /dev/null; echo '{"id":0,"done":false,"stop":)", stop,
                                 R"(}'; echo '{"id":1,"done":true}')"))
                  .answers.wrong,
              "printed line 1, which has a stop that is no list of texts");
  all = answered_by("cat");
  EXPECT_EQ(all.answers.wrong,
            "printed line 1, which has neither a reward nor an observation nor done");
  EXPECT_TRUE(std::isnan(all.dialogues[0].reward));
  all = answered_by(R"(cat > /dev/null; echo '{"id":0,"done":true}')");
  EXPECT_EQ(all.answers.wrong, "said nothing of 1 texts");
  EXPECT_TRUE(std::isnan(all.dialogues[1].reward));
}

}  // namespace
}  // namespace mt
