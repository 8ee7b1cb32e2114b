#include "data/corpus/vocabulary.h"

#include <tbb/enumerable_thread_specific.h>

#include <limits>
#include <set>

#include "base/command.h"
#include "base/error.h"
#include "base/input/text_lines.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/corpus/count_runs.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/line_pipeline.h"
#include "text/bert/bert_tokenizer.h"
#include "text/bpe/gpt2_bpe.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"
#include "text/training/bpe_trainer.h"
#include "text/training/unigram_trainer.h"
#include "text/training/word_piece_trainer.h"

namespace mt {
namespace {

// What training takes of memory, by measurement, whatever the trainer.
constexpr CountRuns::Costs kTrainingCosts = {.word = 320, .byte = 64};

struct CountedBlock {
  std::vector<BadLine> bad;
  std::int64_t lines = 0;
};

template <class Trainer>
CountedBlock add_json_lines(const LineBlock& block, const std::vector<std::string>& keys,
                            Trainer& trainer) {
  CountedBlock counted;
  JsonLineParser parser(keys);
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    ++counted.lines;
    std::string wrong = parser.parse(line);
    if (!wrong.empty()) {
      counted.bad.push_back({number, std::move(wrong), line});
      return;
    }
    for (const auto& texts : parser.texts())
      for (const std::string_view text : texts) trainer.add(text);
  });
  return counted;
}

template <class Trainer>
CountedBlock add_text_lines(const LineBlock& block, Trainer& trainer) {
  CountedBlock counted;
  TextLines lines(block);
  for (TextLines::Line line; lines.next(line); ++counted.lines)
    if (line.wrong == nullptr)
      trainer.add(line.text);
    else
      counted.bad.push_back({line.number, line.wrong, line.line});
  return counted;
}

}  // namespace

void VocabularyOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  cl.option("--input", &inputs, "FILE",
            "files, patterns such as 'c4-*.json.gz', or - for stdin; plain, gzip or zstd");
  cl.required("--input");
  cl.option("--format", &format, "FORMAT", "jsonl: JSON lines; text: each line is a text",
            one_of({"jsonl", "text"}));
  cl.option("--json-keys", &json_keys, "KEY", "members with the text, for jsonl");
  cl.option("--tokenizer-type", &tokenizer_type, "TYPE",
            "whose vocabulary: GPT2BPETokenizer, BertWordPieceLowerCase, BertWordPieceCase or "
            "GPTSentencePieceTokenizer (unigram; texts are not normalised)",
            one_of({std::string(Gpt2Bpe::kType), std::string(BertTokenizer::kLowerCaseType),
                    std::string(BertTokenizer::kCaseType),
                    std::string(SentencePieceModelTokenizer::kGptType)}));
  cl.option("--vocab-size", &vocab_size, "N", "tokens to make, the special ones among them",
            between(1, std::numeric_limits<std::int32_t>::max()));
  cl.required("--vocab-size");
  cl.option("--output-dir", &output_dir, "DIR",
            "write DIR/vocab.json and DIR/merges.txt, BERT's DIR/vocab.txt or SentencePiece's "
            "DIR/tokenizer.model");
  cl.required("--output-dir");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.flag("--force", &overwrite, "overwrite existing files");
  cl.section("Speed");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            at_least(0));
  cl.option("--memory", &memory, "MIB",
            "for words and their counts, some 1,200 a MiB; the rarest beyond that are left out",
            between(16, 1 << 30));
}

void VocabularySummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-vocab/1");
  json.member("input_files", input_files).member("input_bytes", input_bytes);
  json.member("lines", lines).member("bad_lines", bad_lines);
  json.member("vocab_size", vocab_size).end_object();
}

// `untrained`: what each thread begins with.
template <class Trainer>
static VocabularySummary train(const Trainer& untrained, const VocabularyOptions& options,
                               const RunContext& context) {
  if (options.vocab_size < Trainer::kMinimumVocabSize)
    fail(Exit::usage, "--vocab-size: ", options.vocab_size, ", expected at least ",
         Trainer::kMinimumVocabSize, " for ", options.tokenizer_type);
  LineReader::Options reading;
  reading.inputs = expand_inputs(options.inputs);
  Progress read(context.log, "read", "bytes", stored_size(reading.inputs));
  reading.checkpoint = [&] { context.checkpoint(); };
  const std::size_t memory = static_cast<std::size_t>(options.memory) << 20;
  reading.line_limit = memory / 4;
  reading.limit_hint = "; with more --memory it may be longer";
  reading.pass_long_lines = options.on_error != "stop";
  refuse_inputs(Trainer::Files::paths(options.output_dir), reading.inputs);
  LineReader reader(reading);
  BadLines bad(options.on_error, options.overwrite, reading.inputs, context.log);
  typename Trainer::Files files(options.output_dir, options.overwrite);
  tbb::enumerable_thread_specific<Trainer> trainers(untrained);
  CountRuns runs(options.output_dir + "/words");
  const std::size_t memory_each =
      memory / 2 / static_cast<std::size_t>(worker_threads(options.workers));
  VocabularySummary summary;
  run_line_pipeline<CountedBlock>(
      reader, options.workers,
      [&](const LineBlock& block, CountedBlock& counted) {
        Trainer& trainer = trainers.local();
        if (!block.too_long.empty())
          counted = {{{block.first_line, block.too_long, block.text()}}, 1};
        else
          counted = options.format == "text" ? add_text_lines(block, trainer)
                                             : add_json_lines(block, options.json_keys, trainer);
        if (trainer.counts().memory() > memory_each) runs.write(trainer.counts());
      },
      [&](const LineBlock& block, const CountedBlock& counted) {
        for (const BadLine& line : counted.bad) bad.add(block.file, line);
        summary.lines += counted.lines;
        read.add(static_cast<std::uint64_t>(block.stored_end) - read.done());
      });
  read.finish();
  std::vector<PieceCounts*> counts;
  for (Trainer& trainer : trainers) counts.push_back(&trainer.counts());
  Trainer all = untrained;
  const CountRuns::Choice choice = runs.take(counts, kTrainingCosts, memory, all.counts());
  if (choice.left_out > 0)
    context.log.warn(concat(choice.left_out, " of the words that occur less than ",
                            choice.whole_from,
                            " times are left out; with more --memory they count too"));
  // How many steps a unigram model takes is not known before.
  constexpr bool kByTokens = !std::is_same_v<Trainer, UnigramTrainer>;
  const std::int64_t more = options.vocab_size - Trainer::kMinimumVocabSize;
  Progress learn(context.log, "learn", kByTokens ? "tokens" : "steps",
                 static_cast<std::uint64_t>(kByTokens ? more : 0));
  const auto train_all = [&] {
    return all.train(static_cast<std::int32_t>(options.vocab_size), [&] {
      context.checkpoint();
      learn.add(1);
    });
  };
  decltype(train_all()) trained;
  Workers(options.workers).run([&] { trained = train_all(); });
  learn.finish();
  context.checkpoint();
  files.commit(trained);
  bad.commit();
  summary.input_files = static_cast<std::int64_t>(reader.inputs().size());
  summary.input_bytes = reader.stored_bytes();
  summary.bad_lines = bad.count();
  summary.vocab_size = options.vocab_size;
  if (bad.count() > 0)
    context.log.warn(concat(bad.count(), " of ", summary.lines, " lines could not be used"));
  return summary;
}

VocabularySummary train_vocabulary(const VocabularyOptions& options, const RunContext& context) {
  const std::set<std::string> keys(options.json_keys.begin(), options.json_keys.end());
  if (keys.size() < options.json_keys.size()) fail(Exit::usage, "--json-keys: names a key twice");
  if (options.format == "text" && options.json_keys != VocabularyOptions().json_keys)
    fail(Exit::usage, "--format text: has no keys");
  if (options.tokenizer_type == Gpt2Bpe::kType) return train(BpeTrainer(), options, context);
  if (options.tokenizer_type == SentencePieceModelTokenizer::kGptType)
    return train(UnigramTrainer(), options, context);
  const bool lower_case = options.tokenizer_type == BertTokenizer::kLowerCaseType;
  return train(WordPieceTrainer(lower_case), options, context);
}

}  // namespace mt
