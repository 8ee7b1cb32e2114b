#include <iterator>

#include "train/report/plot.h"
#include "train/report/plot_axis.h"
#include "train/report/svg.h"

namespace mt {
namespace {

constexpr double kWidth = 860, kPanel = 320, kLeft = 80, kRight = 24, kTop = 36, kBottom = 44;

const char* color_of(std::size_t run) { return kSvgColors[run % std::size(kSvgColors)]; }

// How the lines of each run are dashed, as stroke-dasharray; an empty one is whole.
const char* dashes_of(std::size_t run) {
  static constexpr const char* kDashes[] = {"", "7 3", "2 2", "7 3 2 3", "1 4", "12 4"};
  return kDashes[run % std::size(kDashes)];
}

// A mark at a place: a circle, a square, triangles, a diamond, a star's cross.
std::string mark(double x, double y, std::size_t run) {
  static constexpr const char* kMarks[] = {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
                                           "m-3 -3h6v6h-6z",
                                           "m0 -4l4 7h-8z",
                                           "m0 -4l4 4l-4 4l-4 -4z",
                                           "m0 4l4 -7h-8z",
                                           "m-3 -3l6 6m0 -6l-6 6"};
  return formatted("<path class=\"mark\" stroke=\"%s\" d=\"M%.1f %.1f%s\"/>\n", color_of(run), x, y,
                   kMarks[run % std::size(kMarks)]);
}

struct Frame {
  PanelData range;
  double top;
  double x(double value) const { return kLeft + range.x.place(value) * (kWidth - kLeft - kRight); }
  double y(double value) const {
    return top + kPanel - kBottom - range.y.place(value) * (kPanel - kTop - kBottom);
  }
};

std::string grid(const Frame& f) {
  std::string svg;
  const double right = kWidth - kRight, bottom = f.top + kPanel - kBottom;
  for (const double tick : ticks(f.range.y, 6))
    svg += formatted("<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", kLeft, f.y(tick), right) +
           formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLeft - 8,
                     f.y(tick) + 4, tick_text(tick).c_str());
  for (const double tick : ticks(f.range.x, 8))
    svg += formatted("<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", f.x(tick), f.top + kTop,
                     bottom) +
           formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", f.x(tick),
                     bottom + 18, tick_text(tick).c_str());
  return svg;
}

std::string curve(const Frame& f, std::size_t run) {
  const PanelData::Run& points = f.range.runs[run];
  std::string svg = formatted("<polyline stroke=\"%s\" stroke-dasharray=\"%s\" points=\"",
                              color_of(run), dashes_of(run));
  for (const auto& [iteration, value] : points.steps)
    svg += formatted("%.1f,%.1f ", f.x(static_cast<double>(iteration)), f.y(value));
  svg += "\"/>\n";
  for (const auto& [iteration, value] : points.validation)
    svg += mark(f.x(static_cast<double>(iteration)), f.y(value), run);
  return svg;
}

std::string key(const std::vector<RunCurves>& runs, double top) {
  std::string svg;
  double x = kLeft;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    svg += formatted("<path stroke=\"%s\" stroke-dasharray=\"%s\" stroke-width=\"3\" ",
                     color_of(run), dashes_of(run)) +
           formatted("d=\"M%.1f %.1fh18\"/>\n", x, top + 8) +
           formatted("<text x=\"%.1f\" y=\"%.1f\">", x + 24, top + 12) + escaped(runs[run].name()) +
           "</text>\n";
    x += 48 + 7.2 * static_cast<double>(runs[run].name().size());
  }
  return svg;
}

}  // namespace

std::string svg_plot(const std::vector<RunCurves>& runs, const PlotOptions& options) {
  const double height = kPanel * static_cast<double>(options.metrics.size()) + 28;
  std::string svg =
      formatted("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ", kWidth,
                height) +
      formatted("viewBox=\"0 0 %.0f %.0f\">\n", kWidth, height) +
      "<style>text{font:12px sans-serif;fill:#444}.title{font-weight:bold;fill:#111}"
      ".grid{stroke:#ddd}polyline{fill:none;stroke-width:1.5;stroke-linejoin:round}"
      ".mark{fill:#fff;stroke-width:1.5}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  double top = 0;
  for (const std::string& metric : options.metrics) {
    const Frame frame{panel_data(runs, metric, options), top};
    svg += formatted("<text class=\"title\" x=\"%.1f\" y=\"%.1f\">", kLeft, top + 24) +
           escaped(y_title(metric, options)) + "</text>\n" +
           formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kWidth - kRight,
                     top + kPanel - kBottom + 36, x_title(options).c_str());
    if (!frame.range.y.empty()) {
      svg += grid(frame);
      for (std::size_t run = 0; run < runs.size(); ++run) svg += curve(frame, run);
    }
    top += kPanel;
  }
  return svg + key(runs, top) + "</svg>\n";
}

}  // namespace mt
