// bench: loads a server of OpenAI's API with requests, some at a time or at some rate, and tells
// how long they took: to the first token, between tokens, and in all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class CommandLine;

struct BenchOptions {
  std::string server, api_key_file, prompts, model;
  std::int64_t requests = 64, concurrency = 8, prompt_words = 64, num_tokens = 64;
  std::optional<double> rate;
  double temperature = 0;
  std::int64_t seed = 1234;
  bool json = false;

  void add_to(CommandLine& cl);
};

// BenchResult: what became of one request; seconds since it was sent, and since the run began.
struct BenchResult {
  std::int64_t number = 0;
  double sent = 0;
  int status = 0;             // 0: there was no answer
  std::string wrong = {};     // why it is no answer of a text
  std::vector<double> times;  // of each event with text
  std::int64_t prompt_tokens = 0, tokens = 0;
  double seconds = 0;
};

// The p-th of the values, which are sorted, 0 <= p <= 1: with what part of the way between two.
double percentile(std::span<const double> sorted, double p);

// What the results come to, for people: counts and rates, a table of times, and how long requests
// took as bars.
std::string bench_report(std::span<const BenchResult> results, double seconds);

// Asks the server; Exit::unavailable where no request is answered.  done: is told of each.
void bench(const BenchOptions& options, const std::function<void(std::string_view)>& print,
           const std::function<void()>& done);

}  // namespace mt
