#include "data/corpus/vocabulary.h"

#include <tbb/enumerable_thread_specific.h>

#include <limits>

#include "base/command.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/corpus/count_runs.h"
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

}  // namespace

void VocabularyOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  corpus.add_to(cl);
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
  corpus.add_workers_to(cl);
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
  const std::size_t memory = static_cast<std::size_t>(options.memory) << 20;
  CorpusReader corpus(options.corpus, context, Trainer::Files::paths(options.output_dir),
                      memory / 4, "; with more --memory it may be longer");
  typename Trainer::Files files(options.output_dir, options.corpus.overwrite);
  tbb::enumerable_thread_specific<Trainer> trainers(untrained);
  CountRuns runs(options.output_dir + "/words");
  const std::size_t memory_each =
      memory / 2 / static_cast<std::size_t>(worker_threads(options.corpus.workers));
  struct Nothing {};
  corpus.read<Nothing>(
      [&](const auto& each_text, Nothing&) {
        Trainer& trainer = trainers.local();
        each_text([&](std::string_view text) { trainer.add(text); });
        if (trainer.counts().memory() > memory_each) runs.write(trainer.counts());
      },
      [](Nothing&) {});
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
  Workers(options.corpus.workers).run([&] { trained = train_all(); });
  learn.finish();
  context.checkpoint();
  files.commit(trained);
  corpus.commit();
  VocabularySummary summary;
  summary.input_files = corpus.input_files();
  summary.input_bytes = corpus.input_bytes();
  summary.lines = corpus.lines();
  summary.bad_lines = corpus.bad_lines();
  summary.vocab_size = options.vocab_size;
  return summary;
}

VocabularySummary train_vocabulary(const VocabularyOptions& options, const RunContext& context) {
  options.corpus.check();
  if (options.tokenizer_type == Gpt2Bpe::kType) return train(BpeTrainer(), options, context);
  if (options.tokenizer_type == SentencePieceModelTokenizer::kGptType)
    return train(UnigramTrainer(), options, context);
  const bool lower_case = options.tokenizer_type == BertTokenizer::kLowerCaseType;
  return train(WordPieceTrainer(lower_case), options, context);
}

}  // namespace mt
