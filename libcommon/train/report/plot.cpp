#include "train/report/plot.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/input/byte_source.h"
#include "base/input/line_reader.h"

namespace mt {

void PlotOptions::add_to(CommandLine& cl) {
  cl.positionals("RUN.JSONL", &logs, "run logs, drawn over each other; - is stdin", 1);
  cl.section("Plot");
  cl.option("--metric", &metrics, "NAME",
            "members of the log's steps, a panel for each: loss, lr, grad_norm, tokens_per_second, "
            "step_seconds, ..., expert_loads.3 (the fourth of a list)");
  cl.option("--svg,-o", &svg, "FILE", "an SVG image instead of characters; - is stdout");
  cl.flag("--force", &force, "overwrite an existing file");
  cl.option("--columns", &columns, "N", "width in characters; 0: that of the terminal, or 80",
            between(0, 1000));
  cl.option("--rows", &rows, "N",
            "height of a panel in characters; default what fits into the terminal, or 16",
            between(4, 200));
  cl.option("--smooth", &smooth, "F",
            "draw running means, in which the one before counts F; validation stays as it is",
            between(0, 0.999));
  cl.flag("--log-x", &log_x, "a logarithmic axis of iterations");
  cl.flag("--log-y", &log_y,
          "a logarithmic axis of values; those that are not above 0 are left out");
}

static winsize window_size() {
  winsize window = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) window = {};
  return window;
}

int terminal_columns() {
  const winsize window = window_size();
  return window.ws_col > 0 ? window.ws_col : 80;
}

static void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// The options as the terminal is now: a panel has its title, two lines under its axis and a key.
static PlotOptions fitted(const PlotOptions& options, std::size_t runs, bool live) {
  constexpr int kAround = 5;
  PlotOptions o = options;
  if (o.columns == 0) o.columns = terminal_columns();
  const int panels = static_cast<int>(o.metrics.size()), lines = window_size().ws_row;
  const int around = kAround + static_cast<int>(runs);
  if (!o.rows) o.rows = live && lines > 0 ? std::max(4, (lines - 1) / panels - around) : 16;
  return o;
}

// What is on the terminal while a log is read.
class Screen {
 public:
  using Clock = std::chrono::steady_clock;
  Screen(const PlotOptions& options, bool color, const std::vector<RunCurves>& runs)
      : options_(options), color_(color), runs_(runs) {}

  void refresh() {
    constexpr auto kOften = std::chrono::milliseconds(500);
    const Clock::time_point now = Clock::now();
    if (now - drawn_ < kOften) return;
    drawn_ = now;
    draw();
  }
  void draw() {
    std::string text = terminal_plot(runs_, fitted(options_, runs_.size(), true), color_);
    if (bad_lines_ > 0) text += concat(bad_lines_, " lines are no events of a run\n");
    if (text == shown_) return;
    print("\x1b[H\x1b[2J" + text);
    std::fflush(stdout);
    shown_ = std::move(text);
  }
  void count_bad_line() { ++bad_lines_; }

 private:
  const PlotOptions& options_;
  bool color_;
  const std::vector<RunCurves>& runs_;
  Clock::time_point drawn_ = {};
  std::string shown_;
  std::int64_t bad_lines_ = 0;
};

// Takes the lines of a log as they come; with a screen, that is drawn meanwhile.
static void read_lines(const std::string& path, RunCurves& run, Screen* screen) {
  const auto refresh = [&] {
    if (screen != nullptr) screen->refresh();
  };
  const auto take = [&](std::string_view line) {
    try {
      run.take(line);
    } catch (const Error& error) {
      if (screen == nullptr || error.code() != Exit::bad_data) throw;
      screen->count_bad_line();
    }
  };
  ByteSource source(path, refresh);
  std::string rest;
  std::vector<char> block(1 << 16);
  while (const std::size_t count = source.read(block)) {
    rest.append(block.data(), count);
    std::size_t start = 0;
    for (std::size_t end; (end = rest.find('\n', start)) != rest.npos; start = end + 1)
      take(std::string_view(rest).substr(start, end - start));
    rest.erase(0, start);
    refresh();
  }
  if (!rest.empty()) take(rest);
}

void plot(const PlotOptions& options, bool color) {
  std::vector<RunCurves> runs;
  Screen screen(options, color, runs);
  for (const std::string& log : options.logs)
    if (std::filesystem::exists(log + "/run.jsonl"))
      fail(Exit::no_input, log, ": is a run's folder; give its log, ", log, "/run.jsonl");
  const std::vector<std::string> paths = expand_inputs(options.logs);
  refuse_inputs(std::array{options.svg}, paths);
  const bool live =
      options.svg.empty() && ::isatty(STDOUT_FILENO) != 0 && std::ranges::count(paths, "-") > 0;
  runs.reserve(paths.size());
  for (const std::string& path : paths) {
    runs.emplace_back(path == "-" ? "stdin" : path, options.metrics);
    read_lines(path, runs.back(), live ? &screen : nullptr);
  }
  if (live)
    screen.draw();
  else if (options.svg.empty())
    print(terminal_plot(runs, fitted(options, runs.size(), false), color));
  else if (options.svg == "-")
    print(svg_plot(runs, options));
  else
    write_file_atomically(options.svg, svg_plot(runs, options), options.force);
}

}  // namespace mt
