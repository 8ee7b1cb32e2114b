// mt-preprocess: JSON lines to token files, a look into them, and the training of vocabularies and
// of models that find sentences.
#include <iostream>

#include "base/command.h"
#include "base/flag_list.h"
#include "base/input/line_reader.h"
#include "cmd/programs.h"
#include "data/corpus/clean.h"
#include "data/corpus/dedup.h"
#include "data/corpus/large_pages.h"
#include "data/corpus/preprocess.h"
#include "data/corpus/punkt_training.h"
#include "data/corpus/qa_prompts.h"
#include "data/corpus/vocabulary.h"
#include "data/corpus/wiki_dump.h"
#include "data/energon/inspect_energon.h"
#include "data/energon/make_energon.h"
#include "data/files/inspect.h"
#include "data/files/rearrange.h"
#include "data/files/statistics.h"
#include "data/files/tokenizer_source.h"
#include "data/samples/index_run.h"
#include "data/samples/show_samples.h"

namespace {

using mt::CommandLine;

template <class Summary>
void print_summary(const Summary& summary) {
  mt::JsonWriter json;
  summary.write(json);
  std::cout << json.text() << '\n';
}

// What else preprocess_data.py takes.
void add_megatron_flags(CommandLine& cl) {
  mt::imply(cl, "no token file depends on it: preprocess_data.py too takes 0 in any case",
            {{"--vocab-extra-ids", mt::any(mt::kInteger)}});
  mt::imply(cl, "documents always keep the order of the input, as one partition does",
            {{"--keep-sequential-samples"}, {"--partitions", {mt::kInteger, mt::at_least(1)}}});
  mt::imply(cl, "the best number of workers is one per core, which --workers 0 takes",
            {{"--find-optimal-num-workers"},
             {"--workers-to-check", mt::any(mt::kIntegers)},
             {"--max-documents", {mt::kInteger, mt::at_least(1)}}});
}

void run_preprocess(CommandLine& cl) {
  mt::PreprocessOptions options;
  bool json = false;
  cl.describe("make token files from JSON lines");
  cl.first_run({"--input", "--output-prefix", "--tokenizer-type", "--vocab-file", "--merge-file",
                "--tokenizer-model", "--json-keys", "--append-eod", "--split-sentences",
                "--workers"});
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
  add_megatron_flags(cl);
  cl.parse();
  mt::use_large_pages();
  const auto work = [&](const mt::RunContext& context) {
    const mt::PreprocessSummary summary = mt::preprocess(options, context);
    if (json) print_summary(summary);
  };
  mt::run_until_signal(cl, work, options.resume);
}

// `vocab` and `punkt`: something is learnt from a corpus.
template <class Options, class Train>
void run_training(CommandLine& cl, const Train& train) {
  Options options;
  bool json = false;
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    const auto summary = train(options, context);
    if (json) print_summary(summary);
  });
}

void run_vocab(CommandLine& cl) {
  cl.describe("train the vocabulary of a tokenizer");
  run_training<mt::VocabularyOptions>(cl, mt::train_vocabulary);
}

void run_punkt(CommandLine& cl) {
  cl.describe("train a model of Punkt, which finds the ends of sentences",
              "It learns what nltk's PunktTrainer does; --punkt-model takes it.");
  run_training<mt::PunktOptions>(cl, mt::train_punkt_model);
}

// What `cat` and `head` have in common.
struct Printing {
  std::string prefix;
  mt::DocumentChoice choice;
  mt::TokenizerOptions tokenizer;
  bool text = false;

  void add_to(CommandLine& cl) {
    cl.positional("PREFIX", &prefix, "token file, without .bin or .idx, or an Energon folder");
    cl.flag("--text", &text, "decode, by the tokenizer that the manifest or the options name");
    tokenizer.add_to(cl);
    cl.option("--vocab-size", &tokenizer.vocab_size, "N",
              "NullTokenizer and TikTokenizer: that the token file was made with", mt::at_least(1));
  }
  void print() const {
    const bool is_folder = mt::EnergonFolder::is(prefix);
    if (is_folder && text)
      mt::fail(mt::Exit::usage, "--text: ", prefix, " is an Energon folder, which has no tokens");
    if (is_folder)
      return mt::print_samples(mt::EnergonFolder(prefix), choice,
                               [](std::string_view line) { std::cout << line << '\n'; });
    const mt::IndexedDataset data(prefix);
    const auto decoder = text ? mt::dataset_tokenizer(prefix, tokenizer) : nullptr;
    mt::for_each_document(data.documents(), choice, [&](std::int64_t document) {
      std::cout << mt::document_line(data, document, decoder.get()) << '\n';
    });
  }
};

void run_cat(CommandLine& cl) {
  Printing printing;
  std::int64_t seed = printing.choice.seed;
  cl.describe("print the documents of a token file, one JSON value a line");
  cl.option("--head", &printing.choice.head, "N", "only the first N documents", mt::at_least(0));
  cl.option("--sample", &printing.choice.sample, "N", "N documents drawn uniformly, in their order",
            mt::at_least(0));
  cl.option("--seed", &seed, "N", "of --sample", mt::between(0, 4294967295.0));
  printing.add_to(cl);
  cl.parse();
  printing.choice.seed = static_cast<std::uint32_t>(seed);
  printing.print();
}

void run_head(CommandLine& cl) {
  Printing printing;
  printing.choice.head = 10;
  cl.describe("print the first documents of a token file, one JSON value a line");
  cl.option("--documents,-n", &printing.choice.head, "N", "how many", mt::at_least(0));
  printing.add_to(cl);
  cl.parse();
  printing.print();
}

// `clean` and `dedup`: lines in, lines out; as stdout is the product, the summary goes to a file.
template <class Options, class Run>
void run_filter(CommandLine& cl, const char* schema, const Run& filter) {
  Options options;
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    mt::SummaryFile file(options.lines);
    const mt::FilterSummary summary = filter(options, context);
    context.log.event("done", {{"lines", summary.lines},
                               {"kept", summary.kept},
                               {"changed", summary.changed},
                               {"bad_lines", summary.bad_lines}});
    file.commit(summary, schema);
  });
}

void run_clean(CommandLine& cl) {
  cl.describe("drop and mend JSON lines by addresses, scripts, lengths and damage");
  run_filter<mt::CleanOptions>(cl, "mt-clean/1", mt::clean_lines);
}

void run_dedup(CommandLine& cl) {
  cl.describe("drop JSON lines that are equal or alike, or overlap with evaluation sets");
  run_filter<mt::DedupOptions>(cl, "mt-dedup/1", mt::dedup_lines);
}

void run_merge(CommandLine& cl) {
  mt::MergeOptions options;
  cl.describe("make one token file of several");
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::merge_datasets(options, context); });
}

void run_split(CommandLine& cl) {
  mt::SplitOptions options;
  cl.describe("make several token files of one, by documents");
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(cl,
                       [&](const mt::RunContext& context) { mt::split_dataset(options, context); });
}

void run_index(CommandLine& cl) {
  mt::IndexOptions options;
  bool json = false;
  cl.describe("make the indexes of a training run before it",
              "A run of mt-pretrain with the same options maps them.");
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    const mt::IndexSummary summary = mt::index_run(options, context);
    if (json) return print_summary(summary);
    std::cout << summary.text();
  });
}

void run_samples(CommandLine& cl) {
  mt::ShowSamplesOptions options;
  cl.describe("print samples of BERT, T5 or ICT with their masks marked");
  options.add_to(cl);
  cl.parse();
  mt::run_until_signal(
      cl, [&](const mt::RunContext& context) { mt::show_samples(options, context, std::cout); });
}

void run_wiki(CommandLine& cl) {
  mt::WikiOptions options;
  bool json = false;
  cl.describe("make JSON lines of the articles of a wiki's dump, without markup");
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  if (json && options.output == "-")
    mt::fail(mt::Exit::usage, "--json: the articles go to stdout; expected --output FILE");
  const auto work = [&](const mt::RunContext& context) {
    const mt::WikiSummary summary = mt::read_wiki(options, context);
    if (json) print_summary(summary);
  };
  mt::run_until_signal(cl, work, options.resume);
}

void run_qa(CommandLine& cl) {
  mt::QaPromptOptions options;
  cl.describe("make prompts of questions, and their answers",
              "As Megatron's tools/retro/sft, for mt-finetune sft and for mt-generate.");
  options.add_to(cl);
  cl.parse();
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    mt::write_qa_prompts(options, context, std::cout);
  });
}

void run_mm(CommandLine& cl) {
  mt::EnergonOptions options;
  bool json = false;
  cl.describe("make an Energon folder, tar files of samples, of JSON lines with images",
              "cat, head, check and verify take such a folder, ours or another's.");
  options.add_to(cl);
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    const mt::EnergonSummary summary = mt::make_energon(options, context);
    if (json) print_summary(summary);
  });
}

void run_stats(CommandLine& cl) {
  std::vector<std::string> prefixes;
  bool json = false;
  cl.describe("count tokens and draw the lengths of documents");
  cl.positionals("PREFIX", &prefixes, "token files, without .bin or .idx", 1);
  cl.flag("--json", &json, "print a JSON object for each token file");
  cl.parse();
  std::int64_t tokens = 0, documents = 0;
  for (const std::string& prefix : prefixes) {
    const mt::IndexedDataset data(prefix);
    std::cout << (json ? mt::statistics_json(data) : mt::statistics_text(data)) << '\n';
    tokens += data.tokens();
    documents += data.documents();
  }
  if (prefixes.size() > 1 && !json)
    std::cout << "together: " << tokens << " tokens, " << documents << " documents\n";
}

void run_checksum(CommandLine& cl) {
  std::vector<std::string> prefixes;
  bool together = false;
  cl.describe("print a sum of the documents that does not depend on their order",
              "The sums of several token files add up to that of the merged one.");
  cl.positionals("PREFIX", &prefixes, "token files, without .bin or .idx", 1);
  cl.flag("--together", &together, "one sum of all token files");
  cl.parse();
  mt::Checksum sum;
  for (const std::string& prefix : prefixes) {
    const mt::Checksum one = mt::documents_checksum(mt::IndexedDataset(prefix), cl.log());
    sum += one;
    if (!together) std::cout << one.hex() << "  " << prefix << '\n';
  }
  if (together) std::cout << sum.hex() << '\n';
}

// What `check` and `verify` are given.
void take_prefixes(CommandLine& cl, std::vector<std::string>& prefixes) {
  cl.positionals("PREFIX", &prefixes, "token files, without .bin or .idx, or Energon folders", 1);
}

void run_check(CommandLine& cl) {
  std::vector<std::string> prefixes;
  bool json = false;
  cl.describe("check headers, sizes and offsets of token files");
  take_prefixes(cl, prefixes);
  cl.flag("--json", &json, "print a JSON object for each token file");
  cl.parse();
  const auto print = [&](const auto& data) {
    std::cout << (json ? mt::summary_json(data) : mt::summary_text(data)) << '\n';
  };
  for (const std::string& prefix : prefixes) {
    if (!mt::EnergonFolder::is(prefix)) {
      print(mt::IndexedDataset(prefix));
      continue;
    }
    const mt::EnergonFolder folder(prefix);
    mt::check_indexes(folder);
    print(folder);
  }
}

// What differs, and what is said of it.
struct Verdict {
  std::vector<std::string> differences;
  std::string text;
  const char* in_all;  // where there are such
};

Verdict verdict_of(const std::string& prefix, const mt::RunContext& context) {
  if (!mt::EnergonFolder::is(prefix)) {
    std::vector<std::string> differences = mt::differences_from_manifest(prefix, context.log);
    std::string text = mt::verdict_text(prefix, differences);
    return {std::move(differences), std::move(text),
            "not all token files are as their manifests say"};
  }
  const mt::EnergonFolder folder(prefix);
  std::vector<std::string> differences = mt::differences_in(folder, context);
  std::string text = mt::verdict_text(folder, differences);
  return {std::move(differences), std::move(text),
          "not all Energon folders are as their .nv-meta says"};
}

void run_verify(CommandLine& cl) {
  std::vector<std::string> prefixes;
  bool json = false;
  const char* wrong = nullptr;
  cl.describe("check all of token files against their manifests, and of Energon folders");
  take_prefixes(cl, prefixes);
  cl.flag("--json", &json, "print a JSON object for each token file");
  cl.parse();
  mt::run_until_signal(cl, [&](const mt::RunContext& context) {
    for (const std::string& prefix : prefixes) {
      const Verdict verdict = verdict_of(prefix, context);
      std::cout << (json ? mt::verdict_json(prefix, verdict.differences) : verdict.text) << '\n';
      if (!verdict.differences.empty()) wrong = verdict.in_all;
    }
  });
  if (wrong != nullptr) mt::fail(mt::Exit::difference, wrong);
}

void run(CommandLine& cl) {
  const std::string verb = cl.verb({{"vocab", "train the vocabulary of a tokenizer"},
                                    {"punkt", "train a model that finds sentences"},
                                    {"clean", "drop and mend JSON lines"},
                                    {"dedup", "drop JSON lines that are equal or alike"},
                                    {"wiki", "make JSON lines of a wiki's dump"},
                                    {"qa", "make prompts of questions and their answers"},
                                    {"mm", "make an Energon folder of lines with images"},
                                    {"merge", "make one token file of several"},
                                    {"split", "make several token files of one"},
                                    {"index", "make the indexes of a training run"},
                                    {"samples", "print samples of BERT, T5 or ICT"},
                                    {"cat", "print documents"},
                                    {"head", "print the first documents"},
                                    {"stats", "count tokens and draw the lengths of documents"},
                                    {"check", "check headers, sizes and offsets"},
                                    {"verify", "check all against the manifests"},
                                    {"checksum", "print a sum that knows no order"}});
  if (verb == "vocab") return run_vocab(cl);
  if (verb == "punkt") return run_punkt(cl);
  if (verb == "clean") return run_clean(cl);
  if (verb == "dedup") return run_dedup(cl);
  if (verb == "wiki") return run_wiki(cl);
  if (verb == "qa") return run_qa(cl);
  if (verb == "mm") return run_mm(cl);
  if (verb == "merge") return run_merge(cl);
  if (verb == "split") return run_split(cl);
  if (verb == "index") return run_index(cl);
  if (verb == "samples") return run_samples(cl);
  if (verb == "cat") return run_cat(cl);
  if (verb == "head") return run_head(cl);
  if (verb == "stats") return run_stats(cl);
  if (verb == "check") return run_check(cl);
  if (verb == "verify") return run_verify(cl);
  if (verb == "checksum") return run_checksum(cl);
  run_preprocess(cl);
}

}  // namespace

int mt_preprocess(int argc, char** argv) {
  return mt::run_command("mt-preprocess", argc, argv, run);
}
