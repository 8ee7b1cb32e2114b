// preprocess() and the looks into its results, with a small GPT-2 tokenizer.
#include "data/corpus/preprocess.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "data/corpus/vocabulary.h"
#include "data/files/inspect.h"
#include "data/files/rearrange.h"
#include "data/files/tokenizer_source.h"
#include "tests/data/support.h"

namespace mt {
namespace {

const TokenizerOptions kTokenizer = {.type = "GPT2BPETokenizer",
                                     .vocab_file = MT_TESTDATA "/gpt2_bpe/vocab.json",
                                     .merge_file = MT_TESTDATA "/gpt2_bpe/merges.txt"};

RunContext quiet() {
  RunContext context;
  context.log = Log({.program = "test", .level = Log::Level::quiet, .rank = {}, .descriptor = -1});
  context.version = "test";
  return context;
}

struct Corpus {
  explicit Corpus(const std::string& content) : input(folder.path("in.jsonl")) {
    write_file_atomically(input, content, false);
    options.inputs = {input};
    options.output_prefix = folder.path("o");
    options.tokenizer = kTokenizer;
    options.workers = 2;
  }
  PreprocessSummary run() { return preprocess(options, quiet()); }
  std::string bytes(const std::string& end) {
    return read_file(folder.path("o_text_document") + end);
  }

  Scratch folder;
  std::string input;
  PreprocessOptions options;
};

std::vector<std::string> document_lines(const std::string& prefix, const Tokenizer* tokenizer) {
  const IndexedDataset data(prefix);
  std::vector<std::string> lines;
  for (std::int64_t d = 0; d < data.documents(); ++d)
    lines.push_back(document_line(data, d, tokenizer));
  return lines;
}

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 30000; ++i)
    text += "{\"text\":\"" + std::string(static_cast<std::size_t>(i % 90), 'a') + " number " +
            std::to_string(i) + "\"}\n";
  return text;
}

TEST(Preprocess, OneSequenceForEachTextOfALine) {
  Corpus corpus(
      "{\"text\":\"ab\"}\n{\"text\":[\"a\",\"\",\"bc\"]}\n{\"text\":\"\"}\n{\"text\":[]}\n");
  const PreprocessSummary summary = corpus.run();
  EXPECT_EQ(summary.lines, 4);
  ASSERT_EQ(summary.datasets.size(), 1U);
  EXPECT_EQ(summary.datasets[0].documents, 4);
  EXPECT_EQ(summary.datasets[0].sequences, 3);
  EXPECT_EQ(document_lines(corpus.folder.path("o_text_document"), nullptr),
            (std::vector<std::string>{"[64,65]", "[[64],[65,66]]", "[]", "[]"}));
}

TEST(Preprocess, EodEndsTheLastSequenceOfADocumentThatIsNotEmpty) {
  Corpus corpus("{\"text\":\"ab\"}\n{\"text\":[\"a\",\"bc\",\"\"]}\n{\"text\":\"\"}");
  corpus.options.append_eod = true;
  corpus.run();
  const std::string eod = std::to_string(make_tokenizer(kTokenizer)->eod());
  EXPECT_EQ(document_lines(corpus.folder.path("o_text_document"), nullptr),
            (std::vector<std::string>{"[64,65," + eod + "]", "[[64],[65,66," + eod + "]]", "[]"}));
}

TEST(Preprocess, EachKeyMakesACompleteDataset) {
  Corpus corpus("{\"text\":\"ab\",\"title\":\"c\"}\n{\"title\":\"d\",\"text\":\"\"}\n");
  corpus.options.json_keys = {"title", "text"};
  EXPECT_EQ(corpus.run().datasets.size(), 2U);
  EXPECT_EQ(document_lines(corpus.folder.path("o_title_document"), nullptr),
            (std::vector<std::string>{"[66]", "[67]"}));
  EXPECT_EQ(document_lines(corpus.folder.path("o_text_document"), nullptr),
            (std::vector<std::string>{"[64,65]", "[]"}));
  corpus.options.json_keys = {"text", "text"};
  corpus.options.overwrite = true;
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::usage);
}

TEST(Preprocess, TheNumberOfWorkersChangesNoByte) {
  std::vector<std::string> all;
  for (const int workers : {1, 2, 7}) {
    Corpus corpus(many_lines());
    corpus.options.workers = workers;
    corpus.run();
    all.push_back(corpus.bytes(".bin") + corpus.bytes(".idx"));
  }
  EXPECT_GT(all[0].size(), 1000000U);
  EXPECT_TRUE(all[1] == all[0]);
  EXPECT_TRUE(all[2] == all[0]);
}

TEST(Preprocess, TextsComeBackAndMakeTheSameDatasetAgain) {
  Corpus corpus(
      "{\"text\":\"na\xC3\xAFve \\u0000 text\"}\n{\"text\":[\"a\",\"bc\"]}\n{\"text\":\"\"}\n");
  corpus.options.append_eod = true;
  corpus.run();
  const auto tokenizer = dataset_tokenizer(corpus.folder.path("o_text_document"), {});
  std::string again;
  for (const std::string& line :
       document_lines(corpus.folder.path("o_text_document"), tokenizer.get()))
    again += line + "\n";
  Corpus second(again);
  second.options.append_eod = true;
  second.run();
  EXPECT_EQ(second.bytes(".bin"), corpus.bytes(".bin"));
  EXPECT_EQ(second.bytes(".idx"), corpus.bytes(".idx"));
}

TEST(Preprocess, ABadLineStopsItAndLeavesNothing) {
  Corpus corpus(many_lines() + "{\"text\":3}\n{\"text\n");
  EXPECT_EQ(error_of([&] { corpus.run(); }),
            "65 " + corpus.input + ":30001: the value of \"text\" is not a string");
  EXPECT_EQ(corpus.folder.entries(), 1U);
}

TEST(Preprocess, BadLinesAreSkippedOrCollected) {
  const std::string bad = "{\"text\":3}\n\n{\"text\n";
  Corpus corpus("{\"text\":\"a\"}\n" + bad + "{\"text\":\"b\"}\n");
  corpus.options.on_error = "quarantine=" + corpus.folder.path("bad");
  const PreprocessSummary summary = corpus.run();
  EXPECT_EQ(summary.lines, 5);
  EXPECT_EQ(summary.bad_lines, 3);
  EXPECT_EQ(summary.datasets[0].documents, 2);
  EXPECT_EQ(read_file(corpus.folder.path("bad")), bad);
  const std::string bin = corpus.bytes(".bin");
  corpus.options.on_error = "skip";
  corpus.options.overwrite = true;
  EXPECT_EQ(corpus.run().bad_lines, 3);
  EXPECT_EQ(corpus.bytes(".bin"), bin);
  for (const char* policy : {"", "quarantine=", "ignore"}) {
    corpus.options.on_error = policy;
    EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::usage) << policy;
  }
}

TEST(Preprocess, NoLinesMakeAnEmptyDataset) {
  Corpus corpus("");
  EXPECT_EQ(corpus.run().datasets[0].documents, 0);
  EXPECT_EQ(IndexedDataset(corpus.folder.path("o_text_document")).documents(), 0);
}

TEST(Preprocess, ACheckpointThatThrowsLeavesNothing) {
  Corpus corpus(many_lines());
  RunContext context = quiet();
  int blocks = 0;
  context.checkpoint = [&] {
    if (++blocks == 3) fail(Exit::stopped, "now");
    return false;
  };
  EXPECT_EQ(error_of([&] { preprocess(corpus.options, context); }), "75 now");
  EXPECT_EQ(corpus.folder.entries(), 1U);
}

// Ends a run at a look at signals, a later one each time, until it comes to its end; how many runs.
int run_with_interruptions(Corpus& corpus, int end) {
  for (int runs = 0;; ++runs) {
    RunContext context = quiet();
    int looks = 0;
    context.checkpoint = [&] {
      if (++looks == end + runs) fail(Exit::stopped, "now");
      return false;
    };
    corpus.options.workers = 1 + runs % 3;
    if (code_of([&] { preprocess(corpus.options, context); }) == Exit::ok) return runs + 1;
  }
}

TEST(Preprocess, AResumedRunGivesTheSameBytes) {
  const std::string content = many_lines() + "{\"text\":3}\n" + many_lines();
  Corpus whole(content);
  whole.options.on_error = "quarantine=" + whole.folder.path("bad");
  whole.run();
  for (const int end : {1, 2, 3}) {
    Corpus corpus(content);
    corpus.options.on_error = "quarantine=" + corpus.folder.path("bad");
    corpus.options.resume = true;
    EXPECT_GT(run_with_interruptions(corpus, end), 2);
    EXPECT_EQ(corpus.bytes(".bin"), whole.bytes(".bin"));
    EXPECT_EQ(corpus.bytes(".idx"), whole.bytes(".idx"));
    EXPECT_EQ(read_file(corpus.folder.path("bad")), "{\"text\":3}\n");
    EXPECT_EQ(corpus.folder.entries(), 5U);
  }
}

TEST(Preprocess, AJournalIsForTheRunThatBeganIt) {
  Corpus corpus(many_lines());
  RunContext context = quiet();
  context.checkpoint = []() -> bool { fail(Exit::stopped, "now"); };
  corpus.options.resume = true;
  EXPECT_EQ(code_of([&] { preprocess(corpus.options, context); }), Exit::stopped);
  corpus.options.append_eod = true;
  EXPECT_EQ(error_of([&] { corpus.run(); }),
            "78 " + corpus.folder.path("o.journal") +
                ": of a run with other inputs or options; remove it to begin anew");
  write_file_atomically(corpus.folder.path("o.journal"), "{}\n", true);
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::bad_data);
  corpus.options.append_eod = false;
  write_file_atomically(corpus.folder.path("o.journal"), "{\"sch", true);  // cut: begun anew
  corpus.run();
  EXPECT_EQ(corpus.folder.entries(), 4U);
  EXPECT_FALSE(corpus.run().lines.has_value());  // it is all done
  corpus.options.json_keys = {"text", "title"};
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::cannot_create);
  corpus.options.json_keys = {"text"};
  corpus.options.output_prefix = corpus.folder.path("p");
  corpus.options.inputs = {"-"};
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::usage);
}

TEST(Preprocess, MergedShardsAreAsOfOneRun) {
  Corpus corpus(many_lines());
  corpus.run();
  const std::string whole = corpus.bytes(".bin") + corpus.bytes(".idx");
  MergeOptions merge;
  for (const char* shard : {"0/3", "1/3", "2/3"}) {
    corpus.options.shard = shard;
    corpus.options.output_prefix = corpus.folder.path(std::string(1, shard[0]));
    corpus.run();
    merge.prefixes.push_back(corpus.options.output_prefix + "_text_document");
  }
  merge.output_prefix = corpus.folder.path("m");
  merge_datasets(merge, quiet());
  EXPECT_EQ(read_file(corpus.folder.path("m.bin")) + read_file(corpus.folder.path("m.idx")), whole);
  for (const char* shard : {"", "3/3", "-1/3", "1", "1/", "0/0", "1/2x"}) {
    corpus.options.shard = shard;
    corpus.options.overwrite = true;
    EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::usage) << shard;
  }
}

TEST(Preprocess, LinesOfTextAreDocumentsWithTheirNewlines) {
  Corpus corpus("ab\n\nc\r\nd");
  corpus.options.format = "text";
  EXPECT_EQ(corpus.run().datasets[0].prefix, corpus.folder.path("o"));
  EXPECT_EQ(document_lines(corpus.folder.path("o"), nullptr),
            (std::vector<std::string>{"[64,65,198]", "[198]", "[66,198]", "[67]"}));
  Corpus bad("a\rb\n\xFF\nc\n");
  bad.options.format = "text";
  bad.options.on_error = "skip";
  EXPECT_EQ(bad.run().bad_lines, 2);
  bad.options.json_keys = {"title"};
  EXPECT_EQ(code_of([&] { bad.run(); }), Exit::usage);
}

TEST(Preprocess, ImagesFollowTheirTexts) {
  Corpus corpus("{\"text\":\"abc\"}\n{\"text\":\"\"}\n");
  const std::string images = corpus.folder.path("images");
  std::filesystem::create_directories(images);
  write_file_atomically(images + "/b.png", std::string("\1\0\0\0\2", 5), false);
  write_file_atomically(images + "/c.png", "", false);
  corpus.options.image_folder = images;
  corpus.options.pad_length = 5;
  corpus.options.append_eod = true;
  corpus.run();
  const IndexedDataset data(corpus.folder.path("o"));
  EXPECT_TRUE(data.multimodal());
  EXPECT_EQ(data.type(), TokenType::i32);
  const std::string eod = std::to_string(make_tokenizer(kTokenizer)->eod());
  EXPECT_EQ(document_lines(corpus.folder.path("o"), nullptr),
            (std::vector<std::string>{"[[64,65,66," + eod + "," + eod + "],[3,1,2]]", "[[],[0]]"}));
  EXPECT_EQ(data.mode(0), 0);
  EXPECT_EQ(data.mode(1), 1);
  corpus.options.overwrite = true;
  write_file_atomically(images + "/d.png", "", false);
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::bad_data);
  std::filesystem::remove(images + "/d.png");
  std::filesystem::remove(images + "/c.png");
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::bad_data);
  corpus.options.pad_length = 0;
  EXPECT_EQ(code_of([&] { corpus.run(); }), Exit::usage);
}

TEST(Preprocess, MemoryBoundsALine) {
  Corpus corpus("{\"text\":\"" + std::string(3 << 20, ' ') + "\"}\n");
  corpus.options.memory = 16;
  EXPECT_EQ(error_of([&] { corpus.run(); }),
            "65 " + corpus.input +
                ":1: line of more than 1048576 bytes; with more --memory it may be longer");
  corpus.options.memory = 64;
  EXPECT_EQ(corpus.run().lines, 1);
}

TEST(DatasetTokenizer, IsTheManifestsOrTheSame) {
  Corpus corpus("{\"text\":\"ab\"}\n");
  corpus.run();
  const std::string prefix = corpus.folder.path("o_text_document");
  const std::string identity = make_tokenizer(kTokenizer)->identity();
  EXPECT_EQ(dataset_tokenizer(prefix, {})->identity(), identity);
  EXPECT_EQ(dataset_tokenizer(prefix, kTokenizer)->identity(), identity);

  std::string merges = read_file(kTokenizer.merge_file);
  merges.resize(merges.rfind('\n', merges.size() - 2) + 1);  // one merge fewer
  write_file_atomically(corpus.folder.path("merges.txt"), merges, false);
  TokenizerOptions other = kTokenizer;
  other.merge_file = corpus.folder.path("merges.txt");
  EXPECT_EQ(code_of([&] { dataset_tokenizer(prefix, other); }), Exit::bad_config);

  std::filesystem::remove(manifest_path(prefix));
  EXPECT_EQ(code_of([&] { dataset_tokenizer(prefix, {}); }), Exit::bad_config);
  EXPECT_EQ(dataset_tokenizer(prefix, kTokenizer)->identity(), identity);
}

TEST(Verify, FindsWhatDiffers) {
  Corpus corpus("{\"text\":\"abc\"}\n");
  corpus.run();
  const std::string prefix = corpus.folder.path("o_text_document");
  EXPECT_TRUE(differences_from_manifest(prefix).empty());
  std::string bin = read_file(bin_path(prefix));
  bin[5] = '\x7F';
  write_file_atomically(bin_path(prefix), bin, true);
  const auto differences = differences_from_manifest(prefix);
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_TRUE(differences[0].starts_with(bin_path(prefix) + ": hash ")) << differences[0];
  EXPECT_TRUE(differences[1].starts_with(bin_path(prefix) + ": token 2 is 32")) << differences[1];
  std::filesystem::remove(manifest_path(prefix));
  EXPECT_EQ(code_of([&] { differences_from_manifest(prefix); }), Exit::no_input);
}

std::vector<std::int64_t> chosen(std::int64_t documents, const DocumentChoice& choice) {
  std::vector<std::int64_t> result;
  for_each_document(documents, choice, [&](std::int64_t d) { result.push_back(d); });
  return result;
}

TEST(DocumentChoice, HeadAndSample) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(chosen(3, {}), (Numbers{0, 1, 2}));
  EXPECT_EQ(chosen(3, {.head = 2, .sample = {}}), (Numbers{0, 1}));
  EXPECT_EQ(chosen(3, {.head = 5, .sample = 7}), (Numbers{0, 1, 2}));
  EXPECT_EQ(chosen(3, {.head = {}, .sample = 0}), Numbers{});
  std::vector<int> counts(10);
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    const Numbers sample = chosen(10, {.head = {}, .sample = 3, .seed = seed});
    ASSERT_EQ(sample.size(), 3U);
    EXPECT_TRUE(sample[0] < sample[1] && sample[1] < sample[2]);
    for (const std::int64_t d : sample) ++counts[static_cast<std::size_t>(d)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 600, 100);  // about five deviations
}

TEST(Vocabulary, IsTheSameForAnyNumberOfWorkersAndCanEncode) {
  Corpus corpus(many_lines());
  VocabularyOptions options;
  options.corpus.inputs = {corpus.input};
  options.vocab_size = 300;
  std::vector<std::string> merges;
  for (const int workers : {1, 2, 7}) {
    options.corpus.workers = workers;
    options.output_dir = corpus.folder.path("v" + std::to_string(workers));
    EXPECT_EQ(train_vocabulary(options, quiet()).vocab_size, 300);
    merges.push_back(read_file(options.output_dir + "/merges.txt"));
  }
  EXPECT_EQ(merges[1], merges[0]);
  EXPECT_EQ(merges[2], merges[0]);
  corpus.options.tokenizer.vocab_file = options.output_dir + "/vocab.json";
  corpus.options.tokenizer.merge_file = options.output_dir + "/merges.txt";
  EXPECT_EQ(corpus.run().datasets[0].documents, 30000);
}

TEST(Vocabulary, PlainTextIsReadWithItsNewlines) {
  Corpus corpus("ab\n\nab\n\nab\n\nab\n\n");
  VocabularyOptions options;
  options.corpus.inputs = {corpus.input};
  options.corpus.format = "text";
  options.vocab_size = 258;
  options.output_dir = corpus.folder.path("v");
  EXPECT_EQ(train_vocabulary(options, quiet()).lines, 8);
  EXPECT_TRUE(read_file(options.output_dir + "/merges.txt").ends_with("a b\n"));
}

}  // namespace
}  // namespace mt
