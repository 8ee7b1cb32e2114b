#include "base/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/progress.h"
#include "tests/base/scratch.h"

namespace mt {

// What `body` writes to a log with these settings.
template <class Body>
static std::string written(Log::Settings settings, const Body& body) {
  const Scratch scratch;
  {
    const File file = File::create(scratch.path("log"));
    settings.descriptor = file.descriptor();
    body(Log(settings));
  }
  return read_file(scratch.path("log"));
}

TEST(Log, TextEvents) {
  const auto lines = written({}, [](const Log& log) {
    log.event("step", {{"iteration", 120}, {"loss", 3.4182}, {"ok", true}, {"n", 5000000000}});
    log.event("load", {{"path", "a b"}, {"kind", "core"}, {"none", ""}, {"quote", "x\"\n"}});
  });
  EXPECT_EQ(lines,
            "step iteration=120 loss=3.4182 ok=true n=5000000000\n"
            "load path=\"a b\" kind=core none=\"\" quote=\"x\\\"\\n\"\n");
}

TEST(Log, JsonEvents) {
  std::string line =
      written({.program = "mt-x", .format = Log::Format::json, .rank = 0}, [](const Log& log) {
        log.event("step", {{"loss", 3.5}, {"s", "a"}});
      });
  const std::size_t time = line.find("\"time\":"), after = line.find(",", time);
  line.erase(time, after + 1 - time);
  EXPECT_EQ(line,
            "{\"event\":\"step\",\"program\":\"mt-x\",\"rank\":0,\"loss\":3.5,\"s\":\"a\"}\n");
}

TEST(Log, Messages) {
  const auto body = [](const Log& log) {
    log.note("one\ntwo");
    log.detail("detail");
    log.debug("debug");
    log.warn("odd");
  };
  using Level = Log::Level;
  EXPECT_EQ(written({.program = "mt-x", .level = Level::quiet}, body), "mt-x: warning: odd\n");
  EXPECT_EQ(written({.program = "mt-x"}, body), "mt-x: one two\nmt-x: warning: odd\n");
  EXPECT_EQ(written({.program = "mt-x", .level = Level::verbose}, body),
            "mt-x: one two\nmt-x: detail\nmt-x: warning: odd\n");
  EXPECT_EQ(written({.level = Level::debug}, body), "one two\ndetail\ndebug\nwarning: odd\n");
}

TEST(Log, OnlyRankZeroSpeaksButAllWarn) {
  const auto body = [](const Log& log) {
    for (const int rank : {0, 3}) {
      log.for_rank(rank).event("step", {{"loss", 1}});
      log.for_rank(rank).warn("odd");
    }
  };
  EXPECT_EQ(written({.program = "mt-x"}, body),
            "step loss=1 rank=0\nmt-x: rank 0: warning: odd\nmt-x: rank 3: warning: odd\n");
}

// 40 of 100 items at an interval that is due at once.
static void work(const Log& log) {
  Progress progress(log, "packing", "items", 100, std::chrono::nanoseconds(1));
  progress.add(40);
  EXPECT_EQ(progress.done(), 40u);
}

TEST(Progress, LinesWhereThereIsNoTerminal) {
  const std::string line = written({}, work);
  EXPECT_EQ(line.find("progress what=packing unit=items done=40 total=100 seconds="), 0u) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(Progress, JsonEndsWithALine) {
  const std::string lines = written({.progress = Log::Show::json}, work);
  EXPECT_EQ(lines.find("{\"event\":\"progress\",\"time\":"), 0u) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
}

TEST(Progress, BarOnATerminal) {
  const std::string bar = written({.terminal = true}, work);
  EXPECT_EQ(bar.find("\rpacking  40% ========             40 of 100 items  "), 0u) << bar;
  EXPECT_TRUE(bar.ends_with(" left\x1b[K\r\x1b[K")) << bar;
}

// Each takes the place of what is drawn, and of nothing else.
TEST(Log, LinesTakeThePlaceOfWhatIsDrawn) {
  const auto body = [](const Log& log) {
    const Log other(log.settings());
    log.error("first", 64);
    for (int i = 0; i < 2; ++i) {
      log.draw("bar");
      i == 0 ? other.error("second", 70) : other.note("third");
      log.draw();
    }
  };
  EXPECT_EQ(written({.program = "mt-x", .terminal = true}, body),
            "mt-x: first\n\rbar\x1b[K\r\x1b[Kmt-x: second\n\rbar\x1b[K\r\x1b[Kmt-x: third\n");
  EXPECT_EQ(written({.program = "mt-x"}, body), "mt-x: first\nmt-x: second\nmt-x: third\n");
}

TEST(Log, NothingIsDrawnOnceThatIsOver) {
  const auto body = [](const Log& log) {
    Progress progress(log, "packing", "items", 100, std::chrono::nanoseconds(1));
    const Log other(log.settings());
    other.draw("bar");
    log.draw_no_more();
    progress.add(40);
    other.draw("again");
    log.note("ends");
  };
  EXPECT_EQ(written({.program = "mt-x", .terminal = true}, body),
            "\rbar\x1b[K\r\x1b[Kmt-x: ends\n");
}

TEST(Progress, SilentWhereAsked) {
  EXPECT_EQ(written({.level = Log::Level::quiet}, work), "");
  EXPECT_EQ(written({.progress = Log::Show::none}, work), "");
  EXPECT_EQ(written({.rank = 1}, work), "");
}

TEST(Progress, NumbersForPeople) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(1234), "1.23k");
  EXPECT_EQ(short_number(12345678), "12.3M");
  EXPECT_EQ(short_number(999999), "1.00M");
  EXPECT_EQ(short_number(2.5), "2.50");
  EXPECT_EQ(short_duration(0.4), "0s");
  EXPECT_EQ(short_duration(185), "3m05s");
  EXPECT_EQ(short_duration(7620), "2h07m");
  EXPECT_EQ(short_duration(385200), "4d11h");
}

}  // namespace mt
