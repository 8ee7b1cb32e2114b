// Runs a test program, or with --file=PATH alone the cases that stand in the source file whose path
// ends so, but with --but=PATTERNS those that GoogleTest's patterns name; exits 125 when every
// selected case was skipped, so that CTest says "skipped", and 64 where there is none to run.
// Signals that nohup or a shell's background job had ignored are ignored no more.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

// In place of the C library's.  What a test writes need not outlive the machine, and a disk takes
// longer to sync it than the test to write and read it.
extern "C" int fsync(int) { return 0; }

// The names of the cases that stand in `file`, as GoogleTest's own record has it; a filter.
static std::string cases_of(std::string_view file) {
  std::string filter;
  const auto& unit = *testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *unit.GetTestSuite(s);
    for (int i = 0; i < suite.total_test_count(); ++i) {
      const testing::TestInfo& test = *suite.GetTestInfo(i);
      if (std::string_view(test.file()).ends_with(file))
        filter.append(filter.empty() ? "" : ":")
            .append(suite.name())
            .append(".")
            .append(test.name());
    }
  }
  return filter;
}

int main(int argc, char** argv) {
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) std::signal(number, SIG_DFL);
  testing::InitGoogleTest(&argc, argv);
  std::string cases = GTEST_FLAG_GET(filter);
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view kFile = "--file=", kBut = "--but=";
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFile)) {
      cases = cases_of("/" + std::string(argument.substr(kFile.size())));
      if (cases.empty()) cases = "none";
    } else if (argument.starts_with(kBut)) {
      cases.append("-").append(argument.substr(kBut.size()));
    } else {
      std::fprintf(stderr, "%s: unknown argument: %s\n", argv[0], argv[i]);
      return 64;
    }
  }
  GTEST_FLAG_SET(filter, cases);
  const int failed = RUN_ALL_TESTS();
  const auto& unit = *testing::UnitTest::GetInstance();
  if (unit.test_to_run_count() == 0) {
    std::fprintf(stderr, "%s: no cases in this program: %s\n", argv[0], cases.c_str());
    return 64;
  }
  if (failed == 0 && unit.skipped_test_count() == unit.test_to_run_count()) return 125;
  return failed;
}
