#include "train/report/memory_report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "model/config/model_config.h"
#include "model/layers.h"
#include "model/model_table.h"
#include "model/stage_range.h"

namespace mt {

constexpr double kMega = 1 << 20, kBillion = 1e9;

static std::string with_digits(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string theoretical_memory_text(const ModelConfig& c, int ranks, bool distributed_optimizer) {
  const auto h = static_cast<double>(c.hidden_size);
  const std::vector<LayerPlan> layers = layers_of(c);
  // Norms of a scale and a shift: one behind each stack, and one in front of each branch.
  auto norms = static_cast<double>(runs_of(layers, {.end = std::ssize(layers)}).size());
  for (const LayerPlan& layer : layers) norms += static_cast<double>(layer.branches.size());
  const double block = layer_weights(c) + norms * 2 * h;
  const double embedding = h * static_cast<double>(c.padded_vocab_size) *
                           (c.untie_embeddings_and_output_weights ? 2 : 1);
  const double bytes = distributed_optimizer ? 6 + 12.0 / ranks : 18;
  const double all = block + embedding;
  return "Number of parameters in transformer block in billions: " +
         with_digits("% .2f", block / kBillion) +
         "\nNumber of parameters in embedding layers in billions: " +
         with_digits("%.2f", embedding / kBillion) +
         "\nTotal number of parameters in billions: " + with_digits("%.2f", all / kBillion) +
         "\nNumber of parameters in most loaded shard in billions: " +
         with_digits("%.4f", all / kBillion) +
         "\nTheoretical memory footprints: weight and optimizer=" +
         with_digits("%.2f MB", all * bytes / kMega);
}

// Bytes in MB, as Python prints them: the fewest digits that say which number it is.
static std::string in_mega(double bytes) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, bytes / kMega, std::chars_format::fixed);
  const std::string digits(text, end.ptr);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}

double resident_bytes() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}

std::string memory_text(std::int64_t iteration, std::size_t allocated) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const std::string own = in_mega(static_cast<double>(allocated));
  return "[Rank 0] (after " + std::to_string(iteration) +
         " iterations) memory (MB) | allocated: " + own + " | max allocated: " + own +
         " | reserved: " + in_mega(resident_bytes()) +
         " | max reserved: " + in_mega(static_cast<double>(usage.ru_maxrss) * 1024);
}

}  // namespace mt
