#include "train/plan/schedule_drawing.h"

#include <algorithm>

#include "base/error.h"
#include "train/report/plot_axis.h"
#include "train/report/svg.h"

namespace mt {
namespace {

using Kind = Action::Kind;

char letter(const Action& action) {
  const auto number = static_cast<char>(action.micro_batch % 10);
  if (action.kind == Kind::weight_gradients) return '=';
  return static_cast<char>((action.kind == Kind::forward ? '0' : 'a') + number);
}

// What a stage does most of in each of so many equal parts of the time.
std::string row(const Schedule& schedule, const std::vector<Timeline::Span>& spans, double seconds,
                int columns) {
  std::string text(static_cast<std::size_t>(columns), '.');
  std::vector<double> most(text.size());  // seconds of what stands there
  const double column = seconds / columns;
  std::vector<double> waiting(text.size(), column);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (!computes(schedule[i])) continue;
    const auto first = static_cast<std::size_t>(spans[i].begin / column);
    for (std::size_t c = first; c < text.size(); ++c) {
      const double begin = static_cast<double>(c) * column;
      const double within =
          std::min(spans[i].end, begin + column) - std::max(spans[i].begin, begin);
      if (within <= 0) break;
      waiting[c] -= within;
      if (within <= most[c]) continue;
      most[c] = within;
      text[c] = letter(schedule[i]);
    }
  }
  for (std::size_t c = 0; c < text.size(); ++c)
    if (waiting[c] > most[c]) text[c] = '.';
  return text;
}

constexpr double kWidth = 1200, kLeft = 72, kRight = 16, kTop = 28, kRow = 22, kBottom = 30;

// The box of a stage's action; chunks are told apart by how pale they are.
std::string box(const Action& action, const Timeline::Span& span, double scale, double top,
                int chunks) {
  const double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
  const char* const color = kSvgColors[action.kind == Kind::forward    ? 0
                                       : action.kind == Kind::backward ? 1
                                                                       : 2];
  const double opacity = 1 - 0.6 * action.chunk / std::max(1, chunks);
  std::string svg = formatted(
      "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" "
      "fill-opacity=\"%.2f\"/>\n",
      x, top, width, kRow - 2, color, opacity);
  constexpr double kCharacter = 7;
  const std::string name = std::to_string(action.micro_batch);
  if (width > kCharacter * static_cast<double>(name.size() + 1))
    svg += formatted("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                     x + width / 2, top + 14, name.c_str());
  return svg;
}

std::string axis(double seconds, double scale, double bottom) {
  std::string svg;
  for (const double tick : ticks({.low = 0, .high = 1e3 * seconds}, 10)) {
    const double x = kLeft + tick * 1e-3 * scale;
    svg += formatted("<path stroke=\"#ccc\" d=\"M%.2f %.1fV%.1f\"/>\n", x, kTop, bottom) +
           formatted("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%s ms</text>\n", x,
                     bottom + 16, tick_text(tick).c_str());
  }
  return svg;
}

}  // namespace

std::string schedule_text(const StepTimes& times, int columns) {
  constexpr int kName = 10;
  std::string text;
  for (std::size_t r = 0; r < times.schedules.size(); ++r) {
    std::string name = concat("stage ", r);
    name.resize(kName, ' ');
    text += name +
            row(times.schedules[r], times.timeline.ranks[r], times.timeline.seconds,
                std::max(10, columns - kName)) +
            '\n';
  }
  return text +
         "          0-9 forward, a-j backward of a micro-batch, by its number's last digit; "
         "= weight gradients; . waits\n";
}

std::string schedule_svg(const StepTimes& times) {
  const double rows = static_cast<double>(times.schedules.size());
  const double bottom = kTop + rows * kRow, height = bottom + kBottom;
  const double scale = (kWidth - kLeft - kRight) / times.timeline.seconds;
  std::string svg =
      formatted("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ", kWidth,
                height) +
      formatted("viewBox=\"0 0 %.0f %.0f\">\n", kWidth, height) +
      "<style>text{font:11px sans-serif;fill:#111}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
      formatted(
          "<text x=\"%.0f\" y=\"18\">forward blue, backward orange, weight gradients green; "
          "stages wait %.2f%%, by formula %.2f%%</text>\n",
          kLeft, 100 * times.idle, 100 * times.formula) +
      axis(times.timeline.seconds, scale, bottom);
  for (std::size_t r = 0; r < times.schedules.size(); ++r) {
    const double top = kTop + static_cast<double>(r) * kRow + 1;
    svg += formatted("<text x=\"8\" y=\"%.1f\">stage %zu</text>\n", top + 14, r);
    const int chunks = chunk_count(times.schedules[r]);
    for (std::size_t i = 0; i < times.schedules[r].size(); ++i)
      if (computes(times.schedules[r][i]))
        svg += box(times.schedules[r][i], times.timeline.ranks[r][i], scale, top, chunks);
  }
  return svg + "</svg>\n";
}

}  // namespace mt
