#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "train/report/plot.h"
#include "train/report/plot_axis.h"

namespace mt {
namespace {

constexpr std::array kColors = {36, 33, 35, 32, 34, 31};  // cyan, yellow, magenta, green, blue, red
constexpr int kMargin = 9;                                // the names of the y axis and a blank
// Marks stand where a run was validated: a circle, a square, triangles, a diamond, a star.
constexpr std::array kMarks = {0x25CB, 0x25A1, 0x25B3, 0x25C7, 0x25BD, 0x2606};
// Which dots of a curve are drawn, from the lowest bit on: all, dashes, dots, both.
constexpr int kDashLength = 8;
constexpr std::array kDashes = {0xFF, 0x1F, 0x33, 0x5F, 0x11, 0x77};

int mark_of(std::size_t run) { return kMarks[run % kMarks.size()]; }
bool is_drawn(int dot, std::size_t run) {
  return (kDashes[run % kDashes.size()] >> dot % kDashLength & 1) != 0;
}

std::string utf8(int code) {  // of three bytes
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::string colored(const std::string& text, std::size_t run, bool color) {
  if (!color) return text;
  return "\x1b[" + std::to_string(kColors[run % kColors.size()]) + "m" + text + "\x1b[0m";
}

std::string padded(const std::string& text, int width) {  // to the right
  const auto missing = static_cast<std::size_t>(std::max(0, width - static_cast<int>(text.size())));
  return std::string(missing, ' ') + text;
}

// Cells of characters, each with 2 x 4 dots or a mark.
class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns * rows)) {}
  int dots_across() const { return 2 * columns_; }
  int dots_down() const { return 4 * rows_; }

  void dot(int x, int y, std::size_t run) {
    static constexpr std::uint8_t kBits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    Cell& cell = at(x / 2, y / 4);
    cell.dots |= kBits[y % 4][x % 2];
    cell.run = run;
  }
  // `drawn` counts the dots of the whole curve, of which the dashes leave some out.
  void line(std::pair<int, int> from, std::pair<int, int> to, std::size_t run, int& drawn) {
    const int steps =
        std::max({std::abs(to.first - from.first), std::abs(to.second - from.second), 1});
    for (int i = 0; i < steps; ++i) {
      const auto between = [&](int a, int b) {
        return a + static_cast<int>(std::lround(static_cast<double>(b - a) * i / steps));
      };
      if (is_drawn(drawn++, run))
        dot(between(from.first, to.first), between(from.second, to.second), run);
    }
  }
  void mark(int x, int y, int code, std::size_t run) {
    Cell& cell = at(x / 2, y / 4);
    cell.mark = code;
    cell.run = run;
  }
  std::string row(int y, bool color) const {
    std::string text;
    for (int x = 0; x < columns_; ++x) {
      const Cell& cell = cells_[static_cast<std::size_t>(y * columns_ + x)];
      if (cell.mark == 0 && cell.dots == 0)
        text += ' ';
      else
        text += colored(utf8(cell.mark != 0 ? cell.mark : 0x2800 + cell.dots), cell.run, color);
    }
    const std::size_t end = text.find_last_not_of(' ');
    return text.substr(0, end == text.npos ? 0 : end + 1);
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    int mark = 0;
    std::size_t run = 0;
  };
  Cell& at(int x, int y) { return cells_[static_cast<std::size_t>(y * columns_ + x)]; }
  int columns_, rows_;
  std::vector<Cell> cells_;
};

class Panel {
 public:
  Panel(const std::vector<RunCurves>& runs, const std::string& metric, const PlotOptions& options)
      : runs_(runs),
        metric_(metric),
        options_(options),
        data_(panel_data(runs, metric, options)),
        columns_(std::max(20, options.columns - kMargin - 1)),
        rows_(options.rows.value()),
        canvas_(columns_, rows_) {}

  std::string text(bool color) {
    if (data_.y.empty()) return metric_ + ": nothing to draw\n";
    for (std::size_t run = 0; run < runs_.size(); ++run) draw(run);
    std::string all = std::string(kMargin, ' ') + y_title(metric_, options_) + "\n";
    for (int row = 0; row < rows_; ++row)
      all += padded(name_of_row(row), kMargin - 1) + " " + utf8(tick_row(row) ? 0x2524 : 0x2502) +
             canvas_.row(row, color) + "\n";
    return all + x_axis() + key(color);
  }

 private:
  std::pair<int, int> place(double iteration, double value) const {
    const auto dot = [](double place, int dots) {
      return static_cast<int>(std::lround(place * (dots - 1)));
    };
    return {dot(data_.x.place(iteration), canvas_.dots_across()),
            dot(1 - data_.y.place(value), canvas_.dots_down())};
  }

  void draw(std::size_t run) {
    struct Sum {
      double x = 0, y = 0, count = 0;
    };
    std::map<int, Sum> columns;  // the steps of each column of dots
    for (const auto& [iteration, value] : data_.runs[run].steps) {
      Sum& sum = columns[place(static_cast<double>(iteration), value).first];
      sum.x += static_cast<double>(iteration);
      sum.y += value;
      sum.count += 1;
    }
    int drawn = 0;
    std::optional<std::pair<int, int>> last;
    for (const auto& [column, sum] : columns) {
      const std::pair<int, int> here{column, place(sum.x, sum.y / sum.count).second};
      if (last) canvas_.line(*last, here, run, drawn);
      last = here;
    }
    if (last) canvas_.dot(last->first, last->second, run);
    for (const auto& [iteration, value] : data_.runs[run].validation) {
      const auto [x, y] = place(static_cast<double>(iteration), value);
      canvas_.mark(x, y, mark_of(run), run);
    }
  }

  // The tick that stands in this row of characters, as text.
  std::string name_of_row(int row) const {
    for (const double tick : ticks(data_.y, std::max(2, rows_ / 3)))
      if (place(data_.x.low, tick).second / 4 == row) return tick_text(tick);
    return {};
  }
  bool tick_row(int row) const { return !name_of_row(row).empty(); }

  std::string x_axis() const {
    std::string line(kMargin, ' '), names(static_cast<std::size_t>(kMargin + columns_ + 2), ' ');
    line += utf8(0x2514);
    std::vector<bool> marks(static_cast<std::size_t>(columns_));
    for (const double tick : ticks(data_.x, std::max(2, columns_ / 12))) {
      const int column = place(tick, data_.y.low).first / 2;
      const std::string name = tick_text(tick);
      const int length = static_cast<int>(name.size());
      const int start =
          std::min(kMargin + 1 + column - length / 2, kMargin + 1 + columns_ - length);
      marks[static_cast<std::size_t>(column)] = true;
      names.replace(static_cast<std::size_t>(start), name.size(), name);
    }
    for (const bool mark : marks) line += utf8(mark ? 0x252C : 0x2500);
    return line + "\n" + names.substr(0, names.find_last_not_of(' ') + 1) + "\n" +
           padded(x_title(options_), kMargin + 1 + columns_) + "\n";
  }

  // A run's line as the key shows it.
  static std::string stroke(std::size_t run, bool color) {
    constexpr int kCells = 4;
    Canvas canvas(kCells, 1);
    int drawn = 0;
    canvas.line({0, 2}, {2 * kCells, 2}, run, drawn);
    return canvas.row(0, color);
  }

  std::string key(bool color) const {
    std::string text;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const Curve& curve = runs_[run].of(metric_);
      text += std::string(kMargin + 1, ' ') + stroke(run, color) + " " + runs_[run].name();
      if (!curve.steps.empty())
        text += ": " + tick_text(curve.steps.rbegin()->second) + " at " +
                std::to_string(curve.steps.rbegin()->first);
      if (!curve.validation.empty()) {
        const auto last = curve.validation.rbegin();
        text += ", " + colored(utf8(mark_of(run)), run, color) + " validation " +
                tick_text(last->second) + " at " + std::to_string(last->first);
      }
      text += "\n";
    }
    return text;
  }

  const std::vector<RunCurves>& runs_;
  std::string metric_;
  const PlotOptions& options_;
  PanelData data_;
  int columns_, rows_;
  Canvas canvas_;
};

}  // namespace

std::string terminal_plot(const std::vector<RunCurves>& runs, const PlotOptions& options,
                          bool color) {
  std::string text;
  for (const std::string& metric : options.metrics) {
    if (!text.empty()) text += '\n';
    text += Panel(runs, metric, options).text(color);
  }
  return text;
}

}  // namespace mt
