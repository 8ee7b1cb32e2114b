#include "data/vocabulary.h"

#include <tbb/enumerable_thread_specific.h>

#include <limits>

#include "base/command.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/json_lines.h"
#include "data/line_pipeline.h"
#include "text/bert_tokenizer.h"
#include "text/bpe_trainer.h"
#include "text/gpt2_bpe.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/unigram_trainer.h"
#include "text/word_piece_trainer.h"

namespace mt {
namespace {

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
  const char* const end = block.text().data() + block.text().size();
  for_each_line(block, [&](std::string_view line, std::int64_t) {
    ++counted.lines;
    const bool has_newline = line.data() + line.size() < end;
    trainer.add({line.data(), line.size() + (has_newline ? 1 : 0)});
  });
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
  reading.checkpoint = [&] {
    if (context.checkpoint()) read.tell();
  };
  LineReader reader(reading);
  BadLines bad(options.on_error, options.overwrite, reading.inputs, context.log);
  typename Trainer::Files files(options.output_dir, options.overwrite);
  tbb::enumerable_thread_specific<Trainer> trainers(untrained);
  VocabularySummary summary;
  run_line_pipeline<CountedBlock>(
      reader, options.workers,
      [&](const LineBlock& block, CountedBlock& counted) {
        counted = options.format == "text"
                      ? add_text_lines(block, trainers.local())
                      : add_json_lines(block, options.json_keys, trainers.local());
      },
      [&](const LineBlock& block, const CountedBlock& counted) {
        for (const BadLine& line : counted.bad) bad.add(block.file, line);
        summary.lines += counted.lines;
        read.add(static_cast<std::uint64_t>(block.stored_end) - read.done());
      });
  read.finish();
  Trainer all = untrained;
  for (const Trainer& trainer : trainers) all.merge(trainer);
  // How many steps a unigram model takes is not known before.
  constexpr bool kByTokens = !std::is_same_v<Trainer, UnigramTrainer>;
  const std::int64_t more = options.vocab_size - Trainer::kMinimumVocabSize;
  Progress learn(context.log, "learn", kByTokens ? "tokens" : "steps",
                 static_cast<std::uint64_t>(kByTokens ? more : 0));
  const auto train_all = [&] {
    return all.train(static_cast<std::int32_t>(options.vocab_size), [&] {
      if (context.checkpoint()) learn.tell();
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
  if (options.tokenizer_type == Gpt2Bpe::kType) return train(BpeTrainer(), options, context);
  if (options.tokenizer_type == SentencePieceModelTokenizer::kGptType)
    return train(UnigramTrainer(), options, context);
  const bool lower_case = options.tokenizer_type == BertTokenizer::kLowerCaseType;
  return train(WordPieceTrainer(lower_case), options, context);
}

}  // namespace mt
