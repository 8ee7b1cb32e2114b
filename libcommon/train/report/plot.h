// Curves of training runs, in the terminal and as SVG.
#pragma once

#include <string>
#include <vector>

#include "base/command.h"
#include "train/report/run_curves.h"

namespace mt {

struct PlotOptions {
  std::vector<std::string> logs;  // "-": stdin
  std::vector<std::string> metrics = {"loss", "tokens_per_second"};
  std::string svg;  // file, instead of the terminal
  int columns = 0;  // 0: as wide as the terminal
  int rows = 16;    // of a panel's curves
  void add_to(CommandLine& cl);
};

// Reads the logs and draws.  Where stdin is read and stdout is a terminal, it draws anew whenever
// more has come, so that `tail -f run.jsonl | mt-pretrain plot -` shows a run as it goes.
void plot(const PlotOptions& options, bool color);

int terminal_columns();  // of the terminal that stdout is, or 80

// A panel for each metric, one under the other: curves in Braille dots, 2 by 4 to a character, the
// mean of the steps of a dot's column; validation losses as circles; a key with the last values.
std::string terminal_plot(const std::vector<RunCurves>& runs, const PlotOptions& options,
                          bool color);

std::string svg_plot(const std::vector<RunCurves>& runs, const PlotOptions& options);

}  // namespace mt
