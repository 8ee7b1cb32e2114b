// Curves of training runs, in the terminal and as SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/command.h"
#include "train/report/run_curves.h"

namespace mt {

struct PlotOptions {
  std::vector<std::string> logs;  // "-": stdin
  std::vector<std::string> metrics = {"loss", "tokens_per_second"};
  std::string svg;               // file, instead of the terminal
  bool force = false;            // overwrites it
  int columns = 0;               // 0: as wide as the terminal
  std::optional<int> rows = {};  // of a panel's curves; none: what fits into the terminal, or 16
  double smooth = 0;             // of a mean, how much the one before counts
  bool log_x = false, log_y = false;  // axes by powers
  void add_to(CommandLine& cl);
};

// Reads the logs and draws.  Where stdin is read and stdout is a terminal, it draws anew twice a
// second if more has come or the window has another size, so that
// `tail -f run.jsonl | mt-pretrain plot -` shows a run as it goes; lines that are no events of a
// run are then counted.
void plot(const PlotOptions& options, bool color);

int terminal_columns();  // of the terminal that stdout is, or 80

// A panel for each metric, one under the other: curves in Braille dots, 2 by 4 to a character, the
// mean of the steps of a dot's column; validation losses as marks; a key with the last values. Runs
// differ in colour, in dashes and in marks.
std::string terminal_plot(const std::vector<RunCurves>& runs, const PlotOptions& options,
                          bool color);

std::string svg_plot(const std::vector<RunCurves>& runs, const PlotOptions& options);

}  // namespace mt
