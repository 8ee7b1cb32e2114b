// run_command and the answers that end a program: exit codes, stdout, and the one line on stderr.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/command.h"
#include "base/file.h"
#include "tests/base/scratch.h"

namespace mt {

using Body = void (*)(CommandLine&);

struct Outcome {
  int code;  // 128 + the signal that ended it
  std::string out, err;
};

// run_command in a child process whose stdout is `out`, by default a file that is then read.
static Outcome outcome(Body body, std::vector<std::string> arguments = {}, std::string out = {}) {
  const Scratch scratch;
  const std::string stdout_path = out.empty() ? scratch.path("out") : out;
  const std::string stderr_path = scratch.path("err");
  const pid_t child = ::fork();
  if (child == 0) {
    const int err = ::open(stderr_path.c_str(), O_WRONLY | O_CREAT, 0666);
    const int descriptor = ::open(stdout_path.c_str(), O_WRONLY | O_CREAT, 0666);
    if (descriptor >= 0) ::dup2(descriptor, 1);
    if (descriptor < 0) ::close(1);  // an output that cannot be opened stands for a closed stdout
    ::dup2(err, 2);
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), "mt-x");
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ::_exit(run_command("mt-x", static_cast<int>(argv.size()), argv.data(), body));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {code, out.empty() ? read_file(stdout_path) : "", read_file(stderr_path)};
}

static void expect(const Outcome& got, int code, const std::string& out, const std::string& err) {
  EXPECT_EQ(got.code, code);
  EXPECT_EQ(got.out, out);
  EXPECT_EQ(got.err, err);
}

TEST(RunCommand, ErrorsBecomeOneLine) {
  expect(outcome([](CommandLine&) { std::cout << "done\n"; }), 0, "done\n", "");
  expect(outcome([](CommandLine&) { fail(Exit::bad_data, "x.bin: empty"); }), 65, "",
         "mt-x: x.bin: empty\n");
  expect(outcome([](CommandLine&) { fail(Exit::bad_data, "a\nb\tc\x1b[31m\x7f"); }), 65, "",
         "mt-x: a\\nb\\tc\\x1b[31m\\x7f\n");
  expect(outcome([](CommandLine&) { fail(Exit::difference, ""); }), 1, "", "");
  expect(outcome([](CommandLine&) { throw std::bad_alloc(); }), 71, "", "mt-x: out of memory\n");
  expect(outcome([](CommandLine&) {
           throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
         }),
         71, "",
         "mt-x: no thread more can be started within ulimit -u (processes of a user) and ulimit -v "
         "(KiB of memory)\n");
  expect(outcome([](CommandLine&) { throw std::out_of_range("at 3"); }), 70, "",
         "mt-x: internal error: at 3\n");
  expect(outcome([](CommandLine&) { throw 3; }), 70, "",
         "mt-x: internal error: an exception of unknown type\n");
  expect(outcome([](CommandLine& cl) { cl.parse(); }, {"--sed"}), 64, "",
         "mt-x: --sed: no such option (see mt-x --help)\n");
}

TEST(RunCommand, WhatWasPrintedBeforeAnErrorStays) {
  expect(outcome([](CommandLine&) {
           std::cout << "part";
           std::printf(" of it");
           fail(Exit::bad_data, "broken");
         }),
         65, "part of it", "mt-x: broken\n");
}

TEST(RunCommand, FilesystemErrors) {
  expect(outcome([](CommandLine&) { std::filesystem::create_directory("/nowhere/x"); }), 66, "",
         "mt-x: /nowhere/x: No such file or directory\n");
  expect(outcome([](CommandLine&) {
           throw std::filesystem::filesystem_error(
               "x", "out", std::make_error_code(std::errc::no_space_on_device));
         }),
         74, "", "mt-x: out: No space left on device\n");
}

TEST(RunCommand, AFullOutputIsAnError) {
  const std::string line = "mt-x: stdout: cannot write: No space left on device\n";
  expect(outcome([](CommandLine&) { std::cout << "done\n"; }, {}, "/dev/full"), 74, "", line);
  expect(outcome([](CommandLine&) { std::printf("done\n"); }, {}, "/dev/full"), 74, "", line);
  expect(outcome([](CommandLine& cl) { cl.parse(); }, {"--help"}, "/dev/full"), 74, "", line);
  expect(outcome([](CommandLine&) { File::create("-").write("x"); }, {}, "/dev/full"), 74, "",
         line);
  expect(outcome([](CommandLine&) { std::cout << std::string(1 << 20, 'x') << '\n'; }, {},
                 "/dev/full"),
         74, "", line);
  // It ends the program, which does not go on for nothing.
  const auto endless = [](CommandLine&) {
    for (;;) std::cout << 'x';
  };
  expect(outcome(endless, {}, "/dev/full"), 74, "", line);
  // A silent program does not mind.
  expect(outcome([](CommandLine&) {}, {}, "/dev/full"), 0, "", "");
}

TEST(RunCommand, AFileAsLargeAsAllowedIsAnError) {
  const auto write_more = [](CommandLine&) {
    const rlimit most{100, 100};
    if (::setrlimit(RLIMIT_FSIZE, &most) != 0) fail(Exit::internal, "no limit");
    std::cout << std::string(200, 'x');
  };
  expect(outcome(write_more), 74, std::string(100, 'x'),
         "mt-x: stdout: cannot write: File too large\n");
}

TEST(RunCommand, AClosedOutputIsAnErrorWhereItIsUsed) {
  const std::string line = "mt-x: stdout: cannot write: Bad file descriptor\n";
  expect(outcome([](CommandLine&) { std::cout << "done\n"; }, {}, "/nowhere/x"), 74, "", line);
  expect(outcome([](CommandLine&) {}, {}, "/nowhere/x"), 0, "", "");
  // A file that is opened does not become stdout.
  expect(outcome(
             [](CommandLine&) {
               const File file = File::open("/dev/null");
               if (file.descriptor() < 3) fail(Exit::internal, "took a standard descriptor");
             },
             {}, "/nowhere/x"),
         0, "", "");
}

TEST(RunCommand, ABrokenPipeIsQuiet) {
  const auto write_much = [](CommandLine&) {
    int ends[2];
    if (::pipe(ends) != 0) fail(Exit::internal, "no pipe");
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    std::cout << std::string(1 << 20, 'x') << std::flush;
  };
  expect(outcome(write_much), 128 + SIGPIPE, "", "");
  ::signal(SIGPIPE, SIG_IGN);  // as some parents do
  expect(outcome(write_much), 128 + SIGPIPE, "", "");
  ::signal(SIGPIPE, SIG_DFL);
}

// Reads a mapped file that is cut off meanwhile.
static void read_what_is_lost(CommandLine& cl) {
  std::string path;
  cl.positional("FILE", &path);
  cl.parse();
  const MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  std::cout << std::string(as_text(file.bytes()));
}

TEST(RunCommand, AMappedFileThatIsCutOffIsOneLine) {
  const Scratch scratch;
  const std::string path = scratch.path("x");
  write_file_atomically(path, std::string(10000, 'x'), false);
  expect(outcome(read_what_is_lost, {path}), 74, "",
         concat(program_invocation_short_name, ": ", path,
                ": cannot read: cut off while in use, or the disk failed\n"));
  expect(outcome([](CommandLine&) { ::raise(SIGBUS); }), 128 + SIGBUS, "", "");
}

// --- Answers. ---

static void sample(CommandLine& cl) {
  const std::string verb =
      cl.verb({{"cat", "print what a file holds, one document a line, for people"}});
  int batch = 1;
  double lr = 0.0001;
  bool bf16 = false;
  std::string input, kind = "a";
  std::vector<std::string> keys = {"text"}, files;
  cl.describe("show off.",
              "First paragraph, which is long enough that it does not fit on a line of "
              "eighty.\n\nSecond - with \\.");
  cl.section("Training");
  cl.option("--micro-batch-size,--mbs", &batch, "N", "sequences per micro-batch", at_least(1));
  cl.option("--lr,-l", &lr, "X", "learning rate\n.of Adam", greater_than(0));
  if (verb.empty()) cl.flag("--bf16", &bf16, "compute in bf16");
  cl.section("Files");
  cl.option("--json-keys", &keys, "KEY", "keys to take from each JSON object, in this order");
  cl.required("--json-keys");
  cl.option("--kind", &kind, "", "", one_of({"a", "b"}));
  cl.implied("--use-mcore-models", "there are no others");
  cl.refused("--use-legacy-models", "they are gone");
  cl.positional("INPUT", &input, "read this");
  cl.positionals("MORE", &files, "and these", 0);
  cl.parse();
}

static const char* const kHelp = R"(mt-x: show off.

usage: mt-x [OPTIONS] INPUT [MORE ...]
       mt-x VERB --help

First paragraph, which is long enough that it does not fit on a line of eighty.

Second - with \.

Verbs:
  cat                       print what a file holds, one document a line, for
                            people

Arguments:
  INPUT                     read this
  MORE                      and these

Training:
  --micro-batch-size, --mbs N
                            sequences per micro-batch [1]
  -l, --lr X                learning rate [0.0001]
  --bf16                    compute in bf16

Files:
  --json-keys KEY ...       keys to take from each JSON object, in this order
                            (required)
  --kind a|b                [a]

Common options:
)";

TEST(Answers, HelpText) {
  const Outcome help = outcome(sample, {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out.substr(0, std::string_view(kHelp).size()), kHelp);
  EXPECT_TRUE(help.out.ends_with("\n\nAlways on, and accepted: --use-mcore-models\n"));
  EXPECT_EQ(outcome(sample, {"--help", "common"}).out.substr(0, 16), "Common options:\n");
  EXPECT_EQ(outcome(sample, {"--bf16", "x", "--lr", "wrong", "--help"}).out, help.out);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Answers, HelpOfAVerb) {
  const std::string help = outcome(sample, {"cat", "--help"}).out;
  EXPECT_TRUE(
      help.starts_with("mt-x cat: show off.\n\nusage: mt-x cat [OPTIONS] INPUT [MORE ...]\n\n"))
      << help;
  EXPECT_EQ(help.find("--bf16"), help.npos);
  EXPECT_EQ(help.find("Verbs:"), help.npos);
}

static const char* const kHelpJson =
    R"({"schema":"mt-help/1","program":"mt-x","verb":"","summary":"show off.",)"
    R"("details":"First paragraph, which is long enough that it does not fit on a line of eighty.\n\n)"
    R"(Second - with \\.","verbs":[{"name":"cat",)"
    R"("help":"print what a file holds, one document a line, for people"}],)"
    R"("arguments":[{"name":"INPUT","help":"read this","many":false,"at_least":1},)"
    R"({"name":"MORE","help":"and these","many":true,"at_least":0}],"options":[)"
    R"({"names":["--micro-batch-size","--mbs"],"kind":"value","type":"integer","metavar":"N",)"
    R"("default":1,"required":false,"expected":"an integer, at least 1","choices":[],)"
    R"("environment":"MT_MICRO_BATCH_SIZE","section":"Training","help":"sequences per micro-batch"},)"
    R"({"names":["--lr","-l"],"kind":"value","type":"number","metavar":"X","default":0.0001,)"
    R"("required":false,"expected":"a number, greater than 0","choices":[],"environment":"MT_LR",)"
    R"("section":"Training","help":"learning rate\n.of Adam"},)"
    R"({"names":["--bf16"],"kind":"flag","type":"boolean","metavar":"","default":false,)"
    R"("required":false,"expected":"true or false","choices":[],"environment":"MT_BF16",)"
    R"("section":"Training","help":"compute in bf16"},)"
    R"({"names":["--json-keys"],"kind":"list","type":"string","metavar":"KEY ...",)"
    R"("default":["text"],"required":true,"expected":"one text","choices":[],)"
    R"("environment":"MT_JSON_KEYS","section":"Files",)"
    R"("help":"keys to take from each JSON object, in this order"},)"
    R"({"names":["--kind"],"kind":"value","type":"string","metavar":"a|b","default":"a",)"
    R"("required":false,"expected":"a or b","choices":["a","b"],"environment":"MT_KIND",)"
    R"("section":"Files","help":""},)"
    R"({"names":["--use-mcore-models"],"kind":"implied","section":"Files",)"
    R"("help":"there are no others"},)"
    R"({"names":["--use-legacy-models"],"kind":"refused","section":"Files","help":"they are gone"},)"
    R"({"names":["--usage","-h"],"kind":"flag","type":"boolean",)";

TEST(Answers, HelpJson) {
  const Outcome help = outcome(sample, {"--help=json"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out.substr(0, std::string_view(kHelpJson).size()), kHelpJson);
  EXPECT_EQ(std::count(help.out.begin(), help.out.end(), '\n'), 1);
  EXPECT_EQ(
      help.out.find("\"environment\":null", std::string_view(kHelpJson).size()) == help.out.npos,
      false);
}

static const char* const kHelpMan = R"(.TP
\fIINPUT\fR
read this
.TP
\fI[MORE ...]\fR
and these
.SS Training
.TP
\fB\-\-micro\-batch\-size\fR, \fB\-\-mbs\fR \fIN\fR
sequences per micro\-batch; at least 1 [1]
.TP
\fB\-\-lr\fR, \fB\-l\fR \fIX\fR
learning rate
\&.of Adam; greater than 0 [0.0001]
.TP
\fB\-\-bf16\fR
compute in bf16
.SS Files
)";

TEST(Answers, HelpMan) {
  const std::string page = outcome(sample, {"--help=man"}).out;
  EXPECT_EQ(page.substr(0, std::string_view(kHelpMan).size()), kHelpMan);
  EXPECT_TRUE(page.ends_with(".TP\n\\fB\\-\\-use\\-legacy\\-models\\fR\nthey are gone\n")) << page;
  const std::string verb = outcome(sample, {"cat", "--help=man"}).out;
  EXPECT_TRUE(verb.starts_with(".SS mt\\-x cat\nshow off.\n.PP\nFirst")) << verb;
  EXPECT_EQ(verb.find("Common"), verb.npos);
}

TEST(Answers, HelpWords) {
  const std::string words = outcome(sample, {"--help=words"}).out;
  EXPECT_TRUE(
      words.starts_with("cat\t-\tprint what a file holds, one document a line, for people\n"
                        "=\t*\tread this\n"
                        "--micro-batch-size\t#\tsequences per micro-batch\n"
                        "--mbs\t#\tsequences per micro-batch\n"
                        "--lr\t#\tlearning rate\n"))
      << words;
  EXPECT_NE(words.find("\n--kind\ta|b\t\n"), words.npos);
  EXPECT_EQ(words.find("legacy"), words.npos);
}

TEST(Answers, PrintConfig) {
  const Outcome config = outcome(sample, {"--lr", "3", "--use-mcore-models", "--print-config"});
  EXPECT_EQ(config.code, 0) << config.err;  // though a required option and INPUT are missing
  EXPECT_TRUE(
      config.out.starts_with("# micro-batch-size: 1  # default\n"
                             "lr: 3  # command line\n"
                             "# bf16: false  # default\n"
                             "# json-keys: [text]  # default\n"
                             "# kind: a  # default\n"
                             "use-mcore-models: true  # always on: there are no others\n"
                             "# quiet: false  # default\n"))
      << config.out;
}

TEST(Answers, PrintedConfigIsAConfig) {
  const Scratch scratch;
  const std::vector<std::string> arguments = {"--lr", "3", "--json-keys", "a b", "c", "--bf16"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--print-config"});
    return outcome(sample, more).out;
  };
  std::vector<std::string> first = arguments;
  const std::string printed = with(first), path = scratch.path("run.yaml");
  write_file_atomically(path, printed, false);
  std::string again = with({"--config", path});
  for (const int line : {2, 3, 4}) {
    const std::string origin = concat("config ", path, ":", line);
    const std::size_t at = again.find(origin);
    ASSERT_NE(at, again.npos) << again;
    again.replace(at, origin.size(), "command line");
  }
  EXPECT_EQ(again, printed);
}

TEST(Answers, Version) {
  const std::string version = outcome(sample, {"--version"}).out;
  EXPECT_TRUE(version.starts_with("mt-x " MT_VERSION)) << version;  // and perhaps its commit
  EXPECT_NE(version.find("\ncompiler: "), version.npos);
  EXPECT_NE(version.find("\nSIMD:"), version.npos);
  EXPECT_NE(version.find("\nCUDA: built without\n"), version.npos);
}

TEST(Answers, Completion) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Outcome script = outcome(sample, {"--completion", shell});
    EXPECT_EQ(script.code, 0);
    EXPECT_NE(script.out.find(shell + " completion of mt-x"), script.out.npos);
    EXPECT_EQ(script.out.find('@'), shell == "bash" ? script.out.find("[@]") + 1 : script.out.npos);
  }
  EXPECT_EQ(outcome(sample, {"--completion", "tcsh"}).err,
            "mt-x: --completion tcsh: expected bash, zsh or fish\n");
}

}  // namespace mt
