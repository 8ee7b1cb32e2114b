// GET /metrics: what the server tells of itself, in Prometheus' text format, version 0.0.4.
#include "base/error.h"
#include "serve/serving.h"

namespace mt {
namespace {

// A label's value; the format escapes these three alone.
std::string label_value(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c == '\n' ? "\\n" : std::string(1, c);
  }
  return quoted + "\"";
}

class Metrics {
 public:
  // Names begin with `prefix`; labels: of each of them.
  Metrics(std::string prefix, std::string labels)
      : prefix_(std::move(prefix)), labels_(std::move(labels)) {}

  void add(const char* name, const char* type, const char* help, auto value) {
    head(name, type, help);
    line(name, labels_, value);
  }
  void add(const char* name, const char* help, const Histogram& times) {
    head(name, "histogram", help);
    text_ += times.text(prefix_ + name, labels_);
  }
  // A counter by the values of one more label.
  template <std::size_t N>
  void add_each(const char* name, const char* help, const char* label,
                const std::pair<const char*, std::uint64_t> (&values)[N]) {
    head(name, "counter", help);
    for (const auto& [of, value] : values)
      line(name, concat(labels_, ",", label, "=", label_value(of)), value);
  }

  const std::string& text() const { return text_; }

 private:
  void head(const char* name, const char* type, const char* help) {
    text_ +=
        concat("# HELP ", prefix_, name, " ", help, "\n# TYPE ", prefix_, name, " ", type, "\n");
  }
  void line(const char* name, const std::string& labels, auto value) {
    text_ +=
        concat(prefix_, name, labels.empty() ? "" : concat("{", labels, "}"), " ", value, "\n");
  }

  std::string prefix_, labels_, text_;
};

void add_latencies(Metrics& metrics, const EngineLoop::State& state) {
  metrics.add("time_to_first_token_seconds", "From a completion's coming to its first token.",
              state.first_token);
  metrics.add("inter_token_latency_seconds", "Between two tokens of a completion.",
              state.between_tokens);
  metrics.add("e2e_request_latency_seconds", "From a completion's coming to its end.", state.whole);
}

std::string own_metrics(const EngineLoop::State& state) {
  Metrics metrics("mt_", "");
  metrics.add("requests_running", "gauge", "Completions that get tokens.", state.running);
  metrics.add("requests_waiting", "gauge", "Completions that wait for a place.", state.waiting);
  metrics.add("prompt_tokens_total", "counter", "Tokens of prompts.", state.prompt_tokens);
  metrics.add("generation_tokens_total", "counter", "Tokens that were made.", state.made_tokens);
  metrics.add("requests_finished_total", "counter", "Completions that came to their end.",
              state.finished);
  metrics.add("requests_cancelled_total", "counter", "Completions whose client left.",
              state.cancelled);
  metrics.add("requests_timed_out_total", "counter", "Completions whose time was up.",
              state.timed_out);
  const Engine::Counts& engine = state.engine;
  metrics.add("prefill_tokens_total", "counter", "Tokens of prompts that were read.", engine.read);
  metrics.add("prefix_hit_tokens_total", "counter",
              "Tokens of prompts that were found in the cache.", engine.shared);
  metrics.add("preemptions_total", "counter", "Completions that gave up their place for others.",
              engine.preempted);
  metrics.add("draft_tokens_total", "counter", "Tokens that were guessed.", engine.guessed);
  metrics.add("draft_tokens_accepted_total", "counter", "Guessed tokens that the model chose, too.",
              engine.accepted);
  metrics.add("cache_pages", "gauge", "Pages of the cache.", engine.pages);
  metrics.add("cache_pages_held", "gauge", "Pages that completions hold.", engine.held_pages);
  add_latencies(metrics, state);
  return metrics.text();
}

// The metrics that dashboards of vLLM's read, by its names and with its label of the model.
std::string vllm_metrics(const EngineLoop::State& state, const std::string& model) {
  Metrics metrics("vllm:", concat("model_name=", label_value(model)));
  const Engine::Counts& engine = state.engine;
  metrics.add("num_requests_running", "gauge", "Completions that get tokens.", state.running);
  metrics.add("num_requests_waiting", "gauge", "Completions that wait for a place.", state.waiting);
  metrics.add("kv_cache_usage_perc", "gauge", "The part of the cache that is held, 1 is all.",
              engine.pages == 0
                  ? 0.0
                  : static_cast<double>(engine.held_pages) / static_cast<double>(engine.pages));
  metrics.add("prompt_tokens_total", "counter", "Tokens of prompts.", state.prompt_tokens);
  metrics.add("generation_tokens_total", "counter", "Tokens that were made.", state.made_tokens);
  metrics.add_each("request_success_total", "Completions that came to their end.",
                   "finished_reason",
                   {{"stop", state.finished - state.ended_by_length},
                    {"length", state.ended_by_length},
                    {"abort", state.cancelled}});
  metrics.add("prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for.",
              engine.read + engine.shared);
  metrics.add("prefix_cache_hits_total", "counter", "Those that were found in the cache.",
              engine.shared);
  add_latencies(metrics, state);
  return metrics.text();
}

}  // namespace

void serve_metrics(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  const EngineLoop::State state = serving.loop.state();
  std::string text = own_metrics(state);
  if (serving.vllm_metrics) text += vllm_metrics(state, serving.name);
  exchange->answer(200, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
}

}  // namespace mt
