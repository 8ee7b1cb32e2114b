#include "train/report/plot.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "base/file.h"
#include "base/input/byte_source.h"
#include "base/input/line_reader.h"
#include "train/report/svg.h"

namespace mt {

void PlotOptions::add_to(CommandLine& cl) {
  cl.positionals("RUN.JSONL", &logs, "run logs, drawn over each other; - is stdin", 1);
  cl.section("Plot");
  cl.option("--metric", &metrics, "NAME",
            "members of the log's steps, a panel for each: loss, lr, grad_norm, tokens_per_second, "
            "step_seconds, ...");
  cl.option("--svg,-o", &svg, "FILE", "an SVG image instead of characters; - is stdout");
  cl.option("--columns", &columns, "N", "width in characters; 0: that of the terminal, or 80",
            between(0, 1000));
  cl.option("--rows", &rows, "N", "height of a panel in characters", between(4, 200));
}

int terminal_columns() {
  winsize window = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
}

static void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Lines of a log as they come; `idle` runs while a pipe has nothing to give.
static void read_lines(const std::string& path, RunCurves& run, const std::function<void()>& idle) {
  ByteSource source(path, idle);
  std::string rest;
  std::vector<char> block(1 << 16);
  while (const std::size_t count = source.read(block)) {
    rest.append(block.data(), count);
    std::size_t start = 0;
    for (std::size_t end; (end = rest.find('\n', start)) != rest.npos; start = end + 1)
      run.take(std::string_view(rest).substr(start, end - start));
    rest.erase(0, start);
  }
  if (!rest.empty()) run.take(rest);
}

void plot(const PlotOptions& options, bool color) {
  PlotOptions o = options;
  if (o.columns == 0) o.columns = terminal_columns();
  const bool live = o.svg.empty() && ::isatty(STDOUT_FILENO) != 0;
  std::vector<RunCurves> runs;
  std::string shown;
  for (const std::string& path : expand_inputs(o.logs)) {
    runs.emplace_back(path == "-" ? "stdin" : path, o.metrics);
    read_lines(path, runs.back(), [&] {
      if (!live) return;
      std::string text = terminal_plot(runs, o, color);
      if (text == shown) return;
      print("\x1b[H\x1b[2J" + text);
      std::fflush(stdout);
      shown = std::move(text);
    });
  }
  if (o.svg.empty())
    print((shown.empty() ? "" : "\x1b[H\x1b[2J") + terminal_plot(runs, o, color));
  else if (o.svg == "-")
    print(svg_plot(runs, o));
  else
    write_svg(o.svg, svg_plot(runs, o));
}

}  // namespace mt
