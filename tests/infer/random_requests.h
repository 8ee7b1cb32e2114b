// Random prompts, of which many begin alike and some are cancelled, and what an engine makes of
// them.
#pragma once

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

#include "infer/engine.h"
#include "model/config/model_config.h"
#include "model/pass.h"
#include "tests/infer/letters.h"

namespace mt {

using Ids = std::vector<std::int32_t>;
inline constexpr std::int32_t kVocabularyOfLetters = 30;
inline const Letters kAllLetters;
inline const CompletionModel kModelOfLetters{.tokenizer = kAllLetters,
                                             .vocab_size = kVocabularyOfLetters};

struct Request {
  Ids prompt;
  std::int64_t tokens = 0;
  int cancelled = -1;        // after so many steps
  std::int64_t adapter = 0;  // of the model's
};

inline std::vector<Request> random_requests(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto tokens = [&](std::size_t n) {
    Ids ids(n);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(below(kVocabularyOfLetters));
    return ids;
  };
  std::vector<Ids> beginnings;
  for (std::size_t length : {40U, 90U, 120U}) beginnings.push_back(tokens(length));
  std::vector<Request> requests(count);
  for (Request& request : requests) {
    request.prompt = beginnings[below(3)];
    request.prompt.resize(below(request.prompt.size()));
    const Ids tail = tokens(1 + below(30));
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.tokens = static_cast<std::int64_t>(1 + below(50));
    if (below(5) == 0) request.cancelled = static_cast<int>(below(60));
  }
  return requests;
}

// The likeliest tokens, each from one pass over all that the model may see.
inline Ids plain_loop(const Model& model, Stream& stream, const Request& request) {
  const std::int64_t positions = model.config().max_position_embeddings;
  Pass pass(model, stream, kVocabularyOfLetters);
  pass.reserve([&](Pass& measured) {
    measured.input({.length = positions});
    measured.on_host(measured.logits());
  });
  Ids seen = request.prompt;
  std::int64_t context = std::ssize(seen);
  for (std::int64_t i = 0; i < request.tokens; ++i, ++context) {
    if (context > positions) context = positions / 2;
    const PassInput in = pass.input({.length = context});
    std::ranges::copy(std::span(seen).last(static_cast<std::size_t>(context)),
                      in.ids.as<std::int32_t>());
    std::iota(in.positions.as<std::int32_t>(), in.positions.as<std::int32_t>() + context, 0);
    *in.rows.as<std::int32_t>() = static_cast<std::int32_t>(context - 1);
    const auto logits = pass.on_host(pass.logits());
    with_float_type(logits.dtype(), [&]<class T>() {
      const auto values = logits.span<T>();
      seen.push_back(static_cast<std::int32_t>(std::ranges::max_element(values) - values.begin()));
    });
  }
  return {seen.begin() + std::ssize(request.prompt), seen.end()};
}

struct EngineRun {
  std::vector<Ids> made;
  Engine::Counts counts;
};

inline EngineRun in_engine(const Model& model, const std::vector<Request>& requests,
                           const EngineLimits& limits, std::int64_t page_tokens,
                           const Model* draft = nullptr, const PassRanks& ranks = {}) {
  Engine engine(model, {.vocab_size = kVocabularyOfLetters,
                        .limits = limits,
                        .draft = draft,
                        .page_tokens = page_tokens,
                        .ranks = ranks});
  std::deque<Completion> completions;
  std::vector<Engine::Ticket> tickets;
  for (std::size_t n = 0; n < requests.size(); ++n) {
    const CompletionOptions options{.num_tokens = requests[n].tokens,
                                    .ignore_eod = true,
                                    .sampling = {{.temperature = 0}},
                                    .adapter = requests[n].adapter};
    completions.emplace_back(kModelOfLetters, requests[n].prompt, options,
                             static_cast<std::uint32_t>(n), 0);
  }
  std::size_t submitted = 0;
  for (int steps = 0; submitted < requests.size() || engine.step(); ++steps) {
    for (int some = 0; some < 3 && submitted < requests.size(); ++some)
      tickets.push_back(engine.submit(completions[submitted++]));
    if (submitted < requests.size()) engine.step();
    for (std::size_t n = 0; n < submitted; ++n)
      if (requests[n].cancelled == steps) engine.cancel(tickets[n]);
  }
  EngineRun run{.made = {}, .counts = engine.counts()};
  for (const Completion& c : completions) run.made.emplace_back(c.made().begin(), c.made().end());
  return run;
}

}  // namespace mt
