#include "serve/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

#include "base/command.h"
#include "base/file.h"
#include "base/http_client.h"
#include "base/input/line_reader.h"
#include "base/json.h"
#include "base/random.h"
#include "serve/client.h"
#include "serve/request_json.h"

namespace mt {

void BenchOptions::add_to(CommandLine& cl) {
  cl.positional("HOST:PORT", &server, "where the server listens");
  cl.section("Load");
  cl.option("--requests", &requests, "N", "how many", between(1, 10'000'000));
  cl.option("--concurrency", &concurrency, "N", "at a time, at most", between(1, 4096));
  cl.option("--rate", &rate, "R",
            "requests a second, at random times; default: each as soon as another is answered",
            {.low = 0, .high = 1e6, .above_low = true});
  cl.option("--prompts", &prompts, "FILE",
            "its lines are the prompts, in turn; default: random words");
  cl.option("--prompt-words", &prompt_words, "N", "words of a random prompt",
            between(1, 1'000'000));
  cl.option("--num-tokens", &num_tokens, "N", "tokens that shall follow each prompt",
            between(1, 1'000'000));
  cl.option("--temperature", &temperature, "T", "0: the likeliest tokens", between(0, 100));
  cl.option("--model", &model, "NAME", "the model or the adapter that is asked");
  cl.option("--seed", &seed, "N", "of random words and times", at_least(0));
  cl.section("Run");
  cl.option("--api-key-file", &api_key_file, "FILE", "its first line is the key");
  cl.flag("--json", &json, "one JSON object a request, the summary last");
}

// --- The report ----------------------------------------------------------------------------------

double percentile(std::span<const double> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - std::floor(place)) * (sorted[high] - sorted[low]);
}

namespace {

struct Times {
  std::vector<double> first, between, all;  // sorted

  explicit Times(std::span<const BenchResult> results) {
    for (const BenchResult& result : results) {
      if (!result.wrong.empty()) continue;
      all.push_back(result.seconds);
      if (!result.times.empty()) first.push_back(result.times.front());
      for (std::size_t i = 1; i < result.times.size(); ++i)
        between.push_back(result.times[i] - result.times[i - 1]);
    }
    for (std::vector<double>* times : {&first, &between, &all}) std::ranges::sort(*times);
  }
};

constexpr double kPercentiles[] = {0.5, 0.9, 0.95, 0.99, 1};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.2f", seconds * 1000);
  return text;
}

std::string row(const char* name, std::span<const double> sorted) {
  if (sorted.empty()) return "";
  std::string line = name + milliseconds(mean_of(sorted));
  for (const double p : kPercentiles) line += milliseconds(percentile(sorted, p));
  return line + "\n";
}

// How many requests took how long, as bars of at most 40 blocks.
std::string bars(std::span<const double> sorted) {
  constexpr std::size_t kBars = 10, kWidth = 40;
  const double low = sorted.front(), step = (sorted.back() - low) / kBars;
  std::size_t counts[kBars] = {};
  for (const double value : sorted)
    ++counts[step > 0 ? std::min(kBars - 1, static_cast<std::size_t>((value - low) / step)) : 0];
  const std::size_t most = *std::ranges::max_element(counts);
  std::string text = "requests by their milliseconds\n";
  for (std::size_t i = 0; i < kBars; ++i) {
    text += milliseconds(low + step * static_cast<double>(i)) + " ";
    for (std::size_t k = 0; k < (counts[i] * kWidth + most - 1) / most; ++k) text += "\u2588";
    text += concat(" ", counts[i], "\n");
    if (step == 0) break;
  }
  return text;
}

struct Totals {
  std::int64_t answered = 0, prompt_tokens = 0, tokens = 0;

  explicit Totals(std::span<const BenchResult> results) {
    for (const BenchResult& result : results) {
      answered += result.wrong.empty();
      prompt_tokens += result.prompt_tokens;
      tokens += result.tokens;
    }
  }
};

}  // namespace

std::string bench_report(std::span<const BenchResult> results, double seconds) {
  const Totals totals(results);
  char line[256];
  std::snprintf(
      line, sizeof line,
      "requests %lld  answered %lld  seconds %.2f  requests/s %.2f  prompt tokens/s %.1f  "
      "tokens/s %.1f\n",
      static_cast<long long>(results.size()), static_cast<long long>(totals.answered), seconds,
      static_cast<double>(totals.answered) / seconds,
      static_cast<double>(totals.prompt_tokens) / seconds,
      static_cast<double>(totals.tokens) / seconds);
  std::string text = line;
  const Times times(results);
  if (times.all.empty()) return text;
  text += "milliseconds          mean       p50       p90       p95       p99       max\n";
  text += row("first token     ", times.first) + row("between tokens  ", times.between) +
          row("whole answer    ", times.all);
  return text + bars(times.all);
}

// --- The requests --------------------------------------------------------------------------------

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::uint32_t random_word(std::int64_t seed, std::uint32_t request, std::uint32_t place,
                          std::uint32_t kind) {
  return philox({place, request, kind, 0},
                RandomKey::make(static_cast<std::uint64_t>(seed), 0x42454E43))[0];
}

std::vector<std::string> prompts_of(const BenchOptions& o) {
  std::vector<std::string> prompts;
  if (o.prompts.empty()) return prompts;
  LineReader reader({.inputs = {o.prompts}});
  LineBlock block;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) prompts.emplace_back(line);
    });
  if (prompts.empty()) fail(Exit::bad_data, o.prompts, ": there is no prompt");
  return prompts;
}

std::string random_prompt(const BenchOptions& o, std::uint32_t request) {
  std::string text;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(o.prompt_words); ++i) {
    if (i > 0) text += ' ';
    std::uint32_t word = random_word(o.seed, request, i, 0);
    for (std::uint32_t letters = 2 + word % 5; letters > 0; --letters, word /= 26)
      text += static_cast<char>('a' + word % 26);
  }
  return text;
}

// When each request is sent, in seconds from the beginning.
std::vector<double> times_of(const BenchOptions& o) {
  std::vector<double> times(static_cast<std::size_t>(o.requests));
  double at = 0;
  for (std::uint32_t i = 0; o.rate && i < times.size(); ++i) {
    times[i] = at;
    at -= std::log(to_unit(random_word(o.seed, i, 0, 1))) / *o.rate;
  }
  return times;
}

// Takes server-sent events as their bytes come.
class Events {
 public:
  Events(BenchResult& result, Clock::time_point sent) : result_(result), sent_(sent) {}

  void take(const std::string& body) {
    for (std::size_t end; (end = body.find('\n', at_)) != body.npos; at_ = end + 1)
      take_line(std::string_view(body).substr(at_, end - at_));
  }
  bool is_whole() const { return done_; }

 private:
  void take_line(std::string_view line) {
    if (!line.starts_with("data: ")) return;
    line.remove_prefix(6);
    if (line == "[DONE]") {
      done_ = true;
      return;
    }
    simdjson::dom::element event;
    if (parse_request(parser_, line).get(event) != simdjson::SUCCESS) {
      result_.wrong = "an event that is no JSON";
      return;
    }
    std::string_view text;
    if (event.at_pointer("/error/message").get(text) == simdjson::SUCCESS) result_.wrong = text;
    if (event.at_pointer("/choices/0/text").get(text) == simdjson::SUCCESS && !text.empty())
      result_.times.push_back(seconds_since(sent_));
    std::int64_t count = 0;
    if (event.at_pointer("/usage/completion_tokens").get(count) == simdjson::SUCCESS)
      result_.tokens = count;
    if (event.at_pointer("/usage/prompt_tokens").get(count) == simdjson::SUCCESS)
      result_.prompt_tokens = count;
  }

  BenchResult& result_;
  Clock::time_point sent_;
  simdjson::dom::parser parser_;
  std::size_t at_ = 0;
  bool done_ = false;
};

std::string body_of(const BenchOptions& o, const std::string& prompt) {
  JsonWriter json;
  json.begin_object();
  if (!o.model.empty()) json.member("model", o.model);
  json.member("prompt", prompt)
      .member("max_tokens", o.num_tokens)
      .member("temperature", o.temperature)
      .member("seed", o.seed)
      .member("ignore_eos", true)
      .member("stream", true)
      .key("stream_options")
      .begin_object()
      .member("include_usage", true)
      .end_object()
      .end_object();
  return json.text();
}

void ask(const HttpPlace& server, const std::string& body, BenchResult& result) {
  const Clock::time_point sent = Clock::now();
  Events events(result, sent);
  const HttpQuestion request{"POST", "/v1/completions", body,
                             [&](int status, const std::string& so_far) {
                               result.status = status;
                               if (status == 200) events.take(so_far);
                             }};
  const HttpAnswer answer = ask_http(server, {&request, 1}).front();
  if (answer.status != 0) result.status = answer.status;
  // What the server said comes first.
  if (answer.status == 0 && result.wrong.empty())
    result.wrong = answer.body;
  else if (result.status != 200)
    result.wrong = concat("status ", result.status, ": ", said(answer));
  else if (result.wrong.empty() && !events.is_whole())
    result.wrong = "an answer that breaks off";
  result.seconds = seconds_since(sent);
}

std::string line_of(const BenchResult& result) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-bench/1")
      .member("request", result.number)
      .member("sent", result.sent)
      .member("status", result.status);
  if (!result.wrong.empty()) json.member("error", result.wrong);
  json.member("prompt_tokens", result.prompt_tokens).member("tokens", result.tokens);
  if (!result.times.empty()) json.member("first_token", result.times.front());
  return json.member("seconds", result.seconds).end_object().text() + "\n";
}

std::string summary_of(std::span<const BenchResult> results, double seconds) {
  const Totals totals(results);
  const Times times(results);
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-bench/1")
      .member("summary", true)
      .member("requests", results.size())
      .member("answered", totals.answered)
      .member("seconds", seconds)
      .member("prompt_tokens", totals.prompt_tokens)
      .member("tokens", totals.tokens)
      .member("tokens_per_second", static_cast<double>(totals.tokens) / seconds);
  const auto write = [&](const char* name, std::span<const double> sorted) {
    if (sorted.empty()) return;
    json.key(name).begin_object().member("mean", mean_of(sorted));
    for (const auto& [key, p] :
         {std::pair("p50", 0.5), std::pair("p90", 0.9), std::pair("p95", 0.95),
          std::pair("p99", 0.99), std::pair("max", 1.0)})
      json.member(key, percentile(sorted, p));
    json.end_object();
  };
  write("first_token", times.first);
  write("between_tokens", times.between);
  write("whole_answer", times.all);
  return json.end_object().text() + "\n";
}

}  // namespace

void bench(const BenchOptions& o, const std::function<void(std::string_view)>& print,
           const std::function<void()>& done) {
  HttpPlace server;
  std::tie(server.host, server.port) = host_and_port(o.server);
  server.api_key = read_api_key(o.api_key_file);
  const std::vector<std::string> prompts = prompts_of(o);
  const std::vector<double> times = times_of(o);
  std::vector<BenchResult> results(times.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // of print and done
  const Clock::time_point begin = Clock::now();
  const auto work = [&] {
    for (std::size_t i; (i = next++) < results.size();) {
      std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(times[i])));
      const std::string prompt = prompts.empty() ? random_prompt(o, static_cast<std::uint32_t>(i))
                                                 : prompts[i % prompts.size()];
      results[i].number = static_cast<std::int64_t>(i);
      results[i].sent = seconds_since(begin);
      ask(server, body_of(o, prompt), results[i]);
      const std::lock_guard lock(mutex);
      if (o.json) print(line_of(results[i]));
      done();
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::int64_t count = std::min(o.concurrency, o.requests);
    for (std::int64_t i = 0; i < count; ++i) threads.emplace_back(work);
  }
  const double seconds = seconds_since(begin);
  if (Totals(results).answered == 0)
    fail(Exit::unavailable, o.server, ": no request is answered: ", results.front().wrong);
  print(o.json ? summary_of(results, seconds) : bench_report(results, seconds));
  for (const BenchResult& result : results)
    if (!result.wrong.empty())
      fail(Exit::unavailable, o.server, ": request ", result.number, ": ", result.wrong);
}

}  // namespace mt
