// A program that starts its own ranks: what it says and ends with when one of them fails in each
// way, on one host and on two, and that nothing of it stays behind.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/support/matches.h"

namespace mt {
namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

class Supervise : public testing::Test {
 protected:
  // A shell script, with the program as $ranks, a free port as $port and a folder as $folder.
  // `until FILE TEXT` waits for a text in a file there.
  Outcome run(const std::string& script) {
    const std::string out = folder_.path("out"), err = folder_.path("err");
    const std::string port = std::to_string(15000 + ::getpid() % 17000);
    const std::string before =
        concat("ranks=", MT_RANK_PROGRAM, " port=", port, " folder=", folder_.path(""),
               "\nuntil_in() { until grep -qs \"$2\" \"$folder/$1\"; do "
               "sleep 0.01; done; }\nexec >",
               out, " 2>", err, "\n");
    const int status = std::system((before + script).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }

  Scratch folder_;
};

bool has_line(const std::string& text, const std::string& pattern) {
  return matches(text, "(.*\n)?" + pattern + "\n(.*)");
}

TEST_F(Supervise, RanksThatEndWell) {
  const Outcome three = run("$ranks --gpus 3");
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(three.out, "done by 3\n");
  for (const char* line : {"attempt 0", "rank 1: attempt 0", "rank 2: attempt 0"})
    EXPECT_TRUE(has_line(three.err, line)) << three.err;
  const Outcome one = run("$ranks --gpus 1");
  EXPECT_EQ(one.out, "done by 1\n");
}

TEST_F(Supervise, ARankThatThrows) {
  const Outcome outcome = run("$ranks --gpus 3 --steps 100000 --misbehaviour 2:throw");
  EXPECT_EQ(outcome.code, 65);
  for (const char* line :
       {"ranks: rank 2 \\([^\n]+\\): token 99 of shard 7",
        "rank 1: ranks: rank 2 \\([^\n]+\\): token 99 of shard 7",
        "rank 2: ranks: token 99 of shard 7", "ranks: rank 2 ended with exit code 65"})
    EXPECT_TRUE(has_line(outcome.err, line)) << line << " in\n" << outcome.err;
}

TEST_F(Supervise, ARankThatIsKilled) {
  for (const char* rank : {"0", "2"}) {
    const Outcome outcome =
        run(concat("$ranks --gpus 3 --steps 100000 --misbehaviour ", rank, ":kill"));
    EXPECT_EQ(outcome.code, 128 + 9);
    for (const std::string& line :
         {concat("rank 1: ranks: rank ", rank, " \\([^\n]+\\) is gone: its connection was lost"),
          concat("ranks: rank ", rank, " was killed by SIGKILL")})
      EXPECT_TRUE(has_line(outcome.err, line)) << line << " in\n" << outcome.err;
  }
}

// What is wrong, with the shortest timeout that nothing is wrong with: processes of a busy machine
// may not get as far in a short one as they should.
std::string wrong_at_last(const std::function<std::string(int milliseconds)>& wrong) {
  std::string text;
  for (const int milliseconds : {800, 3200, 12800})
    if (text = wrong(milliseconds); text.empty()) return "";
  return text;
}

TEST_F(Supervise, ARankThatIsStopped) {
  EXPECT_EQ(wrong_at_last([&](int milliseconds) {
              const Outcome outcome = run(concat("$ranks --gpus 3 --milliseconds ", milliseconds,
                                                 " --steps 100000 --misbehaviour 1:stop"));
              const bool named =
                  has_line(outcome.err,
                           "ranks: rank [02] ended with exit code 76; killed, since they did not "
                           "end by themselves: rank 1");
              return outcome.code == 76 && named ? "" : concat(outcome.code, " ", outcome.err);
            }),
            "");
}

// The others wait for their GPUs, which wait for the rank; all say who it is.
TEST_F(Supervise, WhoMakesGpusWaitIsNamed) {
  const std::string sum = "all_reduce of 4096 float32 among 3";
  const auto wrong = [&](int milliseconds) {
    const std::string behind = concat(" \\([^\n]+\\) did not come to operation 7 of its group, ",
                                      sum, ", in ", milliseconds / 1000.0, " s");
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"1:idle", "rank 1" + behind},
        {"0:idle", "rank 0" + behind},
        {"2:other", concat("rank 2 \\([^\n]+\\) is in operation 7 of its group, all_gather of 64 "
                           "float32 among 3, while rank 0 \\([^\n]+\\) is in operation 7 of its "
                           "group, ",
                           sum)},
        {"1:stop",
         concat(
             "rank 1 \\([^\n]+\\) has said nothing for [0-9.]+ s: its process is stopped, or its "
             "host cannot be reached; rank [02] \\([^\n]+\\) has waited for its GPU for [0-9.]+ s "
             "since it has begun operation 7 of its group, ",
             sum)},
        {"1:kill", "rank 1 \\([^\n]+\\) is gone: its connection was lost"},
        {"1:throw", "rank 1 \\([^\n]+\\): token 99 of shard 7"}};
    std::string script;
    for (const auto& [how, line] : cases)
      script += concat("($ranks --gpus 3 --milliseconds ", milliseconds, " --hang --misbehaviour ",
                       how, " 2>$folder/", how, "; echo code $? >>$folder/", how, ") & ");
    run(script + "wait");
    std::string all;
    for (const auto& [how, line] : cases) {
      const std::string err = read_file(folder_.path(how));
      const int code = how == "1:kill" ? 137 : how == "1:throw" ? 65 : 76;
      bool said = has_line(err, concat("code ", code));
      for (const char* rank : {"", "rank 2: "})
        said = said && has_line(err, concat(rank, "ranks: ", line));
      if (!said) all += concat(how, ":\n", err);
    }
    return all;
  };
  EXPECT_EQ(wrong_at_last(wrong), "");
}

TEST_F(Supervise, ARankThatLeaves) {
  const Outcome outcome = run("$ranks --gpus 3 --steps 100000 --misbehaviour 1:leave");
  EXPECT_EQ(outcome.code, 76);
  EXPECT_TRUE(has_line(outcome.err, "ranks: rank 1 \\([^\n]+\\) is gone: its connection was lost"))
      << outcome.err;
}

TEST_F(Supervise, ASignalStopsAllAndIsNoFailure) {
  for (const char* signal : {"TERM", "USR1"}) {
    const Outcome outcome =
        run(concat("rm -f $folder/err2; $ranks --gpus 3 --steps 100000 "
                   "--max-restarts 3 2>$folder/err2 & pid=$!; until_in err2 'rank 2: attempt'; "
                   "kill -",
                   signal, " $pid; wait $pid; code=$?; cat $folder/err2 >&2; exit $code"));
    EXPECT_EQ(outcome.code, 75);
    EXPECT_TRUE(
        matches(outcome.err, "((rank [12]: )?attempt 0\n)+ranks: stopped after step [0-9]+\n"))
        << outcome.err;
  }
}

TEST_F(Supervise, WhoStaysBehindRankZeroIsKilledSoon) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome =
      run("$ranks --gpus 2 --steps 100000 --milliseconds 1000 --misbehaviour 0:end "
          "--misbehaviour 1:stop");
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST_F(Supervise, StartsAllAgainAfterALoss) {
  const Outcome twice = run("$ranks --gpus 3 --steps 100 --max-restarts 2 --misbehaviour 1:kill");
  EXPECT_EQ(twice.code, 0);
  EXPECT_EQ(twice.out, "done by 3\n");
  for (const char* line : {"ranks: warning: rank 1 was killed by SIGKILL; starting all again, "
                           "restart 1 of 2",
                           "rank 2: attempt 1"})
    EXPECT_TRUE(has_line(twice.err, line)) << twice.err;
  const Outcome ever =
      run("$ranks --gpus 2 --steps 100 --max-restarts 2 --misbehaviour 1:break "
          "--always");
  EXPECT_EQ(ever.code, 74);
  EXPECT_TRUE(has_line(ever.err, "rank 1: attempt 2")) << ever.err;
  const Outcome alone = run("$ranks --gpus 1 --max-restarts 1 --misbehaviour 0:kill");
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, "done by 1\n");
  const Outcome not_again =
      run("$ranks --gpus 2 --steps 100 --max-restarts 2 --misbehaviour 1:throw --always");
  EXPECT_EQ(not_again.code, 65);
  EXPECT_FALSE(has_line(not_again.err, "rank 1: attempt 1")) << not_again.err;
}

TEST_F(Supervise, NothingStaysBehindASupervisorThatIsKilled) {
  const Outcome outcome =
      run("$ranks --gpus 3 --steps 100000 2>$folder/err2 & pid=$!\n"
          "until_in err2 'rank 2: attempt'\n"
          "children=$(cat /proc/$pid/task/$pid/children); echo $children | wc -w\n"
          "kill -9 $pid\n"
          "for child in $children; do\n"
          "  until ! grep -qs '^State:.[^Z]' /proc/$child/status; do sleep 0.01; done\n"
          "done");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "3\n");
}

TEST_F(Supervise, AProgramThatIsGoneCannotStartAgain) {
  const Outcome outcome =
      run("cp $ranks $folder/copy; $folder/copy --gpus 2 --steps 100000 --max-restarts 3 "
          "2>$folder/err2 & pid=$!\n"
          "until_in err2 'rank 1: attempt'; rm $folder/copy\n"
          "set -- $(cat /proc/$pid/task/$pid/children); kill -9 $1\n"
          "wait $pid; code=$?; cat $folder/err2 >&2; exit $code");
  EXPECT_EQ(outcome.code, 66);
  for (const char* rank : {"", "rank 1: "})
    EXPECT_TRUE(has_line(outcome.err, concat(rank,
                                             "[^\n]*/copy[^\n]*: cannot be started: No such "
                                             "file or directory")))
        << outcome.err;
}

std::string two_hosts(const std::string& arguments) {
  return concat(
      "at=\"--gpus 2 --nnodes 2 --master localhost:$port\"\n"
      "$ranks $at --node-rank 1 ",
      arguments, " 2>$folder/err1 & pid=$!\n$ranks $at --node-rank 0 ", arguments,
      "; code0=$?; wait $pid; echo $code0 $?; sed 's/^/second: /' $folder/err1 >&2");
}

TEST_F(Supervise, TwoHostsMeet) {
  const Outcome outcome = run(two_hosts(""));
  EXPECT_EQ(outcome.out, "done by 4\n0 0\n") << outcome.err;
}

TEST_F(Supervise, AFailureOnOneHostEndsBoth) {
  const Outcome outcome = run(two_hosts("--steps 100000 --misbehaviour 3:kill"));
  EXPECT_EQ(outcome.out, "76 137\n");
  for (const char* line : {"second: ranks: rank 3 was killed by SIGKILL",
                           "ranks: rank 3 \\([^\n]+\\) is gone: its connection was lost",
                           "ranks: rank [01] ended with exit code 76"})
    EXPECT_TRUE(has_line(outcome.err, line)) << outcome.err;
}

TEST_F(Supervise, BothHostsStartAgain) {
  const Outcome outcome = run(two_hosts("--steps 50 --max-restarts 1 --misbehaviour 3:kill"));
  EXPECT_EQ(outcome.out, "done by 4\n0 0\n") << outcome.err;
}

TEST_F(Supervise, BothHostsEndWithTheLastRestartAndNameWhoFailed) {
  for (const auto& [how, restarts] : {std::pair("kill", 2), std::pair("absent", 1)}) {
    const Outcome outcome = run(two_hosts(
        concat("--steps 100000 --always --misbehaviour 3:", how, " --max-restarts ", restarts)));
    EXPECT_EQ(outcome.out, "76 137\n") << how;
    const std::string killed = "rank 3 was killed by SIGKILL[^\n]*";
    for (const std::string host : {"", "second: "}) {
      EXPECT_TRUE(has_line(outcome.err, host + "ranks: " + killed)) << outcome.err;
      for (int restart = 1; restart <= restarts; ++restart)
        EXPECT_TRUE(has_line(
            outcome.err, concat(host, "ranks: warning: ", killed, "; starting all again, restart ",
                                restart, " of ", restarts)))
            << outcome.err;
    }
  }
}

TEST_F(Supervise, AFailureThatWouldComeAgainEndsBothHosts) {
  const Outcome outcome =
      run(two_hosts("--steps 100000 --max-restarts 2 --always --misbehaviour 2:throw"));
  EXPECT_EQ(outcome.out, "76 65\n");
  for (const char* host : {"", "second: "})
    EXPECT_TRUE(has_line(outcome.err, concat(host, "ranks: rank 2 ended with exit code 65")))
        << outcome.err;
  EXPECT_FALSE(has_line(outcome.err, "[^\n]*starting all again[^\n]*")) << outcome.err;
}

TEST_F(Supervise, AHostThatIsLostAndComesBackGoesOnWithTheOther) {
  const Outcome outcome =
      run("at=\"--gpus 2 --nnodes 2 --master localhost:$port --steps 200 --max-restarts 2\"\n"
          "$ranks $at --node-rank 0 & first=$!\n"
          "$ranks $at --node-rank 1 2>$folder/err1 & second=$!\n"
          "until_in err1 'rank 2: attempt'; kill -9 $second\n"
          "$ranks $at --node-rank 1 2>$folder/err2; code=$?\n"
          "wait $first; echo $? $code; cat $folder/err2 >&2");
  EXPECT_EQ(outcome.out, "done by 4\n0 0\n") << outcome.err;
  EXPECT_TRUE(has_line(outcome.err, "rank 3: attempt 1")) << outcome.err;
}

TEST_F(Supervise, ASignalEndsTheWaitForOtherHosts) {
  const Outcome outcome = run(
      "$ranks --gpus 2 --nnodes 2 --master localhost:$port --node-rank 0 --max-restarts 1 & "
      // A shell that forks holds TERM back, too, and who starts a thread holds all signals back.
      "pid=$!; until [ /proc/$pid/exe -ef $ranks ] && "
      "grep -qs '^SigBlk:.00000000.*[4-7c-f]...$' /proc/$pid/status; do sleep 0.01; done; "
      "kill -TERM $pid; wait $pid");
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(outcome.err, "ranks: stopped by SIGTERM while it waited for other hosts\n");
}

// Ranks that a launcher has started, by its variables.
TEST_F(Supervise, OtherLaunchersStartTheRanksThemselves) {
  const Outcome torchrun =
      run("export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port\n"
          "RANK=1 LOCAL_RANK=1 $ranks & RANK=0 LOCAL_RANK=0 $ranks --gpus 2; wait $!");
  EXPECT_EQ(torchrun.code, 0) << torchrun.err;
  EXPECT_EQ(torchrun.out, "done by 2\n");
  const Outcome slurm =
      run("export SLURM_NTASKS=2 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=$port\n"
          "SLURM_PROCID=1 $ranks & SLURM_PROCID=0 $ranks; wait $!");
  EXPECT_EQ(slurm.code, 0) << slurm.err;
  EXPECT_EQ(slurm.out, "done by 2\n");
}

// The rank finds the step's variables too, and starts nothing in its turn.
TEST_F(Supervise, OneRankInAStepOfSlurmsIsStartedOnce) {
  const Outcome outcome =
      run("export SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=$port\n"
          "timeout -s KILL 20 $ranks --max-restarts 1 --misbehaviour 0:kill");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "done by 1\n");
  EXPECT_TRUE(has_line(outcome.err, "attempt 1")) << outcome.err;
}

}  // namespace
}  // namespace mt
