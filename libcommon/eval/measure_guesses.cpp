#include <algorithm>
#include <utility>

#include "base/print.h"
#include "base/progress.h"
#include "eval/eval_input.h"
#include "eval/guess_report.h"
#include "eval/guesses.h"
#include "eval/measures.h"
#include "infer/encoder_pass.h"
#include "infer/span_pass.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

constexpr std::int64_t kAtATime = 256;  // samples that are put together by their lengths

// What is masked of each of some texts, and its score.
std::vector<GuessScore> guess(EncoderPass& pass, std::span<const MaskedText> texts) {
  std::vector<EncoderPass::Text> asked;
  for (const MaskedText& text : texts)
    asked.push_back({.ids = text.ids, .asked = text.asked, .types = text.types});
  std::vector<GuessScore> scores(texts.size());
  pass.run(asked, [&](std::size_t i, ConstTensor logits) {
    scores[i] = score_guesses(logits, texts[i].tokens);
  });
  return scores;
}

std::vector<GuessScore> guess(SpanPass& pass, std::span<const CutText> texts) {
  std::vector<SpanPass::Sample> samples;
  for (const CutText& text : texts) samples.push_back({.read = text.read, .ids = text.ids});
  std::vector<GuessScore> scores(texts.size());
  pass.run(samples, [&](std::size_t i, ConstTensor logits) {
    scores[i] = score_guesses(logits, texts[i].tokens);
  });
  return scores;
}

// A T5 of relative positions may take any number of tokens.
std::int64_t length_within(const char* option, std::optional<std::int64_t> asked,
                           std::int64_t least, std::int64_t most) {
  const std::int64_t length = asked.value_or(std::min<std::int64_t>(most, 512));
  if (length > most)
    fail(Exit::bad_config, option, " ", length, ": the model takes at most ", most);
  if (length < least) fail(Exit::bad_config, option, " ", length, ": expected at least ", least);
  return length;
}

// get(samples, k): a sample that `pass` takes.
template <class AnyPass, class Get>
void guess_samples(const EvalOptions& o, const LoadedModel& loaded, SampleType type,
                   std::int64_t seq_length, const MaskOptions& masks, AnyPass& pass,
                   Progress& progress, const Get& get) {
  const WordPieces pieces = WordPieces::of(*loaded.tokenizer);
  if (type == SampleType::t5) pieces.check_sentinels();
  if (pieces.vocab_size() > loaded.model->config().vocab_size)
    fail(Exit::bad_config, loaded.path, ": the tokenizer has ", pieces.vocab_size(),
         " tokens, more than the model's ", loaded.model->config().vocab_size);
  GuessReport report(o.task, o.json, print_now);
  for (const std::string& prefix : o.inputs) {
    refuse_other_tokenizer(prefix, *loaded.tokenizer);
    GuessSamples samples(type, prefix, pieces, seq_length, masks,
                         static_cast<std::uint32_t>(o.seed.value_or(1234)));
    std::vector<decltype(get(samples, 0))> some;
    for (std::int64_t k = 0; k < samples.size(); ++k) {
      some.push_back(get(samples, k));
      if (std::ssize(some) < kAtATime && k + 1 < samples.size()) continue;
      for (const GuessScore& score : guess(pass, some)) {
        report.put(score);
        progress.add(static_cast<std::uint64_t>(score.tokens));
      }
      some.clear();
    }
  }
  progress.finish();
  report.finish(o.inputs.front(), loaded.path, seq_length);
}

EncoderPass encoder_pass(const EvalOptions& o, const LoadedModel& loaded) {
  return {*loaded.model,
          {.wanted = EncoderPass::Wanted::logits,
           .vocab_size = loaded.vocab_size(),
           .batch = o.micro_batch_size,
           .threads = o.threads}};
}

}  // namespace

// Each text's tokens are masked one after another.
void measure_pseudo_perplexity(const EvalOptions& o, const LoadedModel& loaded,
                               Progress& progress) {
  const std::int64_t length = length_within("--seq-length", o.seq_length, 3,
                                            loaded.model->config().max_position_embeddings);
  const SpecialTokens special = WordPieces::of(*loaded.tokenizer).special;
  EncoderPass pass = encoder_pass(o, loaded);
  GuessReport report(o.task, o.json, print_now);
  const auto score = [&](const EvalText& text) {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t id : text.tokens)
      if (id != special.cls && id != special.sep) tokens.push_back(id);
    GuessScore all;
    std::vector<MaskedText> some;
    const auto flush = [&] {
      for (const GuessScore& one : guess(pass, some)) all += one;
      progress.add(some.size());
      some.clear();
    };
    mask_in_turn(tokens, special, length - 2, [&](MaskedText text_with_mask) {
      some.push_back(std::move(text_with_mask));
      if (std::ssize(some) == kAtATime) flush();
    });
    flush();
    report.put(all);
  };
  for (const std::string& input : o.inputs)
    for_each_text(input, *loaded.tokenizer, loaded.vocab_size(), score);
  progress.finish();
  report.finish(o.inputs.front(), loaded.path, length);
}

void measure_masked_words(const EvalOptions& o, const LoadedModel& loaded, Progress& progress) {
  const ModelConfig& model = loaded.model->config();
  const MaskOptions masks{.mask_prob = o.mask_prob.value_or(0.15),
                          .short_seq_prob = o.short_seq_prob.value_or(0.1),
                          .binary_head = model.bert_binary_head};
  EncoderPass pass = encoder_pass(o, loaded);
  const std::int64_t length =
      length_within("--seq-length", o.seq_length, 5, model.max_position_embeddings);
  guess_samples(o, loaded, SampleType::bert, length, masks, pass, progress,
                [](GuessSamples& s, std::int64_t k) { return s.masked(k); });
}

void measure_spans(const EvalOptions& o, const LoadedModel& loaded, Progress& progress) {
  const std::int64_t most = loaded.model->config().max_position_embeddings;
  const std::int64_t read = length_within("--seq-length", o.seq_length, 5, most),
                     length = length_within("--decoder-seq-length", o.decoder_seq_length, 2, most);
  const MaskOptions masks{.mask_prob = o.mask_prob.value_or(0.15),
                          .short_seq_prob = o.short_seq_prob.value_or(0.1),
                          .decoder_seq_length = length};
  SpanPass pass(*loaded.model, {.vocab_size = loaded.vocab_size(),
                                .read = read,
                                .length = length,
                                .batch = o.micro_batch_size,
                                .threads = o.threads});
  guess_samples(o, loaded, SampleType::t5, read, masks, pass, progress,
                [](GuessSamples& s, std::int64_t k) { return s.cut(k); });
}

}  // namespace mt
