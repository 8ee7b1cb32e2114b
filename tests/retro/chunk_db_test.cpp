#include "retro/chunk_db.h"

#include <gtest/gtest.h>

#include <sstream>

#include "retro/chunk_reader.h"
#include "search/hdf5_file.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Rows32 = std::vector<std::uint32_t>;
using Rows64 = std::vector<std::uint64_t>;

RunContext quiet() {
  RunContext context;
  context.log = Log({.program = "test", .level = Log::Level::quiet, .rank = {}, .descriptor = -1});
  return context;
}

// A project with two token files of GPT-2's tokens: "a" of five documents, one of which is empty,
// and "b" of two.
struct Project {
  Project() {
    std::filesystem::create_directory(folder.path("data"));
    options = {.project = folder.path(""),
               .data_path = {"3", "a", "1", "b"},
               .split = "75,25,0",
               .chunk_length = 4,
               .document_block = 3,
               .index_samples = 3,
               .gpt = {.type = "GPT2BPETokenizer",
                       .vocab_file = MT_TESTDATA "/gpt2_bpe/vocab.json",
                       .merge_file = MT_TESTDATA "/gpt2_bpe/merges.txt"},
               .bert = {.type = "BertWordPieceLowerCase",
                        .vocab_file = MT_TESTDATA "/wordpiece/vocab.txt"},
               .threads = 2};
    tokenizer = make_tokenizer(options.gpt);
    const std::int32_t eod = tokenizer->eod();
    const std::int32_t a = id("A"), blank = id("\n");
    Documents first = {{a, a, a, a, a, eod}, {}, {blank, blank, eod}, {a, a, a, a}, {a, eod, a}};
    write_documents(folder.path("data/a"), TokenType::u16, first);
    write_documents(folder.path("data/b"), TokenType::u16, {{eod}, {a, eod}});
  }
  std::int32_t id(std::string_view text) const {
    std::vector<std::int32_t> ids;
    tokenizer->encode(text, ids);
    EXPECT_EQ(ids.size(), 1u);
    return ids[0];
  }
  ChunkDbSummary build() const { return build_chunk_db(options, quiet()); }
  std::string wrong() const {
    return error_of([&] { build(); });
  }
  // All of an array.
  template <class T>
  std::vector<T> read(const std::string& file, const std::string& name,
                      std::int64_t columns) const {
    const Hdf5Reader reader(folder.path("db/" + file));
    const auto type = sizeof(T) == 4 ? Hdf5Type::u32 : Hdf5Type::u64;
    return reader.read<T>(name, 0, reader.rows(name, type, columns));
  }
  std::string bytes(const std::string& file) const { return read_file(folder.path("db/" + file)); }

  Scratch folder;
  ChunkDbOptions options;
  std::unique_ptr<Tokenizer> tokenizer;
};

TEST(ChunkDb, CutsDocumentsAsMegatronDoes) {
  const Project project;
  const ChunkDbSummary summary = project.build();
  EXPECT_EQ(summary.made, 6);
  EXPECT_EQ(summary.found, 0);
  // Blocks of three documents of the four that have tokens: without the EOD at their ends, and
  // those that are white space to a BERT apart.
  const std::string block = "individual/a/00-03.hdf5";
  const Rows32 valid = project.read<std::uint32_t>(block, "chunks_valid", 4);
  ASSERT_EQ(valid.size(), 12u);
  const auto length = [&](std::size_t row) { return valid[4 * row + 3]; };
  EXPECT_EQ(valid, (Rows32{0, 0, 4, length(0), 0, 4, 5, length(1), 2, 0, 4, length(2)}));
  EXPECT_GT(length(0), 0u);
  EXPECT_EQ(length(0), length(2));
  EXPECT_EQ(project.read<std::uint32_t>(block, "chunks_invalid", 4), (Rows32{1, 0, 2, 0}));
  EXPECT_EQ(project.read<std::uint64_t>(block, "doc_offsets", 2), (Rows64{0, 2, 1, 2, 2, 3}));
  // An EOD inside of a chunk stays there.
  const Rows32 last = project.read<std::uint32_t>("individual/a/03-04.hdf5", "chunks_valid", 4);
  ASSERT_EQ(last.size(), 4u);
  EXPECT_EQ(Rows32(last.begin(), last.begin() + 3), (Rows32{3, 0, 3}));
  EXPECT_TRUE(project.read<std::uint32_t>("individual/a/03-04.hdf5", "chunks_invalid", 4).empty());

  const Rows32 training = project.read<std::uint32_t>("merged/train.hdf5", "chunks", 5);
  EXPECT_EQ(training,
            (Rows32{0, 0, 0, 4, length(0), 0, 0, 4, 5, length(1), 0, 2, 0, 4, length(2)}));
  EXPECT_EQ(project.read<std::uint64_t>("merged/train.hdf5", "doc_offsets", 3),
            (Rows64{0, 0, 2, 0, 1, 2, 0, 2, 3, 1, 0, 3}));
  EXPECT_EQ(project.read<std::uint64_t>("merged/train.hdf5", "n_written", 0), Rows64{3});
  EXPECT_EQ(project.read<std::uint32_t>("merged/sampled.hdf5", "chunks", 5),
            Rows32(training.begin(), training.begin() + 10));
  EXPECT_EQ(project.read<std::uint32_t>("merged/valid.hdf5", "chunks", 5),
            (Rows32{0, 3, 0, 3, last[3], 1, 1, 0, 1, length(1)}));

  const std::string infos = project.bytes("indexed_dataset_infos.json");
  EXPECT_TRUE(infos.starts_with(
      "[\n    {\n        \"ratio\": 3.0,\n        \"prefix\": \"a\",\n        \"n_docs\": 4,\n"
      "        \"n_docs_train\": 3,\n        \"n_chunks\": 4,\n        \"n_chunks_train\": 3,\n"))
      << infos;
}

TEST(ChunkDb, StaysWhereItIsWhole) {
  Project project;
  project.build();
  const std::string training = project.bytes("merged/train.hdf5");
  const std::string block = "individual/a/00-03.hdf5", content = project.bytes(block);
  EXPECT_EQ(project.build().found, 6);
  std::filesystem::remove(project.folder.path("db/" + block));
  write_file_atomically(project.folder.path("db/merged/train.hdf5"), "damaged", true);
  EXPECT_EQ(project.build().made, 2);
  EXPECT_EQ(project.bytes(block), content);
  EXPECT_EQ(project.bytes("merged/train.hdf5"), training);
  // A line that was cut is of a file that is not there.
  write_file_atomically(project.folder.path("db/manifest.jsonl"),
                        project.bytes("manifest.jsonl") + "{\"file\":\"indiv", true);
  EXPECT_EQ(project.build().made, 0);
  project.options.threads = 1;
  project.options.force = true;
  std::filesystem::remove_all(project.folder.path("db"));
  project.build();
  EXPECT_EQ(project.bytes(block), content);
  EXPECT_EQ(project.bytes("merged/train.hdf5"), training);
}

TEST(ChunkDb, RefusesWhatIsNotItsOwn) {
  Project project;
  project.build();
  const auto refused = [&](auto change, const std::string& code) {
    const ChunkDbOptions before = project.options;
    change(project.options);
    const std::string wrong = project.wrong();
    EXPECT_EQ(wrong.substr(0, 3), code) << wrong;
    project.options.force = true;
    EXPECT_EQ(project.wrong(), "");
    project.options = before;
    project.options.force = true;
    EXPECT_EQ(project.wrong(), "");
    project.options = before;
  };
  refused([](ChunkDbOptions& o) { o.chunk_length = 2; }, "78 ");
  refused([](ChunkDbOptions& o) { o.bert.type = "BertWordPieceCase"; }, "78 ");
  refused([](ChunkDbOptions& o) { o.document_block = 2; }, "73 ");
  const std::string bin = bin_path(project.folder.path("data/a"));
  std::filesystem::remove(manifest_path(project.folder.path("data/a")));
  EXPECT_EQ(project.build().found, 6);  // its hash is that of the file
  std::string tokens = read_file(bin);
  tokens[0] = static_cast<char>(tokens[0] + 1);
  write_file_atomically(bin, tokens, true);
  EXPECT_EQ(project.wrong(), "78 " + project.folder.path("db/individual/a/00-03.hdf5") +
                                 ": was made of other token files, by other tokenizers or with "
                                 "other settings; --force makes it anew");
}

TEST(ChunkDb, SaysWhatCannotBe) {
  Project project;
  const ChunkDbOptions right = project.options;
  const auto wrong = [&](auto change) {
    project.options = right;
    change(project.options);
    return project.wrong();
  };
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.split = "969,30,1"; }),
            "78 --retro-gpt-split 969,30,1: begins with the percents of documents that chunks are "
            "retrieved from; expected more than 0 and at most 100");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.split = "1,2,3,4"; }),
            "64 --retro-gpt-split \"1,2,3,4\": 4 numbers, expected up to three");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.gpt = {.type = "GPT2BPETokenizer"}; }),
            "64 --retro-gpt-vocab-file: not given, --retro-gpt-tokenizer-type GPT2BPETokenizer "
            "needs it");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.gpt = {.type = {}, .merge_file = "m"}; }),
            "64 --retro-gpt-merge-file: needs --retro-gpt-tokenizer-type");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.bert.vocab_file.clear(); }),
            concat("64 --retro-bert-vocab-file: not given, --retro-bert-tokenizer-type ",
                   right.bert.type, " needs it"));
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.index_samples = 30; }),
            "78 --retro-index-ntrain 30: asks a for 22 chunks, and its documents for training have "
            "3");
  for (const char* prefix : {"../a", "/a"})
    EXPECT_EQ(wrong([&](ChunkDbOptions& o) { o.data_path = {prefix}; }),
              concat("64 --retro-gpt-data-path: ", prefix,
                     ": expected a prefix in the project's folder data"));
  EXPECT_EQ(wrong([](ChunkDbOptions& o) {
              o.data_path = {"a", "b", "a"};
            }),
            "64 --retro-gpt-data-path: a: is named twice");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.data_path = {"none"}; }).substr(0, 3), "66 ");
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.gpt.vocab_file = "none.json"; }).substr(0, 3), "66 ");
  {
    IndexedDatasetWriter writer(project.folder.path("data/sentences"), TokenType::u16, {});
    writer.add_document(std::vector<std::int32_t>{1, 2}, std::vector<std::int32_t>{1, 1});
    writer.finish();
    writer.commit({});
  }
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.data_path = {"sentences"}; }),
            "65 " + idx_path(project.folder.path("data/sentences")) +
                ": document 0 has several sequences, expected one, as without --split-sentences");
  write_documents(project.folder.path("data/empty"), TokenType::u16, {{}});
  EXPECT_EQ(wrong([](ChunkDbOptions& o) { o.data_path = {"empty"}; }),
            "65 " + idx_path(project.folder.path("data/empty")) + ": has no documents");
}

std::string lines_of(const Project& project, const std::string& name,
                     std::optional<std::int64_t> head = {}) {
  std::ostringstream out;
  show_chunks({.project = project.folder.path(""), .name = name, .head = head}, quiet(), out);
  return out.str();
}

TEST(ChunkReader, PrintsTheTextsOfChunks) {
  const Project project;
  project.build();
  const std::string lines = lines_of(project, "valid");
  EXPECT_EQ(lines.substr(0, lines.find(",\"bert_length")),
            R"({"chunk":0,"prefix":"a","document":3,"begin":0,"end":3)");
  EXPECT_NE(lines.find(R"("text":"A<|endoftext|>A"})"), std::string::npos) << lines;
  EXPECT_NE(lines.find(R"({"chunk":1,"prefix":"b","document":1,"begin":0,"end":1,)"),
            std::string::npos)
      << lines;
  EXPECT_EQ(lines_of(project, "train", 1), lines_of(project, "sampled", 1));
  EXPECT_EQ(lines_of(project, "train", 0), "");
}

TEST(ChunkReader, RefusesChunksThatAreNotThere) {
  const Project project;
  project.build();
  const std::string path = project.folder.path("db/merged/train.hdf5");
  const auto wrong = [&](const Rows32& row) {
    Hdf5Writer file(path, true);
    file.write<std::uint32_t>("chunks", {Hdf5Type::u32, 1, 5}, row);
    file.finish();
    file.commit();
    return error_of([&] { lines_of(project, "train"); });
  };
  EXPECT_EQ(wrong({0, 3, 0, 3, 1}), "");
  for (const Rows32& row :
       {Rows32{2, 0, 0, 1, 1}, Rows32{0, 4, 0, 1, 1}, Rows32{0, 3, 0, 4, 1}, Rows32{0, 3, 2, 1, 1}})
    EXPECT_EQ(wrong(row),
              concat("65 ", path, ": chunk 0: tokens ", row[2], " to ", row[3], " of document ",
                     row[1], " of token file ", row[0], ", which are not there"));
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { lines_of(project, "train"); }).substr(0, 3), "66 ");
}

}  // namespace
}  // namespace mt
