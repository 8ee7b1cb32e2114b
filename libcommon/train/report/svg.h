// Pieces of SVG images.
#pragma once

#include <cstdio>
#include <string>

namespace mt {

inline std::string formatted(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

inline std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

inline constexpr const char* kSvgColors[] = {"#0072b2", "#e69f00", "#009e73",
                                             "#cc79a7", "#d55e00", "#56b4e9"};  // Okabe and Ito's

}  // namespace mt
