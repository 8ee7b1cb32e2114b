#include "eval/tasks/megatron_tasks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "eval/eval_input.h"
#include "eval/tasks/builtin_tasks.h"
#include "eval/tasks/task_session.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

std::string in_frame(const std::string& line) {
  const std::string dashes(line.size() + 1, '-');
  return dashes + "\n" + line + "\n" + dashes + "\n";
}

// As Python's "{:.4E}".
std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4E", value);
  return text;
}

std::string ptb_detokenized(std::string text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" '", "'"},   {" \n", "\n"}, {"\n ", "\n"}, {" n't", "n't"},
      {" N ", "1 "}, {"$ 1", "$1"}, {"# 1", "#1"}};
  for (const auto& [from, to] : kRules) text = replace_text(text, from, to, -1);
  return text;
}

void check_known(std::span<const std::int32_t> ids, const EvalModel& model,
                 const std::string& place) {
  for (const std::int32_t id : ids)
    if (id < 0 || id >= model.vocab_size)
      fail(Exit::bad_data, place, ": token ", id, ", expected 0 to ", model.vocab_size - 1);
}

}  // namespace

std::string megatron_detokenized(const std::string& text, const std::string& path) {
  if (path.find("ptb") != path.npos) return ptb_detokenized(text);
  if (path.find("wiki") != path.npos) {
    // The harness's rules are Megatron's; the last two in another order, which changes nothing.
    const EvalTask wikitext = read_eval_task(builtin_task("wikitext").value(), "wikitext");
    return wikitext.target.text_of(ChatValue::dict({{"page", text}}));
  }
  if (path.find("lambada") != path.npos) return text;
  fail(
      Exit::usage, path,
      ": expected a path with \"wiki\", \"ptb\" or \"lambada\" in it, which says by what rules the "
      "text was cut into tokens");
}

// --- WIKITEXT103 ---------------------------------------------------------------------------------

// The sum of -log p over all tokens but the first.
static double nll_of(std::span<const std::int32_t> ids, const EvalModel& model,
                     const Windows& windows) {
  const auto tokens = std::ssize(ids);
  std::vector<std::span<const std::int32_t>> parts;
  std::vector<double> values(static_cast<std::size_t>(tokens - 1));
  std::vector<std::span<double>> nll;
  std::span<double> left(values);
  for (std::int64_t i = 0; i < windows.count(tokens); ++i) {
    const Window window = windows.at(i, tokens);
    if (window.scored == 0) continue;
    parts.push_back(ids.subspan(static_cast<std::size_t>(window.begin),
                                static_cast<std::size_t>(window.tokens)));
    nll.push_back(left.first(static_cast<std::size_t>(window.scored)));
    left = left.subspan(nll.back().size());
  }
  model.score(parts, nll, {});
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void run_wikitext103(const std::string& path, const EvalModel& model, const Windows& windows,
                     bool json, const PrintText& print) {
  const std::string text = read_file(path);
  std::vector<std::int32_t> ids;
  model.tokenizer.encode(megatron_detokenized(text, path), ids);
  const std::int64_t words = count_words(text), tokens = std::ssize(ids);
  if (tokens < 2 || words < 2) fail(Exit::bad_data, path, ": expected at least two words");
  check_known(ids, model, path);
  const double loss = nll_of(ids, model, windows) / static_cast<double>(tokens - 1);
  if (!std::isfinite(loss)) fail(Exit::bad_data, "the model's probabilities are not numbers");
  const double ratio = static_cast<double>(tokens - 1) / static_cast<double>(words - 1);
  const double perplexity = std::exp(std::min(20.0, loss)),
               adjusted = std::exp(std::min(20.0, loss * ratio));
  if (json) {
    JsonWriter line;
    line.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", "WIKITEXT103")
        .member("summary", true)
        .member("original_tokens", words)
        .member("tokens", tokens)
        .member("avg_loss", loss)
        .member("ppl", perplexity)
        .member("adjusted_ppl", adjusted)
        .member("token_ratio", ratio)
        .end_object();
    return print(line.text() + "\n");
  }
  print(concat(" > number of original tokens: ", words, ", number of detokenized tokens: ", tokens,
               "\n"));
  print(in_frame(concat(" validation results on WIKITEXT103 | avg loss: ", scientific(loss),
                        " | ppl: ", scientific(perplexity), " | adjusted ppl: ",
                        scientific(adjusted), " | token ratio: ", python_real(ratio), " |")));
  print("done :-)\n");
}

// --- LAMBADA -------------------------------------------------------------------------------------

// The tokens of a passage, the last of which are asked for.
static ScoredTokens passage_of(const Tokenizer& tokenizer, const std::string& text, bool strict) {
  ScoredTokens tokens;
  if (!strict) {
    tokenizer.encode(text, tokens.ids);
    tokens.scored = 1;
    return tokens;
  }
  const std::vector<std::string_view> words = split_space(text, -1);
  if (words.empty()) return tokens;
  const std::string word(words.back());
  const std::string_view before = std::string_view(text).substr(0, text.rfind(word));
  tokenizer.encode(strip_text(before, Side::both), tokens.ids);
  const std::size_t count = tokens.ids.size();
  tokenizer.encode(" " + word, tokens.ids);
  tokens.scored = tokens.ids.size() - count;
  return tokens;
}

void run_lambada(const std::vector<std::string>& paths, const EvalModel& model, bool strict,
                 bool json, const PrintText& print) {
  const EvalDocs docs = read_docs(paths);
  std::vector<ScoredTokens> passages;
  for (std::size_t i = 0; i < docs.docs.size(); ++i) {
    const ChatValue* const text = docs.docs[i].find("text");
    if (text == nullptr || !text->is_text())
      fail(Exit::bad_data, docs.places[i], ": has no \"text\"");
    ScoredTokens tokens = passage_of(model.tokenizer, *text->text(), strict);
    if (std::ssize(tokens.ids) > model.max_length + 1)
      tokens.ids.erase(tokens.ids.begin(), tokens.ids.end() - (model.max_length + 1));
    if (tokens.scored == 0 || tokens.scored >= tokens.ids.size())
      fail(Exit::bad_data, docs.places[i], ": a passage needs something before its last word");
    check_known(tokens.ids, model, docs.places[i]);
    passages.push_back(std::move(tokens));
  }
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::uint8_t>> likeliest;
  for (const ScoredTokens& passage : passages) {
    ids.emplace_back(passage.ids);
    values.emplace_back(passage.scored);
    likeliest.emplace_back(passage.scored);
  }
  const std::vector<std::span<double>> nll(values.begin(), values.end());
  const std::vector<std::span<std::uint8_t>> flags(likeliest.begin(), likeliest.end());
  model.score(ids, nll, flags);
  const auto right = std::ranges::count_if(
      likeliest, [](const auto& all) { return std::ranges::count(all, 0) == 0; });
  const auto total = std::ssize(passages);
  const double accuracy = static_cast<double>(right) / static_cast<double>(total);
  if (json) {
    JsonWriter line;
    line.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", "LAMBADA")
        .member("summary", true)
        .member("strict", strict)
        .member("number_correct", right)
        .member("total_examples", total)
        .member("avg_accuracy", accuracy)
        .end_object();
    return print(line.text() + "\n");
  }
  for (const std::string& path : paths)
    print(concat("> building lambada dataset from ", path, " ...\n"));
  print(concat(" > found ", total, " samples.\n"));
  print(in_frame(concat(
      " validation results on LAMBADA | number correct: ", scientific(static_cast<double>(right)),
      " | total examples: ", scientific(static_cast<double>(total)),
      " | avg accuracy: ", scientific(accuracy))));
  print("done :-)\n");
}

}  // namespace mt
